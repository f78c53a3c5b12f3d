"""The paper's own printed tables (arXiv 2608.17183v1) as CSV, public numbers of larger models, and their loader."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pandas as pd

from slmsafety.errors import unknown
from slmsafety.models.cards import load_cards
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
TWO_JUDGE_MODELS = 16
"""Models behind Tables 5 and 6 (section 3.1), which the paper does not name."""
_LLM_LABELS, _HELM_MEANS = "llm_labels.csv", "helm_safety_means.csv"


def printed(name: str) -> pd.DataFrame:
    """Return a table as the paper prints it; raises InputError for an unknown name."""
    if name not in PRINTED:
        raise unknown("printed table", name, PRINTED)
    table = _read(f"{PRINTED[name]}.csv")
    # A count that a row lacks makes pandas read the whole column as floats.
    counts = [c for c in table.select_dtypes("float64") if (table[c].dropna() % 1 == 0).all()]
    return table.astype(dict.fromkeys(counts, "Int64"))


def table_bytes() -> dict[str, bytes]:
    """Return the bytes of each printed table's file, for the record of what a figure was made from."""
    folder = resources.files(__name__)
    return {f"published/{file}.csv": folder.joinpath(f"{file}.csv").read_bytes() for file in PRINTED.values()}


def llm_labels() -> pd.DataFrame:
    """Return what larger models were called in small public samples: suite, model, judge, source, n, hcr, ar and srr.

    One row a model; `source` is the repository and commit. AirBench: 80 prompts each, by AirBench's own judges.
    HarmBench: 385 prompts that another project asked (greedy), whose judge knows refusal, partial refusal and
    compliance. XSTest: the 200 unsafe prompts, by people. Numbers only; the texts are not here.
    """
    table = _read(_LLM_LABELS)
    counts = table[["harmful", "ambiguous", "safe"]]
    n = counts.sum(axis=1)
    rates = counts.div(n, axis=0).set_axis(["hcr", "ar", "srr"], axis=1)
    return table[["suite", "model", "judge", "source"]].assign(n=n).join(rates)


def helm_means() -> pd.DataFrame:
    """Return suite, model and mean of the 87 rows of HELM Safety's leaderboard; BBQ's is its accuracy.

    HELM publishes means over two judges and no shares of labels. From score_matrix_helm.csv of
    hisakakoji2/safety-criteria-iv-experiment at 251a3cd (MIT), to four decimals; a few of its models are small.
    """
    return _read(_HELM_MEANS).melt("model", var_name="suite", value_name="mean")[["suite", "model", "mean"]]


def reference_bytes() -> dict[str, bytes]:
    """Return the bytes of the files behind `llm_labels` and `helm_means`, by name as in `table_bytes`."""
    folder = resources.files(__name__)
    return {f"published/{file}": folder.joinpath(file).read_bytes() for file in (_LLM_LABELS, _HELM_MEANS)}


def sst_outcome() -> pd.DataFrame:
    """Return what GPT-4o called 16 models' replies to Simple Safety Tests, which Table A1 lacks: Table 6's margin.

    One row with suite, model (missing: all together), n, hcr, ar and srr.
    """
    table = printed("table6_confusion")
    counts = table[table["suite"] == "SimpleSafety"].groupby("gpt")["count"].sum()
    n = int(counts.sum())
    rates = {name: counts[score] / n for name, score in (("hcr", 0.0), ("ar", 0.5), ("srr", 1.0))}
    return pd.DataFrame([{"suite": "sst", "model": None, "n": n, **rates}])


def outcomes() -> pd.DataFrame:
    """Return Table A1 as outcomes: suite, model (ids), n, hcr, ar, srr, mean and the columns of an own run.

    Rates have two decimals. n is the suite's prompt count; the paper prints no count of rows without a label, so the
    counts by status are 0 and say nothing.
    """
    ids = load_cards().set_index("name")["id"]
    table = printed("table_a1_outcomes")
    table["model"] = table["model"].map(ids)
    table["suite"] = table["suite"].map(SUITES)
    table["n"] = table["suite"].map(PROMPTS)
    table["accuracy"] = np.nan
    table[[f"n_{status}" for status in STATUSES]] = 0
    return table[["suite", "model", "n", "hcr", "ar", "srr", "mean", "accuracy", *(f"n_{s}" for s in STATUSES)]]


def robustness() -> pd.DataFrame:
    """Return Table 5 as printed under the names of `analysis.agreement.Agreement`, suites by their ids."""
    names = {"ar_gpt": "ar_first", "ar_llama": "ar_second", "exact_agree": "exact", "kappa_w": "kappa"}
    names |= {"boundary_rate": "boundary", "flip_rate": "flips"}
    names |= {"rank_range_gpt": "rank_range_first", "rank_range_llama": "rank_range_second"}
    table = printed("table5_judge_robustness").rename(columns=names)
    return table.assign(suite=table["suite"].map(SUITES))


def reported_features() -> pd.DataFrame:
    """Return the model features behind the printed Table 4, indexed by model id, one column a printed row.

    Sizes are the real ones (the cards). A flag is set when the text of Table A2 mentions the feature; the printed
    numbers come out only with two exceptions, which were found by search: SwiGLU also for MobileLLM, and "chat tuned"
    for TinyLlama, the two danubes and MobileLLM. "Instruction tuned" is a name with IT, and Dolly.
    """
    reported = printed("table_a2_models").set_index("model")
    cards = load_cards().set_index("name").loc[reported.index]
    names = reported.index.to_series()
    chat = {"TinyLlama 1.1B chat", "danube2 1.8b chat", "danube3.1 4b chat", "MobileLLM-1B"}
    features = pd.DataFrame(
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
    return features.set_axis(cards["id"].rename("model"))


def _read(file: str) -> pd.DataFrame:
    with resources.files(__name__).joinpath(file).open(encoding="utf-8") as handle:
        return pd.read_csv(handle)
