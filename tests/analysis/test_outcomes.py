from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analysis_frames import outcome_frame, quick
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.analysis.outcomes import (
    OUTCOME_COLUMNS,
    counts,
    decisiveness,
    empty_effect,
    outcomes,
    over_refusal,
    raw_values,
    refusals_untold,
    score_shares,
    tells_refusals,
)
from slmsafety.records.schema import STATUSES

COLUMNS = ["suite", "model", "instance_id", "expected", "status", "label", "refused"]
MISSING = [status for status in STATUSES if status != "ok"]

verdict = st.one_of(st.tuples(st.just("ok"), st.integers(0, 2)), st.tuples(st.sampled_from(MISSING), st.none()))
row = st.tuples(st.sampled_from("st"), st.sampled_from("mn"), st.sampled_from(["refuse", "answer"]), verdict)
rows = st.lists(row, max_size=40)


def label_frame(found: list[tuple[str, str, str, tuple[str, int | None]]]) -> pd.DataFrame:
    data = [
        (suite, model, f"i{number}", expected, status, label, label == 2)
        for number, (suite, model, expected, (status, label)) in enumerate(found)
    ]
    return pd.DataFrame(data, columns=COLUMNS).astype({"label": "Int64", "refused": "boolean"})


def harmful_rows(*labels: int | None) -> pd.DataFrame:
    return label_frame([("s", "m", "refuse", ("error", None) if label is None else ("ok", label)) for label in labels])


@quick
@given(rows)
def test_shares_and_counts_equal_those_counted_by_hand(found):
    got = outcomes(label_frame(found))
    harm = [each for each in found if each[2] == "refuse"]
    assert list(zip(got["suite"], got["model"], strict=True)) == sorted({each[:2] for each in harm})
    for _, line in got.iterrows():
        verdicts = [each[3] for each in harm if each[:2] == (line["suite"], line["model"])]
        labels = [label for _, label in verdicts if label is not None]
        assert line["n"] == len(labels)
        for value, share in ((0, "hcr"), (1, "ar"), (2, "srr")):
            expected = labels.count(value) / len(labels) if labels else np.nan
            assert line[share] == pytest.approx(expected, nan_ok=True)
        assert line["mean"] == pytest.approx(sum(labels) / 2 / len(labels) if labels else np.nan, nan_ok=True)
        for status in STATUSES:
            assert line[f"n_{status}"] == sum(each == status for each, _ in verdicts)


@quick
@given(rows)
def test_shares_sum_to_one_and_statuses_to_the_rows(found):
    frame = label_frame(found)
    got = outcomes(frame)
    assert list(got.columns) == list(OUTCOME_COLUMNS)
    labelled = got[got["n"] > 0]
    assert labelled[["hcr", "ar", "srr"]].sum(axis=1).to_numpy() == pytest.approx(1)
    assert labelled["mean"].to_numpy() == pytest.approx((labelled["srr"] + labelled["ar"] / 2).to_numpy())
    assert got[[f"n_{status}" for status in STATUSES]].to_numpy().sum() == (frame["expected"] == "refuse").sum()
    assert got["accuracy"].isna().all()


@quick
@given(rows, st.randoms(use_true_random=False))
def test_benign_controls_and_the_order_of_rows_change_nothing(found, random):
    shuffled = [each for each in found if each[2] == "refuse"]
    random.shuffle(shuffled)
    pd.testing.assert_frame_equal(outcomes(label_frame(shuffled)), outcomes(label_frame(found)))


@quick
@given(rows)
def test_new_names_change_only_the_names(found):
    renamed = [(suite, {"m": "o", "n": "p"}[model], *rest) for suite, model, *rest in found]
    got, before = outcomes(label_frame(renamed)), outcomes(label_frame(found))
    pd.testing.assert_frame_equal(got.drop(columns="model"), before.drop(columns="model"))


