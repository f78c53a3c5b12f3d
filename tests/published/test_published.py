from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slmsafety import published
from slmsafety.analysis.outcomes import OUTCOME_COLUMNS
from slmsafety.errors import InputError
from slmsafety.models.cards import load_cards
from slmsafety.published import (
    PRINTED,
    PROMPTS,
    SUITES,
    helm_means,
    llm_labels,
    outcomes,
    printed,
    reference_bytes,
    reported_features,
    robustness,
    sst_outcome,
    table4_features,
    table_bytes,
)

ROWS = {
    "table1_within_suite": 3,
    "table2_cross_suite": 6,
    "table3_unseen_slm": 2,
    "table4_metadata": 13,
    "table5_judge_robustness": 2,
    "table6_confusion": 18,
    "table_a1_outcomes": 78,
    "table_a2_models": 26,
}


@pytest.mark.parametrize("name", ROWS)
def test_every_printed_table_loads_whole(name):
    assert set(ROWS) == set(PRINTED)
    assert len(printed(name)) == ROWS[name]
    assert not printed(name).duplicated().any()


def test_only_table_a2_has_gaps():
    assert [name for name in PRINTED if printed(name).isna().any(axis=None)] == ["table_a2_models"]


def test_an_unknown_table_names_the_nearest():
    with pytest.raises(InputError, match="unknown printed table 'table4_metdata'; did you mean 'table4_metadata'"):
        printed("table4_metdata")


def test_a_caller_cannot_change_a_table():
    table = printed("table_a1_outcomes")
    table["mean"] = 0
    assert printed("table_a1_outcomes")["mean"].gt(0).all()


def test_table_bytes_are_the_files_read():
    found = table_bytes()
    assert len({hashlib.sha256(data).hexdigest() for data in found.values()}) == len(PRINTED)
    header = found["published/table_a1.csv"].splitlines()[0].decode()
    assert header.split(",") == list(printed("table_a1_outcomes").columns)


def test_table_a1_holds_every_card_of_the_paper_once_a_suite():
    table, cards = printed("table_a1_outcomes"), load_cards()
    names = set(cards.loc[cards["in_paper"], "name"])
    assert len(names) == 26
    assert table["suite"].unique().tolist() == ["AirBench", "SALAD", "HarmBench"]
    for _, group in table.groupby("suite"):
        assert len(group) == 26 and set(group["model"]) == names
    assert set(printed("table_a2_models")["model"]) == names


def test_outcomes_have_the_columns_of_an_own_run():
    got = outcomes()
    assert [name for name in got if name != "groups"] == list(OUTCOME_COLUMNS)
    assert got.groupby("suite")["groups"].unique().map(list).to_dict() == {
        "airbench": [1898],
        "salad": [21318],
        "harmbench": [400],
    }
    assert got[["suite", "model"]].notna().all(axis=None) and not got.duplicated(["suite", "model"]).any()
    assert set(got["model"]) == set(load_cards().query("in_paper")["id"])
    assert got.groupby("suite")["n"].unique().map(list).to_dict() == {name: [n] for name, n in PROMPTS.items()}
    assert got["accuracy"].isna().all()
    assert (got[[name for name in got if name.startswith("n_")]] == 0).all(axis=None)


def test_outcomes_keep_the_printed_rates():
    row = outcomes().set_index(["suite", "model"]).loc[("harmbench", "gpt2-small")]
    # Table A1, GPT-2 Small on HarmBench
    assert row[["mean", "hcr", "ar", "srr"]].tolist() == [0.56, 0.01, 0.86, 0.13]


def test_suites_of_every_printed_table_are_known():
    for name in PRINTED:
        for column in {"suite", "source", "target"} & set(printed(name).columns):
            assert set(printed(name)[column]) <= set(SUITES)


def test_robustness_is_table_5_with_other_names():
    got, table = robustness(), printed("table5_judge_robustness")
    assert got["suite"].tolist() == ["harmbench", "sst"]
    assert {"ar_first", "ar_second", "exact", "kappa", "boundary", "flips"} <= set(got.columns)
    assert got.drop(columns="suite").to_numpy().tolist() == table.drop(columns="suite").to_numpy().tolist()


def test_reported_features_has_a_column_for_each_row_of_table_4():
    got = reported_features()
    assert list(got.columns) == printed("table4_metadata")["feature"].tolist()
    assert got.index.name == "model" and set(got.index) == set(load_cards().query("in_paper")["id"])
    assert (got.dtypes == np.float64).all()
    assert got.isna().sum().to_dict() == {name: int(name == "Context") for name in got}, "MobileLLM has no context"


def test_reported_flags_are_what_table_a2_mentions_and_two_exceptions():
    got = reported_features()
    models = {
        name: set(got.index[got[name] == 1]) for name in ("SwiGLU", "Chat tuned", "Instruction tuned", "RoPE", "SiLU")
    }
    assert models["SwiGLU"] == {"qwen2.5-0.5b-it", "qwen2.5-1.5b-it", "qwen2.5-3b-it", "mobilellm-1b"}
    assert models["Chat tuned"] == {"tinyllama-1.1b-chat", "danube2-1.8b-chat", "danube3.1-4b-chat", "mobilellm-1b"}
    assert models["SiLU"] == {"deepseek-r1-qwen-1.5b", "danube2-1.8b-chat", "danube3.1-4b-chat"}
    assert "dolly-v2-3b" in models["Instruction tuned"] and len(models["Instruction tuned"]) == 13
    assert "stablelm2-1.6b" in models["RoPE"], "partial RoPE is RoPE"
    names = load_cards().set_index("id")["name"]
    assert all(names[model].endswith(" IT") for model in models["Instruction tuned"] - {"dolly-v2-3b"})


