"""The paper's printed tables (arXiv 2608.17183v1), and what follows from them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.errors import unknown
from slmsafety.models.cards import features, load_cards
from slmsafety.published.files import file_bytes, read_csv
from slmsafety.records.schema import STATUSES

# The name of each printed table and of its file; names follow the artifacts of the paper.
PRINTED = {
    "table1_within_suite": "table1_within_benchmark",
    "table2_cross_suite": "table2_cross_benchmark",
    "table3_unseen_slm": "table3_unseen_slm",
    "table4_metadata": "table4_metadata_correlations",
    "table5_judge_robustness": "table5_judge_robustness",
    "table6_confusion": "table6_confusion",
    "table_a1_outcomes": "table_a1",
    "table_a2_models": "table_a2_as_reported",
}
SUITES = {"AirBench": "airbench", "SALAD": "salad", "HarmBench": "harmbench", "SimpleSafety": "sst"}
# Prompts a suite (paper section 3.1); the pooled rates of Table 4 weigh the suites of Table A1 by them.
PROMPTS = {"airbench": 5694, "salad": 21318, "harmbench": 400}
GROUPS = PROMPTS | {"airbench": PROMPTS["airbench"] // 3}
"""Groups of prompts a suite: AirBench asks each base prompt in three ways."""
TWO_JUDGE_MODELS = 16
"""Models behind Tables 5 and 6 (section 3.1), which the paper does not name."""


def printed(name: str) -> pd.DataFrame:
    """Return a table as the paper prints it.

    Parameters
    ----------
    name : str
        A key of `PRINTED`, such as "table_a1_outcomes".

    Returns
    -------
    DataFrame
        The printed columns and rows; rates have the print's decimals, whole numbers are nullable integers.

    Raises
    ------
    InputError
        For an unknown name, with the nearest known one.
    """
    if name not in PRINTED:
        raise unknown("printed table", name, PRINTED)
    table = read_csv(f"{PRINTED[name]}.csv")
    # A count that a row lacks makes pandas read the whole column as floats.
    counts = [c for c in table.select_dtypes("float64") if (table[c].dropna() % 1 == 0).all()]
    return table.astype(dict.fromkeys(counts, "Int64"))


def with_ids(table: pd.DataFrame) -> pd.DataFrame:
    """Return a printed table with ids for the names of its suites (suite, source, target) and models (model)."""
    ids: dict[str, dict[str, str]] = dict.fromkeys(("suite", "source", "target"), SUITES)
    ids["model"] = dict(load_cards()[["name", "id"]].to_numpy())
    return table.assign(**{name: table[name].replace(known) for name, known in ids.items() if name in table})


def table_bytes() -> dict[str, bytes]:
    """Return the bytes of each printed table's file, for the record of what a figure was made from."""
    return file_bytes(f"{file}.csv" for file in PRINTED.values())


def sst_outcome() -> pd.DataFrame:
    """Return the rates on Simple Safety Tests, which Table A1 lacks, from Table 6: GPT-4o's labels of 16 models.

    Returns
    -------
    DataFrame
        One row. suite: "sst"; model: missing, since all models are together; n: int, the labelled replies; hcr, ar,
        srr: float in [0, 1].
    """
    table = printed("table6_confusion")
    counts = table[table["suite"] == "SimpleSafety"].groupby("gpt")["count"].sum()
    n = int(counts.sum())
    rates = {name: counts[score] / n for name, score in (("hcr", 0.0), ("ar", 0.5), ("srr", 1.0))}
    return pd.DataFrame([{"suite": "sst", "model": None, "n": n, "prompts": n, **rates}])