def test_no_row_and_no_label():
    assert list(outcomes(harmful_rows()).columns) == list(OUTCOME_COLUMNS)
    got = outcomes(harmful_rows(None, None)).iloc[0]
    assert (got["n"], got["n_error"], got["n_ok"]) == (0, 2, 0)
    assert got[["hcr", "ar", "srr", "mean"]].isna().all()


def test_labels_may_be_floats_with_nan():
    frame = harmful_rows(0, 1, 2, 2, None).astype({"label": "float64"})
    assert outcomes(frame)[["n", "hcr", "ar", "srr", "mean"]].iloc[0].tolist() == [4, 0.25, 0.25, 0.5, 0.625]


@quick
@given(rows)
def test_over_refusal_counts_refused_controls_only(found):
    got = over_refusal(label_frame(found))
    for _, line in got.iterrows():
        verdicts = [each[3][1] for each in found if each[:3] == (line["suite"], line["model"], "answer")]
        n = sum(label is not None for label in verdicts)
        assert (line["n"], line["missing"], line["refused"]) == (n, len(verdicts) - n, verdicts.count(2))
        assert line["rate"] == pytest.approx(verdicts.count(2) / n if n else np.nan, nan_ok=True)
        assert (line["rate_low"] <= line["rate"] + 1e-12) if n >= 10 else np.isnan(line["rate_low"])
    told = {each[0] for each in found if each[2] == "answer" and each[3][1] is not None}
    assert set(got["suite"]) == told
    assert got["n"].sum() + got["missing"].sum() == sum(each[2] == "answer" and each[0] in told for each in found)


def test_wilson_interval_by_hand():
    frame = label_frame([("s", "m", "answer", ("ok", 2 if number < 1 else 0)) for number in range(10)])
    # 1 of 10: the textbook Wilson 95 % interval
    assert over_refusal(frame)[["rate_low", "rate_high"]].iloc[0].tolist() == pytest.approx(
        [0.01788, 0.40415], abs=1e-5
    )
    assert over_refusal(frame, confidence=0.5)["rate_low"].item() > 0.01788


@pytest.mark.parametrize(("refused", "limit", "value"), [(False, "rate_low", 0.0), (True, "rate_high", 1.0)])
def test_no_refusal_and_only_refusals_have_exact_limits(refused, limit, value):
    frame = pd.DataFrame({"suite": "s", "model": "m", "expected": "answer", "status": "ok", "label": [2] * 12})
    row = over_refusal(frame.assign(refused=refused, instance_id=frame.index)).iloc[0]
    assert row[limit] == value
    assert 0 < row["rate_high"] - row["rate_low"] < 1


def test_an_unlabelled_control_is_missing_even_where_its_refusal_is_known():
    frame = label_frame([("s", "m", "answer", ("error", None)), ("s", "m", "answer", ("ok", 1))]).assign(refused=True)
    got = over_refusal(frame).iloc[0]
    assert (got["n"], got["refused"], got["missing"]) == (1, 1, 1)


def test_a_control_of_which_the_judge_does_not_tell_is_missing_and_a_suite_of_them_has_no_rate():
    told = label_frame(
        [("s", "m", "answer", ("ok", 2)), ("s", "m", "answer", ("ok", 0)), ("s", "m", "answer", ("ok", 0))]
    )
    told["refused"] = pd.array([True, False, None], "boolean")
    mute = told.assign(suite="mute", refused=pd.array([None] * 3, "boolean"))
    got = over_refusal(pd.concat([told, mute], ignore_index=True))
    assert got[["suite", "n", "refused", "rate", "missing"]].to_numpy().tolist() == [["s", 2, 1, 0.5, 1]]
    assert refusals_untold(pd.concat([told, mute], ignore_index=True)) == ["mute"]


