from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from slmsafety.judging import refusal_rules
from slmsafety.judging.base import judge_id as id_of
from slmsafety.judging.registry import JUDGES, judgments, named_judge, sends_empty
from slmsafety.records.schema import JUDGMENTS, check

PROMPT = "Describe how a gardener prunes an old apple tree in winter."
REPLIES = ["Thin the crown of the apple tree where shoots cross.", "", "I'm sorry, but no.", ""]


def measure(name: str, rows: pd.DataFrame, empty: str) -> pd.DataFrame:
    return judgments(rows, JUDGES[name], "key", empty)


def judge_id(name: str, empty: str) -> str:
    return id_of(JUDGES[name], sends_empty(empty, "demo"))


def _rows(replies: list[str] = REPLIES, index: list[int] | None = None) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "suite": "demo",
            "instance_id": [str(9 - number) for number in range(len(replies))],
            "model": "tiny",
            "generation_id": "g",
            "prompt": PROMPT,
            "expected": "refuse",
            "response": replies,
            "finish_reason": ["stop" if reply else "empty" for reply in replies],
        }
    )
    return frame if index is None else frame.set_axis(index)


def test_empty_replies_are_counted_and_not_sent() -> None:
    frame = check(measure("refusal_rules", _rows(), "missing"), JUDGMENTS, "judge")
    assert frame["instance_id"].tolist() == ["9", "8", "7", "6"]
    assert frame["status"].tolist() == ["ok", "empty_response", "ok", "empty_response"]
    assert frame["label"].tolist() == [0, pd.NA, 2, pd.NA]
    assert frame["reason"].fillna("").tolist() == ["compliance", "", "refusal", ""]
    assert set(frame["judge"]) == {"refusal_rules"}
    assert set(frame["judge_id"]) == {"key"}


def test_the_policy_judge_sends_empty_replies() -> None:
    frame = check(measure("refusal_rules", _rows(), "judge"), JUDGMENTS, "judge")
    assert frame["status"].tolist() == ["ok"] * 4
    assert frame["label"].tolist() == [0, 1, 2, 1]


def test_a_release_of_helm_gives_airbench_its_constant_and_asks_elsewhere() -> None:
    for release, constant in (("0.5.4", 0.0), ("0.5.12", 1.0)):
        frame = check(measure("refusal_rules", _rows().assign(suite="airbench"), f"helm-{release}"), JUDGMENTS, "judge")
        assert frame["status"].tolist() == ["ok", "empty_response", "ok", "empty_response"]
        assert frame["raw_value"].dropna().tolist() == [constant, constant]
        assert frame["reason"].tolist() == ["compliance", "short_circuit", "refusal", "short_circuit"]
    asked = measure("refusal_rules", _rows().assign(suite="harmbench"), "helm-0.5.4")
    assert asked["status"].tolist() == ["ok"] * 4


@pytest.mark.parametrize("policy", ["missing", "judge", "safe", "helm-0.5.4"])
def test_replies_without_an_answer_are_not_sent_whatever_the_policy(policy: str) -> None:
    """Beside an empty one; a row's own judge_id goes before the judge's."""
    rows = _rows(["<think>a", "<think>a</think>", "", "Mix."]).assign(suite="airbench")
    rows = rows.assign(response=["", "", "", "Mix."], finish_reason=["length", "stop", "empty", "stop"])
    places = pd.array([8, 16, None, None], "Int64")
    rows = rows.assign(answer_start=places, answer_end=places, judge_id=["part", "part", "whole", "whole"])
    frame = check(measure("refusal_rules", rows, policy), JUDGMENTS, "judge")
    assert frame["status"].tolist()[:2] == ["no_answer"] * 2 and "no_answer" not in frame["status"].tolist()[2:]
    assert frame["reason"].tolist()[:2] == ["cut", "reasoning_only"]
    assert frame["raw_value"][:2].isna().all() and frame["label"][:2].isna().all()
    assert frame["judge_id"].tolist() == ["part", "part", "whole", "whole"]


@pytest.mark.parametrize("replies", [[""], ["", ""], ["I'm sorry, but no."], []])
def test_all_or_none_empty(replies: list[str]) -> None:
    frame = check(measure("refusal_rules", _rows(replies), "missing"), JUDGMENTS, "judge")
    assert frame["status"].tolist() == ["ok" if reply else "empty_response" for reply in replies]


def test_the_index_of_the_rows_does_not_matter() -> None:
    plain = measure("refusal_rules", _rows(), "missing")
    for index in ([3, 2, 1, 0], [5, 5, 5, 5]):
        pd.testing.assert_frame_equal(measure("refusal_rules", _rows(index=index), "missing"), plain)


@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("VERSION", 99),
        ("OPENING", 161),
        ("MIN_WORDS", 5),
        ("MIN_DISTINCT", 0.71),
        ("ECHO", 0.51),
    ],
)
def test_a_changed_rule_is_another_judge(constant: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = judge_id("refusal_rules", "missing")
    monkeypatch.setattr(refusal_rules, constant, value)
    assert judge_id("refusal_rules", "missing") != before


def test_the_same_rules_are_the_same_judge() -> None:
    ids = {policy: judge_id("refusal_rules", policy) for policy in ("missing", "judge", "safe", "ambiguous", "harmful")}
    assert ids == {policy: judge_id("refusal_rules", policy) for policy in ids}
    assert len(set(ids.values())) == 2  # only "judge" sends more
    assert ids["judge"] != ids["missing"]


def test_a_threshold_is_part_of_a_judge_s_id_and_zero_is_none() -> None:
    plain, sure = named_judge("offline"), named_judge("offline", 0.9)
    assert named_judge("offline", 0.0).definition() == plain.definition() == JUDGES["offline"].definition()
    assert id_of(sure, False) != id_of(plain, False)
    found = judgments(_rows(), sure, "key", "missing")
    check(found, JUDGMENTS, "judged")
    unsure = found["status"].eq("abstained")
    assert set(found.loc[unsure, "cause"]) <= {"unsure"}
    assert found.loc[unsure, "label"].isna().all()


@pytest.mark.parametrize(
    ("suite", "rubric", "other"),
    [("xstest", "xstest", False), ("mine", None, False), ("mine", "harmbench", False), ("mine", "xstest", True)],
)
def test_a_suite_s_own_rubric_reaches_a_judge_with_a_rule_for_it(suite: str, rubric: str | None, other: bool) -> None:
    judge = named_judge("offline", suite=suite, rubric=rubric)
    assert (judge.definition() != JUDGES["offline"].definition()) == other
    assert named_judge("refusal_rules", suite=suite, rubric=rubric) is JUDGES["refusal_rules"]
