"""Sentences about the letters of multiple choice, from frames made by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.report import judge_findings as told


def test_letters_have_a_range_over_models_or_the_numbers_of_the_only_one():
    rows = pd.DataFrame({"suite_title": "B", "reading": "exact", "accuracy": [0.5, 0.25], "unmapped": [0.0, 0.4]})
    assert told.letters(rows) == [
        "B, exact reading: accuracy lies between 0.25 and 0.50, and 0% to 40% of a model's replies name no letter."
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
