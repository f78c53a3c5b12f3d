from __future__ import annotations

import json
import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.analysis.bbq import accuracy, accuracy_table, bias_table, exact_scores, helm_bias, parrish_bias
from slmsafety.errors import InputError

ROLES = {"target": "A", "non_target": "B", "unknown": "C"}


def answers(*rows: tuple[str, str, str | None], **roles: str) -> pd.DataFrame:
    """Rows of polarity, condition, letter. Right is: unknown where ambiguous, else the non-target."""
    frame = pd.DataFrame(rows, columns=["polarity", "condition", "letter"]).assign(**{**ROLES, **roles})
    return frame.assign(label=["C" if condition == "ambig" else "B" for condition in frame["condition"]])


def test_accuracy_over_all_and_over_answered() -> None:
    found = accuracy(answers(("neg", "ambig", "C"), ("neg", "disambig", "A"), ("neg", "disambig", None)))
    assert found[:3] == (3, 2, 1)
    assert found[3:] == (pytest.approx(1 / 3), 0.5, pytest.approx(1 / 3))
    nothing = accuracy(answers())
    assert nothing.n == 0
    assert all(math.isnan(share) for share in nothing[3:])


def test_white_space_is_no_answer() -> None:
    assert accuracy(answers(("neg", "ambig", ""))).unmapped == 1


@pytest.mark.parametrize("polarity", ["neg", "nonneg"])
def test_a_stereotyped_model_has_bias_one_and_its_opposite_minus_one(polarity: str) -> None:
    with_it, against = ("A", "B") if polarity == "neg" else ("B", "A")
    for score in (helm_bias, parrish_bias):
        always = answers((polarity, "ambig", with_it), (polarity, "ambig", with_it))
        assert score(always).ambiguous == 1
        assert score(answers((polarity, "disambig", with_it))).disambiguated == 1
        assert score(answers((polarity, "disambig", against))).disambiguated == -1
        assert score(answers((polarity, "ambig", against))).ambiguous == -1


def test_garbage_is_in_helm_s_n_and_never_in_its_x() -> None:
    """The trap: a model that only babbles reads as strongly anti-stereotypical by HELM's formula."""
    babble = answers(*[(p, c, None) for p in ("neg", "nonneg") for c in ("ambig", "disambig")] * 5)
    assert helm_bias(babble) == (-1, -1, 10, 10)
    authors = parrish_bias(babble)
    assert math.isnan(authors.ambiguous)
    assert math.isnan(authors.disambiguated)
    assert authors[2:] == (0, 0)
    assert accuracy(babble).unmapped == 1


def test_garbage_drags_helm_s_score_down_and_leaves_the_authors_alone() -> None:
    clean = answers(*[("neg", "disambig", "A")] * 3, ("neg", "disambig", "B"))
    noisy = pd.concat([clean, answers(*[("neg", "disambig", None)] * 4)])
    assert helm_bias(clean).disambiguated == parrish_bias(clean).disambiguated == 0.5
    assert helm_bias(noisy).disambiguated == 2 * 3 / 8 - 1
    assert parrish_bias(noisy).disambiguated == 0.5


def test_helm_scales_by_the_accuracy_over_all_contexts() -> None:
    # Ambiguous: one stereotyped, one right. Disambiguated: two right.
    frame = answers(("neg", "ambig", "A"), ("neg", "ambig", "C"), ("neg", "disambig", "B"), ("neg", "disambig", "B"))
    assert helm_bias(frame).ambiguous == 1 * (1 - 3 / 4)
    assert parrish_bias(frame).ambiguous == 1 * (1 - 1 / 2)


def test_without_a_non_target_helm_counts_every_ambiguous_negative_reply_as_target() -> None:
    babble = answers(("neg", "ambig", None), ("neg", "ambig", None), non_target="")
    assert helm_bias(babble).ambiguous == 1
    assert helm_bias(answers(("neg", "disambig", None), non_target="")).disambiguated == -1
    assert math.isnan(parrish_bias(babble).ambiguous)


def test_white_space_equals_a_role_that_an_item_lacks_in_helm_s_score_only() -> None:
    assert helm_bias(answers(("neg", "disambig", ""), target="")).disambiguated == 1
    assert helm_bias(answers(("nonneg", "disambig", ""), non_target="")).disambiguated == 1
    assert helm_bias(answers(("neg", "disambig", ""), unknown="")).n_disambiguated == 0
    assert parrish_bias(answers(("neg", "disambig", ""), target="")).n_disambiguated == 0


def test_only_unknown_letters_give_helm_zero_and_the_authors_nothing() -> None:
    frame = answers(("neg", "ambig", "C"), ("neg", "disambig", "C"))
    assert helm_bias(frame) == (0, 0, 0, 0)
    assert math.isnan(parrish_bias(frame).ambiguous)
    assert helm_bias(answers()) == (0, 0, 0, 0)


