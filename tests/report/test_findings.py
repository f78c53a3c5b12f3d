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
            "kinds": [65, 20, 2],
            "q_kinds": [0.21, 0.6, np.nan],
            "rho": [-0.3, 0.1, np.nan],
        }
    )
    strong, weak, alone, none = findings.associations(frame)
    assert strong == (
        "a: r = -0.31 with AR over 1,500 prompts (q = 0.0001, which passes q < 0.05; over kinds q = 0.21);"
        " Spearman's rho = -0.30."
    )
    assert alone == (
        "With prompts as independent draws 1 of 2 pass, and over 65 kinds of prompts 0; passed by the first alone: a."
    )
    untested = findings.associations(frame.assign(q_kinds=np.nan, kinds=9))
    assert "no test over kinds" in untested[0] and untested[2].startswith("9 kinds of prompts: too few to say")
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
        "Metrics whose own 95% interval over kinds of prompts leaves 0 out (by chance one in 20 does): a (no interval"
        " for 1 of 2).",
    ]


def test_the_model_says_what_it_leaves_out():
    about = {"n": 10, "prompts": 5, "kinds": 1, "left_out": {"no label": 2}, "no_interval": ""}
    assert findings.fitted(12, about) == [
        "The model takes 10 of 12 replies, to 5 prompts of 1 kind; left out: 2 (no label)."
    ]
    about |= {"n": 12, "kinds": 5, "left_out": {}, "no_interval": "There is none."}
    assert findings.fitted(12, about, "Another model") == [
        "Another model takes 12 of 12 replies, to 5 prompts; left out: none.",
        "There is none.",
    ]


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
    assert findings.odds(frame.assign(q=0.5))[0].endswith("first: none.")
    assert findings.odds(frame.assign(odds_ratio=np.nan, low=np.nan, high=np.nan, q=np.nan)) == [], "no test, no word"


def test_explained_shares_are_percentages_and_never_minus_zero():
    frame = pd.DataFrame({"by": ["suite", "all"], "n": 10, "kinds": 4, "missing": [2, 2], "unseen": [-0.001, np.nan]})
    share, size = findings.explained_prompts(frame)
    assert share.endswith("not seen: suite: 0%") and size.startswith("(10 prompts of 4 kinds; 2 lack")
    assert findings.explained_prompts(frame.tail(1)) == []
    models = pd.DataFrame(
        {
            "suite": ["s", "all"],
            "of": "AR",
            "n": [5, 9],
            "models": [5, 3],
            "r2": 0.31,
            "adjusted": -0.2,
            "unseen": [0, -1.5],
        }
    )
    (said,) = findings.explained_models(models)
    assert (
        "explains 31%" in said
        and "-20% adjusted; of models that the fit has not seen: -150%" in said
        and "9 rows of 3 models" in said
    )
    nothing = models.assign(r2=np.nan)
    assert findings.explained_models(nothing) == [] and findings.nothing_explained(nothing)
    assert findings.nothing_explained(models) == ""


def test_common_quality_compares_the_models_that_have_both_rates():
    frame = pd.DataFrame(
        {"own": [0.2, 0.5, 1.0], "common": [0.4, 0.3, np.nan], "rank": [1, 2, np.nan], "rank_common": [2, 1, np.nan]}
    ).assign(model=["a", "b", "c"], turned=[1.0, 1, np.nan])
    assert findings.common_quality(frame) == [
        "AR spans 0.30 over 2 models at their own quality, and 0.10 at a common one.",
        "Pairs whose order clearly turns (both intervals leave 0 out, on opposite sides): 1 of 1;"
        " by the estimates alone 2 change rank (by 1 at most), which other prompts could undo.",
    ]
    assert findings.common_quality(frame.assign(turned=0.0))[1].startswith("Pairs whose order clearly turns")
    unknown = findings.common_quality(frame.assign(turned=np.nan))[1]
    assert unknown.startswith("Whether any order clearly turns is unknown") and "2 change rank" in unknown
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
    assert findings.prompt_steps(frame.assign(q=np.nan)) == []
