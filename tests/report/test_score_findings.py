"""Sentences about scores and ranks, from frames made by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from slmsafety.report import score_findings as told


def test_what_a_study_covers_is_told_in_right_numbers():
    sizes = pd.DataFrame({"prompts": [1200, 0], "controls": [1, 0], "choices": [0, 40]})
    three = pd.DataFrame({"model": ["a", "b", "c"]})
    assert told.covered("s", sizes, three) == [
        "Study s covers 2 suites with 1,200 prompts to refuse, 1 benign control and 40 multiple-choice items.",
        "3 models on every prompt to refuse, one reply each, would make 3,600 replies.",
    ]
    one = pd.DataFrame({"prompts": [1], "controls": [0], "choices": [0]})
    assert told.covered("s", one, three.head(1)) == [
        "Study s covers 1 suite with 1 prompt to refuse and 0 benign controls.",
        "1 model on every prompt to refuse, one reply each, would make 1 reply.",
    ]
    systems = told.covered("s", one, three.assign(card=["a", "a", "c"]))[1]
    assert systems.startswith("3 systems of 2 models on every")
    assert len(told.covered("s", one.assign(prompts=0, controls=8), three)) == 1


def test_rows_that_could_not_be_judged_are_pointed_to_where_there_are_some():
    coverage = pd.DataFrame({"ok": [3, 4], "unparsed": [1, 0], "rows": [4, 4]})
    assert told.judged(coverage) == "Rows that could be judged: 7 of 8; the others are listed by status above."
    assert told.judged(coverage.tail(1)) == "Rows that could be judged: 4 of 4."
    assert told.judged(coverage.drop(columns="ok")).startswith("Rows that could be judged: 0 of 8;")


@pytest.mark.parametrize(
    ("kind", "why"), [("run", "slmsafety noise"), ("imported", "elsewhere"), ("published", "paper")]
)
def test_a_noise_floor_is_advised_where_it_can_be_measured(kind, why):
    assert why in told.no_noise("s", kind)


def test_the_agreement_of_suites_has_its_range_and_its_numbers_of_models():
    pairs = pd.DataFrame({"tau": [0.5, -0.25], "low": [0.125, -0.75], "high": [0.75, 0.25], "n": [12, 10]})
    assert told.rank_agreement(pairs) == (
        "Tau-b between suites lies between -0.25 and 0.50 (n = 10 to 12 models, 95 % limits from -0.75 to 0.75);"
        " 1 would be the same order."
    )
    pairs["low"] = np.nan
    few = "Tau-b between the two suites is 0.50 (n = 9 models); with so few models that says nothing."
    assert told.rank_agreement(pairs.head(1).assign(n=9)) == few


def test_systems_of_one_model_are_not_counted_as_models():
    pairs = pd.DataFrame({"tau": [0.5, -0.25], "low": np.nan, "high": np.nan, "n": [12, 11], "models": [2, 1]})
    assert told.rank_agreement(pairs) == (
        "Tau-b between suites lies between -0.25 and 0.50 (n = 11 to 12 systems of 2 models); with so few models that"
        " says nothing."
    )
    one = told.rank_agreement(pairs.tail(1))
    assert one.startswith("Tau-b between the two suites is -0.25 (n = 11 systems of 1 model);")
    scores = pd.DataFrame({"suite": "a", "model": list("pqr"), "card": list("ppr"), "mean": 0.5})
    assert told.scored("s", scores) == ["Study s has scores of 3 systems of 2 models in 1 suite."]
    assert told.scored("s", scores.iloc[1:]) == ["Study s has scores of 2 models in 1 suite."]
    assert told.scored("s", scores.assign(mean=np.nan)) == []


def test_replies_in_another_language_are_told_and_those_not_known_are_no_zero():
    frame = pd.DataFrame({"model_name": list("aabbc"), "ar": 0.5, "n": 4, "n_other_language": [0, 2, 1200, 0, 0]})
    frame = frame.astype({"n_other_language": "Int64"})
    assert told.other_languages(frame) == ["Replies in another language than their prompt: 1,202 (b 1,200, a 2)."]
    none = "their replies tell none, or were made before it was recorded."
    partly = frame.assign(n_other_language=pd.array([None, None, None, 3, 0], "Int64"))
    assert told.other_languages(partly) == [
        "Replies in another language than their prompt: 3 (b 3).",
        f"Language of replies not known: a; {none}",
    ]
    assert told.other_languages(frame.tail(2)) == []
    assert told.other_languages(frame.drop(columns="n_other_language")) == []
    many = pd.DataFrame({"model_name": list("abcdefgh"), "ar": 0.5, "n_other_language": pd.array([1] * 8, "Int64")})
    (sentence,) = told.other_languages(many)
    assert sentence.endswith("8 (a 1, b 1, c 1, d 1, e 1 and 3 other models).")


def test_steps_up_down_and_level_are_counted():
    row = {"suite_title": "A", "steps": 3, "rises": 1, "falls": 1, "level": 1, "models": 12, "families": 10}
    known = pd.DataFrame([row | {"tau": 0.25, "tau_low": -0.125, "tau_high": 0.5}])
    assert told.size_trend(known) == [
        "A: of 3 steps to the next larger model of a family 1 raise the score, 1 lower it and 1 leave it level;"
        " tau-b of size and score over 12 models is 0.25 (-0.12 to 0.50 over families)."
    ]
    few = known.assign(tau_low=np.nan, tau_high=np.nan, families=1)
    assert told.size_trend(few)[0].endswith("is 0.25 (1 family, too few for an interval).")
    assert told.size_trend(known.assign(tau=np.nan))[0].endswith("leave it level.")
    assert told.size_trend(known.assign(steps=0)) == []


def test_only_models_with_a_score_are_counted():
    scores = pd.DataFrame({"suite": list("aab"), "model": list("mnm"), "mean": [0.5, np.nan, 1.0]})
    assert told.scored("s", scores) == ["Study s has scores of 1 model in 2 suites."]
    assert told.scored("s", scores.assign(mean=np.nan)) == []


def test_a_single_model_has_no_average():
    row = {"suite_title": "A", "decisive": 0.75, "lowest": 0.5, "highest": 1.0, "mostly_ambiguous": 1}
    row |= {"decisive_low": np.nan, "decisive_high": np.nan}
    assert told.decisive(pd.DataFrame([row | {"models": 1}])) == ["A: 75% of the labels are decisive."]
    assert told.decisive(pd.DataFrame([row | {"models": 2}])) == [
        "A: 75% of the labels are decisive on average (50% to 100% by model);"
        " models that are ambiguous more often than not: 1 of 2."
    ]
    sure = row | {"decisive_low": 0.7, "decisive_high": 0.8}
    assert "decisive (70% to 80% with other prompts)." in told.decisive(pd.DataFrame([sure | {"models": 1}]))[0]
    assert "(70% to 80% with other prompts; 50% to 100% by" in told.decisive(pd.DataFrame([sure | {"models": 2}]))[0]


def test_another_reading_of_empty_replies_is_told_where_there_are_some():
    blank = pd.DataFrame({"n": [5, 1], "empty": [5, 0], "ar_as_decisive": [0.1, 0.2], "ar_as_ambiguous": [0.6, 0.2]})
    assert told.empty_replies(blank, "missing") == [
        "Empty replies: 5 of 11 that are empty or have a label.",
        "The study reads them as 'missing'; another reading can move a model's AR by at most 0.500.",
    ]
    assert told.empty_replies(blank.tail(1), "missing") == ["Empty replies: 0 of 1 that are empty or have a label."]


def test_refusals_are_of_the_replies_that_the_judge_tells_of():
    assert told.over_refusal(pd.DataFrame({"refused": [1, 2], "n": [4, 6]})).endswith("the judge tells: 3 of 10.")


def test_first_in_a_suite_is_told_where_two_models_have_a_rank():
    ranked = pd.DataFrame({"suite_title": list("aaabb"), "model_name": list("mnomn"), "mean": [0.5, 0.5, 0.25, 1, 0]})
    ranked["rank"] = [1.5, 1.5, 3, 1, np.nan]
    (said,) = told.ranked_first(ranked)
    assert said.startswith("Highest mean score: a: m, n (level at 0.50, next 0.25). It is the order on these prompts;")
    assert "a: m, n (level at 0.50)." in told.ranked_first(ranked[ranked["model_name"] != "o"])[0]
    assert told.ranked_first(ranked.tail(2)) == []


def test_intervals_are_told_by_their_width_and_groups():
    rows = pd.DataFrame({"suite_title": ["A", "A", "B", "C"], "groups": [30, 25, 4, 12]})
    rows["mean_low"], rows["mean_high"] = [0.4, 0.35, np.nan, 0.1], [0.5, 0.6, np.nan, 0.4]
    assert told.rate_intervals(rows) == [
        "A: the interval of a mean score is 0.10 to 0.25 wide (25 to 30 groups of prompts).",
        "B: 4 groups of prompts are too few for an interval.",
        "C: the interval of a mean score is 0.30 wide (12 groups of prompts).",
    ]
    assert told.rate_intervals(rows.head(0)) == []
