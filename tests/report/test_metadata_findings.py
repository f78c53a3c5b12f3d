from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.report import metadata_findings as findings


def test_features_and_what_one_family_moves():
    found = pd.DataFrame({"feature": list("abcde"), "r_ar": [0.1, -0.9, 0.2, np.nan, 0.3]})
    assert findings.strongest_features(found)[0].endswith("with AR: b -0.90; e 0.30; c 0.20; a 0.10.")
    ranges = pd.DataFrame(
        {
            "encoding": ["x", "x", "y"],
            "feature": ["f", "g", "h"],
            "r_ar": [0.5, -0.2, np.nan],
            "low_ar": [0.4, -0.4, np.nan],
            "high_ar": [0.6, 0.1, np.nan],
            "without_ar": ["one", "two", None],
        }
    )
    assert findings.family_ranges(ranges) == [
        "Features, x: 1 of 2 correlations with AR keep their sign whichever family is left out; "
        "g moves most (-0.40 to 0.10, most without two)."
    ]


def test_a_comparison_of_groups_without_interval_says_so():
    year = pd.Series({"feature": "Year", "n": 12, "r_ar": -0.4, "r_score": np.nan})
    assert findings.model_groups(0.124, 0.01, 0.2, 11, year) == [
        "Tuned against base: AR +0.12 (+0.01 to +0.20, over families; 11 families).",
        "Year of release: r = -0.40 with AR (12 models).",
    ]
    few, needs, _ = findings.model_groups(0.124, np.nan, np.nan, 4, year)
    assert needs == "An interval over families needs ten of them, and two on either side."
    assert few == "Tuned against base: AR +0.12 (no interval; 4 families)."
    one = findings.model_groups(0.124, np.nan, np.nan, 1, year.replace(12, 1))
    assert one[0].endswith("(no interval; 1 family).") and one[2].endswith("(1 model).")
    assert findings.model_groups(np.nan, np.nan, np.nan, 4, year) == ["Year of release: r = -0.40 with AR (12 models)."]
    assert findings.model_groups(np.nan, np.nan, np.nan, 4, year.replace(-0.4, np.nan)) == []


def test_features_without_a_correlation_are_named_with_their_models():
    found = pd.DataFrame(
        {"feature": list("abc"), "n": [2, 3, 9], "r_ar": [np.nan, np.nan, 0.1], "r_score": [np.nan, 0.2, 1]}
    )
    (said,) = findings.undefined_features(found)
    assert said.endswith("either side: a (n = 2).") and findings.undefined_features(found.tail(2)) == []
    assert "14 model families" in findings.paper_families(15) and "name 15" in findings.paper_families(15)