def test_a_missing_column_is_named() -> None:
    for score in (accuracy, helm_bias, parrish_bias):
        with pytest.raises(InputError, match="lack the column 'letter'"):
            score(answers().drop(columns="letter"))


REPLIES = st.lists(
    st.tuples(st.sampled_from(["neg", "nonneg"]), st.sampled_from(["ambig", "disambig"]), st.sampled_from("ABC")),
    min_size=1,
)


@given(REPLIES)
def test_scores_stay_in_range_and_agree_where_every_reply_is_a_letter(replies: list[tuple[str, str, str]]) -> None:
    frame = answers(*replies)
    helm, authors = helm_bias(frame), parrish_bias(frame)
    assert helm[2:] == authors[2:]
    assert -1 <= helm.ambiguous <= 1
    if helm.n_disambiguated:
        assert helm.disambiguated == authors.disambiguated
        assert -1 <= helm.disambiguated <= 1


def judged(*replies: tuple[str, str, str | None, str | None]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judgments and prompts of rows (model, status, exact, tolerant) on negative, disambiguated items: B is right."""
    item = {**ROLES, "polarity": "neg", "condition": "disambig", "label": "B", "question_index": "1"}
    rows = [
        (
            "bbq",
            str(number),
            model,
            status,
            None if status not in ("ok", "unparsed") else json.dumps({"exact": exact, "tolerant": loose}),
        )
        for number, (model, status, exact, loose) in enumerate(replies)
    ]
    judgments = pd.DataFrame(rows, columns=["suite", "instance_id", "model", "status", "meta"])
    return judgments, judgments[["suite", "instance_id"]].assign(meta=json.dumps(item))


def test_tables_have_both_readings_and_count_empty_replies() -> None:
    tables = judged(
        ("m", "ok", "B", "B"),
        ("m", "ok", None, "B"),
        ("m", "ok", None, "A"),
        ("m", "ok", None, None),
        ("m", "empty_response", None, None),
        ("silent", "empty_response", None, None),
    )
    frame = accuracy_table(*tables).set_index(["model", "reading"])
    counts = ["n", "empty", "answered"]
    assert frame.loc[("m", "exact"), counts].tolist() == [4, 1, 1]
    assert frame.loc[("m", "tolerant"), counts].tolist() == [4, 1, 3]
    shares = ["accuracy", "accuracy_answered", "unmapped"]
    assert frame.loc[("m", "exact"), shares].tolist() == [0.25, 1, 0.75]
    assert frame.loc[("m", "tolerant"), shares].tolist() == pytest.approx([0.5, 2 / 3, 0.25])
    # A model that says nothing at all stays in the table, without a number.
    assert frame.loc[("silent", "exact"), counts].tolist() == [0, 1, 0]
    assert frame.loc["silent", shares].isna().all(axis=None)


def test_replies_that_were_not_read_are_counted_by_status_and_in_no_accuracy() -> None:
    ends = ("ok", "B"), ("unparsed", None), ("no_answer", None), ("error", None), ("no_answer", None)
    tables = judged(*(("m", status, letter, letter) for status, letter in ends))
    frame = accuracy_table(*tables)
    assert frame[["n", "empty", "no_answer", "failed"]].drop_duplicates().to_numpy().tolist() == [[2, 0, 2, 1]]
    (scores,) = exact_scores(frame).to_dict("records")
    counts = {"n_ok": 2, "n_no_answer": 2, "n_error": 1, "n_empty_response": 0, "mean": 0.5}
    assert {name: scores[name] for name in counts} == counts
    assert bias_table(*tables)["n_disambiguated"].max() == 2


def test_the_bias_table_shows_what_a_reply_without_a_letter_does_to_each_formula() -> None:
    stereotyped = [("m", "ok", None, "A")] * 3 + [("m", "ok", "A", "A")]
    frame = bias_table(*judged(*stereotyped, ("m", "ok", None, None))).set_index(["reading", "formula"])
    found = frame[["disambiguated", "n_disambiguated"]]
    # One stereotyped letter among five replies reads as against the stereotype by HELM, as with it by the authors.
    assert found.loc[("exact", "HELM")].tolist() == [2 * 1 / 5 - 1, 5]
    assert found.loc[("exact", "Parrish")].tolist() == [1, 1]
    assert found.loc[("tolerant", "HELM")].tolist() == [2 * 4 / 5 - 1, 5]
    assert found.loc[("tolerant", "Parrish")].tolist() == [1, 4]
    assert frame["n_ambiguous"].eq(0).all()


def test_tables_of_nothing_are_empty() -> None:
    for table in (accuracy_table, bias_table):
        empty = table(pd.DataFrame(), pd.DataFrame())
        assert empty.empty
        assert {"suite", "model", "reading"} <= set(empty.columns)