def test_reported_sizes_are_the_real_ones():
    # Table A2 prints 16 heads and hidden size 2048 for Gemma 2-2B; the released model has 8 and 2304.
    assert reported_features().loc["gemma2-2b-it", ["Heads", "Hidden size"]].tolist() == [8, 2304]
    assert printed("table_a2_models").set_index("model").loc["Gemma 2-2B IT", ["heads", "hidden"]].tolist() == [
        16,
        2048,
    ]


@pytest.mark.skipif("SLMSAFETY_DATA" not in os.environ, reason="SLMSAFETY_DATA is not set")
def test_the_numbers_of_larger_models_are_those_of_their_sources():
    folder = Path(os.environ["SLMSAFETY_DATA"])
    helm = pd.read_csv(folder / "leaderboards/helm_safety/score_matrix_helm.csv", index_col=0)
    columns = {"harmbench": "HarmBench::LM Evaluated Safety score", "bbq": "BBQ::BBQ accuracy"}
    columns["sst"] = "SimpleSafetyTests::LM Evaluated Safety score"
    means = helm_means().pivot(index="model", columns="suite", values="mean")
    assert len(means) == len(helm) == 87
    for suite, column in columns.items():
        assert (means[suite] - helm.loc[means.index, column]).abs().max() <= 5e-5
    labels = llm_labels().set_index("model")
    scored = folder / "airbench/responses"
    found = {
        "Llama 3 8B": pd.read_json(scored / "llama-3-8b_gpt-4o_scored.json")["score"],
        "GPT-4 Turbo": pd.read_csv(scored / "gpt-4-turbo_gpt-4o_scored.csv")["score"],
        "Qwen3.5 35B-A3B": pd.read_json(scored / "qwen3.5-35b_claude-sonnet-4_scored.json")["score"],
    }
    prompts = pd.read_csv(folder / "responses/refusal_stability/prompts.csv").set_index("id")["source"]
    haiku = pd.read_csv(folder / "responses/refusal_stability/claude_haiku_llama_qwen25.csv")
    haiku = haiku[haiku["temperature"].eq(0) & haiku["seed"].eq(42) & haiku["prompt_id"].map(prompts).eq("harmbench")]
    score = haiku["label"].map({"COMPLY": 0, "PARTIAL": 0.5, "REFUSE": 1})
    found["Qwen2.5 7B Instruct"] = score[haiku["model"].str.contains("Qwen")]
    found["Llama 3.1 8B Instruct"] = score[haiku["model"].str.contains("Llama")]
    for model, key in (("GPT-4", "gpt4"), ("Llama 2", "llama2new")):
        rows = pd.read_csv(folder / f"responses/xstest/xstest_v2_completions_{key}_gpteval.csv")
        unsafe = rows.loc[rows["type"].str.startswith("contrast"), "final_label"]
        found[model] = unsafe.str[0].map({"1": 0, "3": 0.5, "2": 1})
    assert set(found) == set(labels.index)
    for model, values in found.items():
        row = labels.loc[model]
        assert row["n"] == len(values)
        counts = [int((values == value).sum()) for value in (0, 0.5, 1)]
        assert [round(row[rate] * row["n"]) for rate in ("hcr", "ar", "srr")] == counts


def test_sst_s_margin_of_table_6_by_hand():
    (row,) = sst_outcome().to_dict("records")
    assert row["n"] == 1600
    assert [round(row[rate] * 1600) for rate in ("hcr", "ar", "srr")] == [749, 102, 749]


def test_every_file_of_numbers_is_among_what_figures_are_made_from():
    names = {*table_bytes(), *reference_bytes()}
    folder = Path(published.__file__).parent
    assert names == {f"published/{path.name}" for path in folder.glob("*.csv")}


def test_the_features_of_table_4_of_other_models_are_as_far_as_their_cards_tell():
    cards = load_cards().set_index("id")
    got, reported = table4_features(cards), reported_features()
    pd.testing.assert_frame_equal(got.loc[reported.index], reported)
    tuned, base = got.loc["smollm2-135m-it-q4"], got.loc["gemma3-270m-base-q4"]
    assert tuned[["Heads", "Hidden size", "Layers", "RMSNorm", "SwiGLU", "SiLU"]].tolist() == [9, 576, 30, 1, 1, 0]
    assert tuned[["Instruction tuned", "Chat tuned"]].isna().all(), "no card tells which"
    assert base[["Instruction tuned", "Chat tuned", "GQA"]].tolist() == [0, 0, 1]
    silent = pd.DataFrame(index=pd.Index(["own"]), columns=cards.columns, dtype=object).assign(params_m=7.0)
    assert table4_features(silent).loc["own"].dropna().to_dict() == {"Params": 7.0}
