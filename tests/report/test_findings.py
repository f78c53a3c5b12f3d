from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.report import findings


def test_undefined_metrics_are_counted_over_suites():
    frame = pd.DataFrame(
        {"metric": ["a", "a", "b"], "suite": ["s", "t", "s"], "n": [990, 1000, 5], "missing": [10, 0, 0]}
    )
    assert findings.undefined_metrics(frame)[0] == "Undefined: a of 10 in 2,000."
    assert findings.undefined_metrics(frame.assign(missing=0)) == ["Undefined: no metric of any text."]


def test_associations_say_whether_q_passes_or_that_r_is_undefined():
    frame = pd.DataFrame(
        {
            "metric": ["a", "b", "c"],
            "n": [1500, 20, 2],
            "r": [-0.31, 0.2, np.nan],
            "q": [0.0001, 0.4, np.nan],
            "rho": [-0.3, 0.1, np.nan],
        }
    )
    strong, weak, none = findings.associations(frame)
    assert strong == (
        "a: r = -0.31 with AR over 1,500 prompts (q = 0.0001, which passes q < 0.05); Spearman's rho = -0.30."
    )
    assert "which does not pass" in weak and none == "No correlation with AR is defined for c."
    assert findings.no_correlation(frame) == "" and findings.no_correlation(frame.tail(1))


def test_checks_name_what_turns():
    frame = pd.DataFrame(
        {
            "metric": ["a", "b", "c"],
            "r": [0.3, -0.2, np.nan],
            "rho": [0.2, -0.45, np.nan],
            "within": [-0.1, -0.2, np.nan],
            "turned": [True, False, False],
            "opposite": [1, 0, 0],
            "suites": [2, 2, 0],
            "partial": [0.2, 0.1, np.nan],
            "low": [0.1, np.nan, np.nan],
            "high": [0.5, np.nan, np.nan],
        }
    )
    assert findings.checks(frame) == [
        "Metrics whose rank correlation has another sign, or lies over 0.2 away: b (-0.20, by rank -0.45).",
        "Metrics whose sign turns within suites: a (0.30, within suites -0.10).",
        "Metrics with another sign in some suite than over all prompts: a.",
        "Metrics whose sign turns when the lengths of prompt and reply are held: b.",
        "Metrics whose interval over finest categories leaves 0 out: a (no interval for 1 of 2).",
    ]


def test_the_model_says_what_it_leaves_out():
    assert findings.fitted(12, {"n": 10, "prompts": 5, "left_out": {"no label": 2}}) == [
        "The model takes 10 of 12 replies, to 5 prompts; left out: 2 (no label)."
    ]
    (other,) = findings.fitted(12, {"n": 12, "prompts": 5, "left_out": {}}, "Another model")
    assert other == "Another model takes 12 of 12 replies, to 5 prompts; left out: none."


def test_odds_are_told_where_their_q_passes_in_both_directions():
    frame = pd.DataFrame(
        {
            "metric": list("abcde"),
            "odds_ratio": [1.1, 0.25, 2, 9, 1.5],
            "low": [1.01, 0.1, 1.5, 0.2, 1.01],
            "high": [1.2, 0.5, 3, 90, 2.2],
            "q": [0.04, 0.001, 0.01, 0.3, 0.06],
        }
    )
    assert findings.odds(frame) == [
        "Odds ratios for one SD that pass q < 0.05, the strongest first: "
        "b 0.25 (0.10 to 0.50), c 2.00 (1.50 to 3.00), a 1.10 (1.01 to 1.20)."
    ]
    assert findings.odds(frame.assign(odds_ratio=np.nan, low=np.nan, high=np.nan, q=np.nan))[0].endswith("first: none.")


def test_explained_shares_are_percentages_and_never_minus_zero():
    frame = pd.DataFrame({"by": ["suite", "all"], "n": 10, "missing": [2, 2], "unseen": [-0.001, np.nan]})
    assert findings.explained_prompts(frame)[0].endswith("not seen: suite: 0%")
    assert findings.explained_prompts(frame.tail(1)) == []
    models = pd.DataFrame(
        {"suite": ["s", "all"], "of": "AR", "n": [5, 9], "r2": 0.31, "adjusted": -0.2, "unseen": [0, -1.5]}
    )
    (said,) = findings.explained_models(models)
    assert "explains 31%" in said and "-20% adjusted; -150%" in said and "9 rows" in said
    nothing = models.assign(r2=np.nan)
    assert findings.explained_models(nothing) == [] and findings.nothing_explained(nothing)
    assert findings.nothing_explained(models) == ""


def test_common_quality_compares_the_models_that_have_both_rates():
    frame = pd.DataFrame(
        {"own": [0.2, 0.5, 1.0], "common": [0.4, 0.3, np.nan], "rank": [1, 2, np.nan], "rank_common": [2, 1, np.nan]}
    ).assign(model=["a", "b", "c"])
    assert findings.common_quality(frame) == [
        "AR spans 0.30 over 2 models at their own quality, and 0.10 at a common one.",
        "Those whose rank by AR changes: 2 (by 1 at most).",
    ]
    (spans, _) = findings.common_quality(frame.assign(card="one"))
    assert "over 2 systems of 1 model at" in spans
    assert findings.common_quality(frame.assign(common=np.nan)) == []


def test_prompt_steps_are_sorted_by_what_they_do():
    frame = pd.DataFrame(
        {
            "metric": ["a", "b", "c", "d"],
            "step": [10.0, 1, 0.5, 1],
            "change": [-0.02, 0.01, 0.3, 0.2],
            "low": [-0.03, -0.01, 0.1, 0.01],
            "high": [-0.01, 0.03, 0.5, 0.39],
            "q": [0.01, 0.5, 0.02, 0.06],
        }
    )
    lower, higher = findings.prompt_steps(frame)
    assert lower.endswith("pass q < 0.05: a +10: -0.020 (-0.030 to -0.010).")
    assert higher.endswith("pass q < 0.05: c +0.5: +0.300 (+0.100 to +0.500).")


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
        "Tuned against base: AR +0.12 (+0.01 to +0.20, families resampled; 11 families).",
        "Year of release: r = -0.40 with AR (12 models).",
    ]
    few = findings.model_groups(0.124, np.nan, np.nan, 4, year)[0]
    assert few == "Tuned against base: AR +0.12 (no interval; 4 families)."
    one = findings.model_groups(0.124, np.nan, np.nan, 1, year.replace(12, 1))
    assert one[0].endswith("(no interval; 1 family).") and one[1].endswith("(1 model).")
    assert findings.model_groups(np.nan, np.nan, np.nan, 4, year) == ["Year of release: r = -0.40 with AR (12 models)."]
    assert findings.model_groups(np.nan, np.nan, np.nan, 4, year.replace(-0.4, np.nan)) == []