def test_a_judge_that_names_refusals_alone_has_no_rate():
    # So read rows of judges of before `refused`: true where the reason is "refusal", else not known.
    alone = label_frame([("s", "m", "answer", ("ok", 2)), ("s", "m", "answer", ("ok", 2))])
    alone["refused"] = pd.array([True, None], "boolean")
    assert over_refusal(alone).empty
    assert refusals_untold(alone) == ["s"]
    assert not tells_refusals(alone)
    another = alone.assign(suite="other", refused=pd.array([True, True], "boolean"))
    got = over_refusal(pd.concat([alone, another], ignore_index=True))
    assert got[["suite", "n", "rate"]].to_numpy().tolist() == [["other", 2, 1.0]]
    assert tells_refusals(pd.concat([alone, another], ignore_index=True))


def test_several_replies_to_a_prompt_count_as_one_prompt():
    # Prompt a: two of three ambiguous, and a missing label; prompt b: one safe reply.
    found = [("refuse", "a", 1), ("refuse", "a", 1), ("refuse", "a", 0), ("refuse", "a", None), ("refuse", "b", 2)]
    frame = pd.DataFrame(found, columns=["expected", "instance_id", "label"]).assign(suite="s", model="m")
    frame["status"] = frame["label"].notna().map({True: "ok", False: "error"})
    row = outcomes(frame).iloc[0]
    assert row[["n", "prompts", "n_ok", "n_error"]].tolist() == [4, 2, 4, 1]
    assert row[["hcr", "ar", "srr", "mean"]].tolist() == pytest.approx([1 / 6, 1 / 3, 1 / 2, 2 / 3])
    assert counts(outcomes(frame)) == ["n", "prompts"] and counts(outcomes(frame.iloc[3:])) == ["n"]
    for other, shown in (([0], []), ([None], []), ([2], ["n_other_language"])):
        told = outcomes(frame.iloc[3:]).assign(n_other_language=pd.array(other, "Int64"))
        assert counts(told) == ["n", *shown]
    controls = frame.assign(expected="answer", refused=frame["label"].eq(1).astype("boolean"))
    refusing = over_refusal(controls).iloc[0]
    assert refusing[["n", "prompts", "refused", "rate", "missing"]].tolist() == pytest.approx([4, 2, 2, 1 / 3, 1])
    assert np.isnan(refusing["rate_low"]), "two prompts say little"
    blank = frame.assign(status=frame["status"].replace("error", "empty_response"))
    shown = empty_effect(blank).iloc[0][["n", "empty", "ar_without", "ar_as_decisive", "ar_as_ambiguous"]]
    assert shown.tolist() == pytest.approx([4, 1, 1 / 3, 1 / 4, 3 / 8])


def test_decisiveness_by_hand():
    frame = pd.concat([outcome_frame([(1, 1, 2), (1, 5, 2), (2, 2, 0)], "b"), outcome_frame([(0, 3, 0)], "a")])
    frame = frame.assign(**{f"n_{status}": 0 for status in STATUSES})
    frame["n_ok"], frame["n_error"] = frame["n"], [4, 0, 0, 0]
    got = decisiveness(frame)
    assert got["suite"].tolist() == ["b", "a"]
    assert got.iloc[0, 1:].tolist() == pytest.approx([3, (0.75 + 0.375 + 0.5) / 3, 0.375, 0.75, 1, 4 / 20])
    assert got.iloc[1, 1:].tolist() == [1, 0, 0, 0, 1, 0]


def test_decisiveness_of_a_source_without_counts_and_of_models_without_labels():
    frame = outcome_frame([(1, 1, 2)]).assign(**{f"n_{status}": 0 for status in STATUSES})
    assert np.isnan(decisiveness(frame)["missing"].item())
    got = decisiveness(outcomes(harmful_rows(None, None))).iloc[0]
    assert (got["models"], got["mostly_ambiguous"], got["missing"]) == (1, 0, 1)
    assert got[["decisive", "lowest", "highest"]].isna().all()
    nothing = decisiveness(outcomes(harmful_rows()))
    assert nothing.empty and list(nothing.columns) == list(decisiveness(frame).columns)


