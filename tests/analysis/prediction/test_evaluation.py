from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from prediction_rows import ONE_THREAD, replies

from slmsafety.analysis.prediction.checks import (
    baselines,
    importance,
    leakage,
)
from slmsafety.analysis.prediction.classifiers import (
    Fitting,
)
from slmsafety.analysis.prediction.evaluation import best, best_classifiers, evaluate, prediction_table
from slmsafety.analysis.prediction.features import METRICS, WITH_MODEL, feature_sets
from slmsafety.analysis.prediction.splits import (
    across_suites,
    unseen_models,
    within_suite,
)


def test_results_count_rows_and_missing_metrics():
    rows = replies(prompts=20)
    split = within_suite(rows, 0)[0]
    test = split.tests["a"]
    rows.loc[test[:3], "reply tokens"] = np.nan
    found = evaluate(rows, [split], feature_sets(rows), ONE_THREAD, ["Logistic regression"]).set_index("features")
    assert found["train_rows"].tolist() == [48] * 5 and found["test_rows"].tolist() == [12] * 5
    assert found["ambiguous"].iloc[0] == pytest.approx(rows["ambiguous"][test].mean())
    of_model_3 = int((rows["model"][test] == "m3").sum() + (rows["model"][test[:3]] != "m3").sum())
    expected = {METRICS: 3, WITH_MODEL: of_model_3, "prompt only": 0, "length only": 3, "majority": 0}
    assert found["incomplete"].to_dict() == expected
    most = rows["ambiguous"][split.train].mean() > 0.5
    assert found.loc["majority", "classifier"] == "none"
    assert found.loc["majority", "accuracy"] == pytest.approx((rows["ambiguous"][test] == most).mean())
    assert found.loc["majority", "balanced_accuracy"] == found.loc["majority", "roc_auc"] == 0.5


def test_the_best_is_the_first_of_the_highest():
    scores = [0.6, 0.7, 0.7, np.nan, np.nan, 0.5]
    results = pd.DataFrame(
        {
            "unit": "suites",
            "source": ["a", "a", "a", "b", "b", "a"],
            "target": ["a", "a", "a", "a", "a", "b"],
            "features": METRICS,
            "classifier": ["x", "y", "z", "x", "y", "z"],
            "balanced_accuracy": scores,
        }
    )
    found = best(results)
    assert found[["source", "target", "classifier"]].to_numpy().tolist() == [
        ["a", "a", "y"],
        ["b", "a", "x"],
        ["a", "b", "z"],
    ]
    np.testing.assert_equal(found["worst"].to_numpy(), [0.6, np.nan, 0.5])


def test_the_interval_of_a_result_is_over_groups():
    """Twelve test prompts are enough for an interval where each is a group, and too few where they are seven."""
    rows = replies(prompts=60)
    split = within_suite(rows, 0)[0]
    paired = rows.assign(group=pd.factorize(rows["prompt"])[0])
    paired.loc[split.tests["a"], "group"] = (
        paired["group"][split.tests["a"]].rank(method="dense").astype(int) // 2 + 999
    )
    results = [
        evaluate(frame, [split], {METRICS: ["reply perplexity"]}, ONE_THREAD, ["Logistic regression"]).iloc[0]
        for frame in (rows, paired)
    ]
    assert [row["test_groups"] for row in results] == [12, 7] and [row["train_groups"] for row in results] == [48, 48]
    assert results[0]["balanced_accuracy"] == results[1]["balanced_accuracy"]
    assert results[0]["low"] < results[0]["balanced_accuracy"] < results[0]["high"] and np.isnan(results[1]["low"])


def test_a_table_shows_the_best_of_five_and_the_same_with_metadata():
    rows = replies(prompts=30, strength=4)
    splits = across_suites(rows)
    table = prediction_table(rows, splits, Fitting(1))
    assert table[["source", "target", "features"]].to_numpy().tolist() == [
        ["a", "b", METRICS],
        ["a", "b", WITH_MODEL],
        ["b", "a", METRICS],
        ["b", "a", WITH_MODEL],
    ]
    every = evaluate(rows, splits, {METRICS: feature_sets(rows)[METRICS]}, Fitting(1))
    for source, classifier in best_classifiers(table).items():
        scores = every[every["source"] == source].set_index("classifier")["balanced_accuracy"]
        row = table[(table["source"] == source) & (table["features"] == METRICS)].iloc[0]
        assert len(scores) == 5 and row["balanced_accuracy"] == scores[classifier] == scores.max() > 0.75
        assert row["worst"] == scores.min()
        assert set(table.loc[table["source"] == source, "classifier"]) == {classifier}
    assert "fit_seconds" not in table
    pd.testing.assert_frame_equal(table, prediction_table(rows, splits, Fitting(1)))
    assert set(table["interval"]) == {"for these suites and models; over groups of prompts"}
    empty = prediction_table(rows, [], Fitting(1))
    assert empty.empty and list(empty) == list(table)


def test_a_suite_with_hardly_any_ambiguous_row_gives_reasons_and_no_crash():
    rows = replies(prompts=25)
    rows["ambiguous"] &= rows["suite"] == "a"
    rows.loc[rows["suite"] == "b", "ambiguous"] = np.arange(75) == 0
    rows = pd.concat([rows, rows.head(1).assign(suite="c", prompt=999)], ignore_index=True)
    table = prediction_table(rows, within_suite(rows, 0), ONE_THREAD)
    notes = table.set_index(["source", "features"])["note"]
    assert notes["a", METRICS] == "" and notes["c", METRICS] == "no training row"
    assert notes["b", METRICS] in ("every test row is decisive", "every training row is decisive")
    assert table.set_index("source").loc[["b", "c"], "balanced_accuracy"].isna().all()
    fewer = baselines(rows, within_suite(rows, 0, repeats=2), best_classifiers(table), ONE_THREAD)
    assert fewer.set_index(["source", "features"]).loc[("c", METRICS), "undefined"] == 2
    assert fewer["repeats"].add(fewer["undefined"]).eq(2).all()
    checks = leakage(rows, within_suite(rows, 0), best_classifiers(table), ONE_THREAD).set_index("source")["clean"]
    assert checks["a"] and pd.isna(checks["c"])
    assert (
        importance(rows, within_suite(rows, 0), best_classifiers(table), ONE_THREAD)
        .groupby("source")["note"]
        .first()["c"]
        != ""
    )


def test_an_unseen_model_without_a_row_in_a_suite_gives_a_reason():
    rows = replies(prompts=20)
    rows = rows[(rows["suite"] == "a") | (rows["model"] != "m3")].reset_index(drop=True)
    table = prediction_table(rows, unseen_models(rows, ["m3"]), ONE_THREAD).set_index(["source", "features"])
    assert table.loc[("b", METRICS), "note"] == "no test row" and table.loc[("b", METRICS), "test_rows"] == 0
    assert np.isnan(table.loc[("b", METRICS), "accuracy"]) and table.loc[("a", METRICS), "test_rows"] == 20
