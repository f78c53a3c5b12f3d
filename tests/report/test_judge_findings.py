"""Sentences about the letters of multiple choice, from frames made by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.report import judge_findings as told


def test_letters_have_a_range_over_models_or_the_numbers_of_the_only_one():
    rows = pd.DataFrame({"suite_title": "B", "reading": "exact", "accuracy": [0.5, 0.25], "unmapped": [0.0, 0.4]})
    assert told.letters(rows) == [
        "B, exact reading: accuracy is 0.25 to 0.50, and 0% to 40% of a model's replies name no letter."
    ]
    assert told.letters(rows.tail(1)) == [
        "B, exact reading: accuracy is 0.25, and 40% of the model's replies name no letter."
    ]


def test_formulas_are_compared_where_both_have_replies():
    bias = pd.DataFrame({"suite": "b", "model": list("mmnn"), "reading": "exact", "formula": ["HELM", "Parrish"] * 2})
    bias["disambiguated"] = [0.5, 0.25, 0.1, np.nan]
    differ, without = told.bias_formulas(bias)
    assert differ.endswith("by up to 0.25.") and without.endswith("there: 1 of 2.")
    assert len(told.bias_formulas(bias.head(2))) == len(told.bias_formulas(bias.tail(2))) == 1
    assert told.bias_formulas(bias.head(0)) == []


def test_coverage_says_what_the_surer_half_gains():
    curve = {"threshold": [0.4, 0.7, 0.9], "n": [200, 110, 60], "coverage": [1.0, 0.55, 0.3], "exact": [0.7, 0.9, 1.0]}
    rows = pd.DataFrame(curve).assign(suite_title="B", judge="j")
    (sentence,) = told.judge_coverage(rows)
    assert sentence == (
        "B, j: 70% of 200 replies get the reference's label, and 90% of the 110 with a probability of 0.70 or more."
    )
    assert told.judge_coverage(rows.tail(1)) == [
        "B, j: 100% of 60 replies get the reference's label, and 100% of the 60 with a probability of 0.90 or more."
    ]
    assert told.judge_coverage(rows.head(0)) == []


def test_an_interval_that_is_lacking_is_told():
    found = {
        "n": 80,
        "exact": 0.8,
        "ar_first": 0.3,
        "ar_second": 0.4,
        "kappa": 0.7,
        "kappa_low": 0.5,
        "kappa_high": 0.8,
    }
    assert "(linear kappa 0.70, 95 % interval 0.50 to 0.80)" in told.against_hand_labels("j", found, 0)[0]
    none = told.against_hand_labels("j", {**found, "kappa_low": np.nan, "kappa_high": np.nan}, 0)[0]
    assert "(linear kappa 0.70, no interval)" in none
    effects = pd.DataFrame(
        {"effect": ["difference", "prompts", "rubric"], "value": 0.1, "value_low": 0.05, "value_high": 0.2}
    )
    assert told.crossed_rubrics("j", effects).endswith("the rubric +0.100 (+0.050 to +0.200).")
    few = told.crossed_rubrics("j", effects.assign(value_low=np.nan, value_high=np.nan))
    assert few.endswith(
        "the rubric +0.100. There is no interval: one of the suites has fewer than ten groups of prompts."
    )