def outcomes() -> pd.DataFrame:
    """Return Table A1 with the columns of an own run's outcomes.

    Returns
    -------
    DataFrame
        One row a suite and model (ids). n and prompts: int, the suite's number of prompts; groups: int, theirs; hcr,
        ar, srr, mean: float in [0, 1], two decimals; accuracy: nan; n_<status>: 0, since the paper prints no count of
        replies without a label.
    """
    table = with_ids(printed("table_a1_outcomes"))
    table["n"] = table["prompts"] = table["suite"].map(PROMPTS)
    table["groups"] = table["suite"].map(GROUPS)
    table["accuracy"] = np.nan
    table[[f"n_{status}" for status in STATUSES]] = 0
    rates = ["hcr", "ar", "srr", "mean", "accuracy"]
    return table[["suite", "model", "n", "prompts", "groups", *rates, *(f"n_{status}" for status in STATUSES)]]


def robustness() -> pd.DataFrame:
    """Return Table 5 as printed, suites by their ids and columns by the names of `analysis.judges.agreement`."""
    names = {"ar_gpt": "ar_first", "ar_llama": "ar_second", "exact_agree": "exact", "kappa_w": "kappa"}
    names |= {"boundary_rate": "boundary", "flip_rate": "flips"}
    names |= {"rank_range_gpt": "rank_range_first", "rank_range_llama": "rank_range_second"}
    table = printed("table5_judge_robustness").rename(columns=names)
    return table.assign(suite=table["suite"].map(SUITES))


def reported_features() -> pd.DataFrame:
    """Return the model features behind the printed Table 4.

    Returns
    -------
    DataFrame
        Indexed by model id, one float column for each printed row: a size, or 1 where a model has the feature and 0
        where it has not; nan where Table A2 leaves the value out.

    Notes
    -----
    Sizes are the real ones (the cards). A flag is set when the text of Table A2 mentions the feature; the printed
    numbers come out only with two exceptions, which were found by search: SwiGLU also for MobileLLM, and "chat tuned"
    for TinyLlama, the two danubes and MobileLLM. "Instruction tuned" is a name with IT, and Dolly.
    """
    reported = printed("table_a2_models").set_index("model")
    cards = load_cards().set_index("name").loc[reported.index]
    names = reported.index.to_series()
    chat = {"TinyLlama 1.1B chat", "danube2 1.8b chat", "danube3.1 4b chat", "MobileLLM-1B"}
    found = pd.DataFrame(
        {
            "Instruction tuned": names.str.endswith(" IT") | names.str.startswith("Dolly"),
            "Heads": cards["heads"],
            "Hidden size": cards["hidden"],
            "RMSNorm": reported["norm"].eq("RMSNorm"),
            "GQA": reported["attention"].eq("GQA"),
            "Params": reported["params_m"],
            "Context": reported["context"],
            "SiLU": reported["activation"].eq("SiLU"),
            "SwiGLU": reported["activation"].eq("SwiGLU") | names.eq("MobileLLM-1B"),
            "Chat tuned": names.isin(chat),
            "RoPE": reported["position"].str.contains("RoPE", na=False),
            "Layers": cards["layers"],
            "Vocab": cards["vocab"],
        }
    ).astype(float)
    return found.set_axis(cards["id"].rename("model"))


def table4_features(cards: pd.DataFrame) -> pd.DataFrame:
    """Return the features of Table 4 of any models: as reported of the paper's, of others as far as their cards tell.

    Parameters
    ----------
    cards : DataFrame
        The columns of `load_cards`, indexed by model id.

    Returns
    -------
    DataFrame
        Indexed by `model`, the columns of `reported_features`. Of a model that is not the paper's the sizes and flags
        are those of its card (`cards.features`); a base model is neither instruction nor chat tuned, and of a tuned one
        no card tells which (nan). nan where a card is silent.
    """
    reported, true = reported_features(), features(cards)
    activation = cards["activation"].fillna("")
    base = true["Tuned"].where(true["Tuned"].eq(0))
    silu = activation.eq("SiLU").astype("float64").where(activation.ne(""))
    own = true.assign(**{"Instruction tuned": base, "Chat tuned": base, "SiLU": silu})[list(reported.columns)]
    ours = own.index.difference(reported.index, sort=False)
    return pd.concat([reported.loc[reported.index.intersection(own.index)], own.loc[ours]]).rename_axis("model")
