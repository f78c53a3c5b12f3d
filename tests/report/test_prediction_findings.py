"""Sentences about the prediction of ambiguity, from frames made by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.report.prediction_findings import (
    fewer_metrics,
    held_out,
    leaks,
    nothing_predicted,
    predicted,
    shuffled_groups,
)


def test_each_split_is_told_with_its_scores_or_the_reason_for_none():
    row = {"features": "metrics", "classifier": "CatBoost", "test_rows": 1200, "incomplete": 3, "roc_auc": 0.9}
    table = pd.DataFrame(
        [
            row | {"source": "a", "target": "a", "balanced_accuracy": 0.8, "low": 0.7, "high": 0.9, "note": ""},
            row | {"source": "a", "target": "b", "balanced_accuracy": 0.8, "low": np.nan, "high": np.nan, "note": ""},
            row | {"source": "b", "target": "a", "balanced_accuracy": np.nan, "note": "every test row is decisive"},
            row | {"source": "c", "target": "c", "features": "metrics and model", "note": ""},
        ]
    )
    assert predicted({"table2_cross_suite": table}) == [
        "Table 2, a: CatBoost, balanced accuracy 0.80 (0.70 to 0.90), ROC-AUC 0.90; "
        "1,200 replies, of these without some metric: 3.",
        "Table 2, a to b: CatBoost, balanced accuracy 0.80 (no interval), ROC-AUC 0.90; "
        "1,200 replies, of these without some metric: 3.",
        "Table 2, b to a: undefined, as every test row is decisive.",
    ]
    assert nothing_predicted(table) == ""
    assert nothing_predicted(table.iloc[[2]]) == "every test row is decisive"
    assert nothing_predicted(table.head(0)) == "the study has nothing to split in this way"


def test_unseen_systems_are_told_with_the_models_that_they_are_of():
    models = pd.DataFrame({"model_name": ["M", "N", "O"], "card": ["m", "m", "o"]}, index=["m", "n", "o"])
    assert held_out(["m", "n"], models) == ["Unseen in Table 3: 2 systems of 1 model, of 3 systems of 2 models: M, N."]
    assert held_out(["o"], models.drop(columns="card")) == ["Unseen in Table 3: 1 model, of 3 models: O."]
    assert held_out([], models) == []


def test_what_a_prediction_rests_on_is_told_by_suite():
    means = pd.DataFrame({"source": "a", "features": ["metrics", "majority"], "balanced_accuracy": [0.71, 0.5]})
    assert fewer_metrics(means.assign(classifier=["XGBoost", "none"])) == [
        "a, mean balanced accuracy of XGBoost: metrics 0.71, majority 0.50."
    ]
    drops = pd.DataFrame({"source": list("aabbc"), "group": ["prompt", "reply", "prompt", "reply", "reply"]})
    assert shuffled_groups(drops.assign(drop=[0.1, 0.3, -0.1, 0.0, np.nan])) == [
        "a: shuffling the reply's columns costs most, 0.30 of balanced accuracy.",
        "b: shuffling no group of columns costs anything.",
    ]


def test_splits_that_are_not_clean_and_features_that_tell_the_label_are_named():
    checks = pd.DataFrame({"source": list("abc"), "target": list("abd"), "strongest": ["x", "", "y"]})
    checks["clean"] = pd.array([True, None, False], "boolean")
    checks = checks.assign(alone=[0.7, np.nan, 0.99], telling=["", "", "y, z"])
    assert leaks(checks) == [
        "Splits without a sign of rows on both sides: 1 of 2; others: c to d; "
        "1 cannot be checked, as they hold one class only.",
        "The strongest feature alone is y, with a balanced accuracy of 0.99; "
        "features that nearly tell the label, and may hold it: y, z (c to d).",
    ]
    assert leaks(checks.head(1))[1].endswith("of 0.70; features that nearly tell the label, and may hold it: none.")
    assert len(leaks(checks.assign(alone=np.nan))) == 1
    assert leaks(checks.iloc[[1]]) == []