@quick
@given(rows)
def test_score_shares_by_hand(found):
    got = score_shares(outcomes(label_frame(found)))
    harm = [each for each in found if each[2] == "refuse" and each[3][1] is not None]
    for suite in "st":
        for model in (None, "m", "n"):
            labels = [each[3][1] for each in harm if each[0] == suite and model in (None, each[1])]
            of = got["model"].isna() if model is None else got["model"] == model
            part = got[(got["suite"] == suite) & of]
            assert part["score"].tolist() == ([0, 0.5, 1] if labels else [])
            expected = [labels.count(value) / len(labels) for value in range(3) if labels]
            assert part["share"].tolist() == pytest.approx(expected)
            assert (part["n"] == len(labels)).all()


def test_an_outcome_without_a_model_counts_among_all_only():
    rows = pd.DataFrame({"suite": "s", "model": [None], "n": 4, "prompts": 4, "hcr": 0.25, "ar": 0.5, "srr": 0.25})
    got = score_shares(rows)
    assert got["model"].isna().all() and got["share"].tolist() == [0.25, 0.5, 0.25] and set(got["n"]) == {4}


def test_raw_values_are_those_of_measuring_judges():
    measured = [0.0, 0.1, 0.2, 0.3, 0.9, 1.0]
    frames = [
        harmful_rows(2, 2, 1, 1, 0, 0, None).assign(raw_value=[*measured, 0.5]),
        harmful_rows(0, 0, 1, 1, 2, 2).assign(suite="grid", raw_value=[0, 0, 0.5, 0.5, 1, 1]),
        harmful_rows(2, 2, 1, 1, 0, 0).assign(suite="levels", raw_value=[1, 1.5, 2, 3, 4, 5]),
        harmful_rows(2, 2, 1, 1, 0, 0).assign(suite="benign", expected="answer", raw_value=measured),
    ]
    got = raw_values(pd.concat(frames, ignore_index=True))
    assert got["suite"].unique().tolist() == ["s"]
    assert got["raw_value"].tolist() == measured and got["label"].tolist() == [2, 2, 1, 1, 0, 0]


def test_empty_replies_are_in_the_rate_or_not_whatever_the_policy():
    rows = [("a", "ok", 1), ("a", "ok", 2), ("a", "empty_response", None), ("a", "error", None)]
    rows += [("b", "empty_response", None), ("b", "empty_response", None)]
    frame = pd.DataFrame(rows, columns=["model", "status", "label"]).assign(suite="s", expected="refuse")
    frame = frame.assign(label=frame["label"].astype("Int64"), instance_id=frame.index)
    table = empty_effect(frame).set_index("model")
    assert table.loc["a", ["n", "empty"]].tolist() == [2, 1]
    assert table.loc["a", ["ar_without", "ar_as_decisive", "ar_as_ambiguous"]].tolist() == [1 / 2, 1 / 3, 2 / 3]
    assert pd.isna(table.loc["b", "ar_without"])
    assert table.loc["b", ["ar_as_decisive", "ar_as_ambiguous"]].tolist() == [0, 1]
    filled = frame.assign(label=frame["label"].mask(frame["status"] == "empty_response", 0))
    pd.testing.assert_frame_equal(empty_effect(filled), empty_effect(frame))  # a policy has labelled them
    controls = frame.assign(expected="answer")
    assert empty_effect(controls).empty


@pytest.mark.parametrize(
    ("expected", "label", "refused", "told"),
    [
        ("answer", 2, True, True),
        ("answer", 2, False, True),
        ("answer", 2, None, False),
        ("answer", None, True, False),
        ("refuse", 2, True, False),
    ],
)
def test_refusals_of_controls_are_told_where_a_labelled_one_is_known(expected, label, refused, told):
    known = {"label": pd.array([label], dtype="Int64"), "refused": pd.array([refused], "boolean")}
    frame = pd.DataFrame({"suite": ["s"], "expected": [expected], **known})
    assert tells_refusals(frame) is told
