"""Sentences about the prediction of ambiguity, from frames made by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.report.prediction_findings import (
    PRINTED,
    choice,
    fewer_metrics,
    group_split,
    held_out,
    leaks,
    nothing_predicted,
    predicted,
    printed,
    shuffled_groups,
    unseen_families,
    with_ids,
    with_titles,
)

OVER = "for these models; over groups of prompts"


def results(rows: list[dict[str, object]]) -> pd.DataFrame:
    """Rows of a table of results that are alike but for what is given."""
    alike = {"features": "metrics", "classifier": "CatBoost", "test_rows": 1200, "test_groups": 40, "incomplete": 3}
    alike |= {"roc_auc": 0.9, "low": np.nan, "high": np.nan, "interval": "", "note": "", "unit": "suites"}
    return pd.DataFrame([alike | row for row in rows])


def test_each_split_is_told_with_its_scores_or_the_reason_for_none():
    a, b, c = ({"source_title": one, "target_title": one, "unit": "prompts"} for one in "ABC")
    to_b = {"source_title": "A", "target_title": "B"}
    table = results(
        [
            a | {"balanced_accuracy": 0.8, "low": 0.7, "high": 0.9, "interval": OVER},
            a | {"balanced_accuracy": 0.8, "low": 0.7, "high": 0.9, "interval": OVER, "unit": "groups"},
            to_b | {"balanced_accuracy": 0.8, "test_groups": 9},
            {
                "source_title": "B",
                "target_title": "A",
                "balanced_accuracy": np.nan,
                "note": "every test row is decisive",
            },
            b | {"balanced_accuracy": 1.0},
            c | {"features": "metrics and model", "balanced_accuracy": 0.9},
        ]
    )
    assert predicted({"table2_cross_suite": table}) == [
        f"Table 2, A, split by prompts: CatBoost, balanced accuracy 0.80 (0.70 to 0.90 {OVER}), ROC-AUC 0.90; "
        "1,200 replies in 40 groups of prompts, of these replies without some metric: 3.",
        "Table 2, A to B: CatBoost, balanced accuracy 0.80 (no interval: fewer than 10 groups), ROC-AUC 0.90; "
        "1,200 replies in 9 groups of prompts, of these replies without some metric: 3.",
        "Table 2, B to A: undefined, as every test row is decisive.",
        "Table 2, B, split by prompts: CatBoost, balanced accuracy 1.00 (no interval), ROC-AUC 0.90; "
        "1,200 replies in 40 groups of prompts, of these replies without some metric: 3.",
    ]
    assert nothing_predicted(table) == ""
    assert nothing_predicted(table.iloc[[3]]) == "every test row is decisive"
    assert nothing_predicted(table.head(0)) == "the study has nothing to split in this way"


def test_the_split_by_groups_is_told_beside_that_by_prompts():
    a, b, c = ({"source_title": one, "target_title": one} for one in "ABC")
    table = results(
        [
            a | {"unit": "prompts", "balanced_accuracy": 0.8},
            a | {"unit": "groups", "balanced_accuracy": 0.75, "test_rows": 1190},
            b | {"unit": "prompts", "balanced_accuracy": 0.6},
            b | {"unit": "groups", "balanced_accuracy": 0.6},
            c | {"unit": "prompts", "balanced_accuracy": 0.6},
            c | {"unit": "groups", "balanced_accuracy": np.nan, "note": "no training row"},
        ]
    )
    assert group_split(table) == [
        "A, with all variants of a question on one side: balanced accuracy 0.75 instead of 0.80 by prompts; it is"
        " another draw of rows, too.",
        "B: the split by groups of prompts gives the same results as that by prompts.",
    ]
    assert group_split(table[table["unit"] == "prompts"]) == []


def test_what_the_choice_on_the_test_rows_adds_is_told():
    two = [{"source_title": one, "target_title": one, "balanced_accuracy": 0.8} for one in "AB"]
    table = results(two).assign(nested_balanced_accuracy=[0.8, 0.74], optimism=[0.0, 0.06])
    inner = "with the classifier chosen inside the training rows, balanced accuracy is"
    assert choice({"table1_within_suite": table, "table3_unseen_slm": table.head(1)}) == [
        f"Table 1: {inner} 0.74 to 0.80; the best of five on the test rows has 0.00 to 0.06 more (0.03 on average).",
        f"Table 3: {inner} 0.80; the best of five on the test rows has 0.00 more.",
    ]
    assert choice({"table1_within_suite": results(two)}) == [], "no choice was made"
    assert choice({"table1_within_suite": table.assign(optimism=[0.0, np.nan], unit="groups")}) == [
        "Table 1: nothing could be chosen inside the training rows, which hold one group of prompts, or labels of one"
        " class where a fold is left out: B, split by groups.",
        f"Table 1: {inner} 0.80; the best of five on the test rows has 0.00 more.",
    ]
    undefined = table.assign(optimism=np.nan, balanced_accuracy=np.nan)
    assert choice({"table1_within_suite": undefined}) == [], "why is told with the split"


def test_families_are_told_with_their_interval_or_why_there_is_none():
    row = {"classifier": "XGBoost", "balanced_accuracy": 0.7, "families": 15, "models": 26, "undefined": 0}
    row |= {"low": 0.65, "high": 0.75, "new_low": 0.5, "new_high": 0.9, "lowest": 0.55, "highest": 0.85}
    none = dict.fromkeys(("low", "high", "new_low", "new_high"), np.nan)
    found = pd.DataFrame(
        [
            row | {"suite_title": "A"},
            row | none | {"suite_title": "B", "families": 1, "models": 1, "undefined": 2},
            row | none | {"suite_title": "C"},
            row | none | {"suite_title": "D", "balanced_accuracy": np.nan},
        ]
    )
    start = "Table 3 with each family left out in turn"
    assert unseen_families(found) == [
        f"{start}, A: XGBoost, balanced accuracy 0.70 on average over 15 families (0.65 to 0.75 over families; a"
        " further model, of a new family: 0.50 to 0.90); 26 models, from 0.55 to 0.85.",
        f"{start}, B: XGBoost, balanced accuracy 0.70 on average over 1 family (no interval: fewer than 10 families); "
        "1 model, from 0.55 to 0.85; 2 models without a value.",
        f"{start}, C: XGBoost, balanced accuracy 0.70 on average over 15 families (no interval: all families have one"
        " mean); 26 models, from 0.55 to 0.85.",
    ]


def test_the_printed_tables_are_told_by_what_they_print():
    within = pd.DataFrame({"suite": ["A", "B"], "balanced_accuracy": [0.8, 0.6]})
    across = pd.DataFrame({"source": ["A", "B"], "target": ["B", "A"], "balanced_accuracy": [0.62, 0.55]})
    unseen = pd.DataFrame({"suite": ["B"], "balanced_accuracy": [0.63]})
    told = printed(dict(zip(PRINTED, (within, across, unseen), strict=True)))
    assert told[:3] == [
        "Table 1 as printed: within a suite the best classifier has a balanced accuracy of 0.60 (B) to 0.80 (A).",
        "Table 2 as printed: trained on another suite it is 0.55 (B to A) to 0.62 (A to B), below that of Table 1 on"
        " the target suite in 1 of 2 pairs: by -0.02 (A to B) to 0.25 (B to A), 0.11 on average.",
        "Table 3 as printed: for unseen models, to whose prompts seen models replied, it differs from Table 1 by"
        " B +0.03.",
    ]


def test_ids_and_titles_stand_side_by_side():
    titles = {"airbench": "AirBench", "sst": "Simple Safety Tests"}
    frame = pd.DataFrame({"source": pd.Categorical(["airbench"]), "target": ["mine"], "value": [1]})
    shown = with_titles(frame, titles)
    assert list(shown) == ["source", "source_title", "target", "target_title", "value"]
    assert shown.iloc[0].tolist() == ["airbench", "AirBench", "mine", "mine", 1] and "source_title" not in frame
    back = with_ids(pd.DataFrame({"suite": ["AirBench", "Other"], "value": [1, 2]}), titles)
    assert back["suite"].tolist() == ["airbench", ""] and list(back) == ["suite", "suite_title", "value"]


def test_unseen_systems_are_told_with_the_models_that_they_are_of():
    models = pd.DataFrame({"model_name": ["M", "N", "O"], "card": ["m", "m", "o"]}, index=["m", "n", "o"])
    assert held_out(["m", "n"], models) == ["Unseen in Table 3: 2 systems of 1 model, of 3 systems of 2 models: M, N."]
    assert held_out(["o"], models.drop(columns="card")) == ["Unseen in Table 3: 1 model, of 3 models: O."]
    assert held_out([], models) == []


def test_what_a_prediction_rests_on_is_told_by_suite():
    means = pd.DataFrame({"source_title": "a", "features": ["metrics", "majority"], "balanced_accuracy": [0.71, 0.5]})
    assert fewer_metrics(means.assign(classifier=["XGBoost", "none"])) == [
        "a, mean balanced accuracy of XGBoost: metrics 0.71, majority 0.50."
    ]
    drops = pd.DataFrame({"source_title": list("aabbc"), "group": ["prompt", "reply", "prompt", "reply", "reply"]})
    assert shuffled_groups(drops.assign(drop=[0.1, 0.3, -0.1, 0.0, np.nan])) == [
        "a: shuffling the reply's columns costs most, 0.30 of balanced accuracy.",
        "b: shuffling no group of columns costs anything.",
    ]


def test_splits_that_are_not_clean_and_features_that_tell_the_label_are_named():
    checks = pd.DataFrame({"source_title": list("abc"), "target_title": list("abd"), "strongest": ["x", "", "y"]})
    checks["clean"] = pd.array([True, None, False], "boolean")
    checks = checks.assign(alone=[0.7, np.nan, 0.99], telling=["", "", "y, z"], unit="groups", shared_groups=0)
    what = "Splits without a sign of leakage (a group of prompts and a model on both sides, or random labels that are"
    assert leaks(checks) == [
        f"{what} predicted): 1 of 2; others: c to d; 1 cannot be checked, as they hold one class only.",
        "The strongest feature alone is y, with a balanced accuracy of 0.99; "
        "features that nearly tell the label, and may hold it: y, z (c to d).",
    ]
    assert leaks(checks.head(1))[1].endswith("of 0.70; features that nearly tell the label, and may hold it: none.")
    assert len(leaks(checks.assign(alone=np.nan))) == 1
    assert leaks(checks.iloc[[1]]) == []
    parted = checks.head(1).assign(unit="prompts", shared_groups=1200, clean=False)
    assert leaks(parted)[:2] == [
        f"{what} predicted): 0 of 1; others: a, split by prompts.",
        "Groups of variants with prompts on both sides of the split by prompts: a 1,200.",
    ]
