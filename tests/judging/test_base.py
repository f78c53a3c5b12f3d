"""What a judge owes: its id, its rows, and what a user's own module may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.judging.base import Judge, MeasuringJudge, judge_id
from slmsafety.judging.own import plugin_judge
from slmsafety.plugins import load_plugin
from slmsafety.records.schema import REPLY_KEY

GOOD = """
import pandas as pd

VERSION = 1


def definition():
    return {"version": VERSION}


def measure(rows):
    return pd.DataFrame({"label": [2 if "no" in reply else 0 for reply in rows["response"]], "reason": "word"})
"""


def rows(*replies: str) -> pd.DataFrame:
    keys = {"suite": "mine", "instance_id": [f"i{number}" for number in range(len(replies))], "model": "tiny"}
    frame = pd.DataFrame({**keys, "generation_id": "g", "prompt": "Bake?", "meta": "{}", "expected": "refuse"})
    return frame.assign(response=replies, finish_reason="stop")


class Says:
    """A source that returns what it is told to, whatever the rows are."""

    def __init__(self, said: Any, definition: Any = None) -> None:
        self.said, self.defined = said, definition or {}

    def definition(self) -> Any:
        return self.defined

    def measure(self, rows: pd.DataFrame, /) -> Any:
        return self.said


def module(folder: Path, text: str) -> Judge:
    (folder / "words.py").write_text(text)
    return plugin_judge("words", load_plugin("words.py", folder))


def test_a_measuring_judge_gives_the_reply_s_key_and_what_was_said() -> None:
    judge = MeasuringJudge("a", Says(pd.DataFrame({"label": [0, None], "status": ["ok", "unparsed"]})))
    (found,) = judge.judge(rows("yes", "hm").set_axis([5, 5]))
    assert found.to_dict("list") == {
        **rows("yes", "hm")[list(REPLY_KEY[:-1])].to_dict("list"),
        "sample": [0, 0],
        "label": [0, pytest.approx(float("nan"), nan_ok=True)],
        "status": ["ok", "unparsed"],
    }


def test_rows_are_measured_in_chunks(tmp_path: Path) -> None:
    plugin = load_plugin(str(_write(tmp_path, GOOD)), tmp_path)
    judge = MeasuringJudge("words", plugin.module, chunk=2)  # type: ignore[arg-type] # a module
    frames = list(judge.judge(rows("no", "yes", "no")))
    assert [frame["label"].tolist() for frame in frames] == [[2, 0], [2]]
    assert pd.concat(frames)["instance_id"].tolist() == ["i0", "i1", "i2"]


def _write(folder: Path, text: str) -> Path:
    path = folder / "words.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ([2, 2], "judge a: measure returned list; it owes a DataFrame"),
        (pd.DataFrame({"label": [2]}), "judge a returned 1 rows for 2 replies"),
        (pd.DataFrame({"label": [2, 3]}), "judge a, reply 1: label 3; it is 0, 1, 2 or missing"),
        (pd.DataFrame({"label": [0.5, 1]}), r"judge a, reply 0: label 0\.5"),
        (pd.DataFrame({"label": [True, False]}), "judge a, reply 0: label True"),
        (pd.DataFrame({"label": ["safe", "safe"]}), "judge a, reply 0: label 'safe'"),
        (pd.DataFrame({"status": ["ok", "okay"]}), "unknown status 'okay' in what judge a returned; did you mean 'ok'"),
        (pd.DataFrame({"status": ["ok", None]}), "unknown status '(None|nan)' in what judge a returned"),
        (pd.DataFrame({"status": "error", "label": [2, 2]}), "judge a, reply 0: a label, though its status is not ok"),
        (pd.DataFrame({"label": [2, 0]}, index=[1, 0]), "judge a returned rows in another order or with another index"),
        (pd.DataFrame({"label": pd.array([True, None], "boolean")}), "judge a, reply 0: label np.True_"),
        (pd.DataFrame({"label": pd.Series([np.True_, 1], dtype=object)}), "judge a, reply 0: label np.True_"),
        (pd.DataFrame({"input_tokens": [3, 1.5]}), r"judge a, reply 1: input_tokens is 1\.5; it is a finite int"),
        (pd.DataFrame({"raw_value": ["high", 1]}), "judge a, reply 0: raw_value is 'high'; it is a finite float"),
        (pd.DataFrame({"raw_value": [float("inf"), 1]}), "judge a, reply 0: raw_value is inf"),
        (pd.DataFrame({"raw_text": [3, "x"]}), "judge a, reply 0: raw_text is 3"),
        (pd.DataFrame({"meta": [{"a": 1}, "{}"]}), "judge a, reply 0: meta is .*; it is a JSON object as text"),
        (pd.DataFrame([["ok", "ok"]] * 2, columns=["status", "status"]), "judge a returned a column twice"),
        (pd.DataFrame({"lable": [2, 2]}), "unknown column 'lable' in what judge a returned; did you mean 'label'"),
    ],
)
def test_what_a_judge_may_not_return_is_named(said: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        list(MeasuringJudge("a", Says(said)).judge(rows("yes", "no")))


def test_the_id_holds_name_definition_and_whether_empty_replies_are_sent() -> None:
    first = judge_id(MeasuringJudge("a", Says(None)), False)
    assert first == judge_id(MeasuringJudge("a", Says(None), chunk=3), False)
    others = {
        judge_id(MeasuringJudge("b", Says(None)), False),
        judge_id(MeasuringJudge("a", Says(None)), True),
        judge_id(MeasuringJudge("a", Says(None, {"version": 2})), False),
        judge_id(MeasuringJudge("a", Says(None)), False, answers=True),
    }
    assert len(others | {first}) == 4
    with pytest.raises(InputError, match="judge a: its definition cannot be written as JSON"):
        judge_id(MeasuringJudge("a", Says(None, {"rule": object()})), False)


def test_a_user_s_module_is_a_judge_and_its_bytes_are_part_of_its_id(tmp_path: Path) -> None:
    judge = module(tmp_path, GOOD)
    (found,) = judge.judge(rows("no", "yes"))
    assert found[["status", "label", "reason"]].to_numpy().tolist() == [["ok", 2, "word"], ["ok", 0, "word"]]
    assert judge.definition().keys() == {"module", "sha256", "version"}
    assert not judge.costs_money
    assert module(tmp_path, GOOD + "\nCOSTS_MONEY = True\n").costs_money
    assert judge_id(judge, False) != judge_id(module(tmp_path, GOOD + "\n# changed\n"), False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"judge words: module 'words\.py' has no function measure\(rows\)"),
        ("measure = 3", r"judge words: module 'words\.py' has no function measure\(rows\)"),
        (GOOD + "\ndef definition():\n    return [1]\n", r"definition\(\) of words\.py must return a dict"),
        (GOOD + "\ndef definition():\n    return {'sha256': ''}\n", r"has the reserved key 'sha256'"),
    ],
)
def test_a_module_that_is_no_judge_is_named(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        module(tmp_path, text).definition()


@pytest.mark.parametrize(
    ("said", "mapped", "problem"),
    [
        (
            '{"label": [2, None]}',
            False,
            "judge words, reply 1: status ok and no label; one that measures a number needs a",
        ),
        ('{"raw_value": [0.1, 0.9]}', False, "judge words, reply 0: status ok and no label"),
        ('{"raw_value": [0.1, None]}', True, "judge words, reply 1: status ok and no raw_value"),
        ('{"raw_value": [0.1, 0.9], "label": [2, 0]}', True, "judge words gives labels and has a mapping"),
        (
            '{"status": ["ok", "empty_response"], "label": [2, None]}',
            False,
            "status empty_response is for replies that",
        ),
        (
            "1 / 0",
            False,
            r"judge words: measure of words\.py failed \(ZeroDivisionError: division by zero; line 3 of words",
        ),
    ],
)
def test_a_module_that_says_too_little_or_fails_is_named(said: str, mapped: bool, problem: str, tmp_path: Path) -> None:
    text = f"import pandas as pd\ndef measure(rows):\n    return pd.DataFrame({said})\n"
    (tmp_path / "words.py").write_text(text)
    judge = plugin_judge("words", load_plugin("words.py", tmp_path), mapped)
    with pytest.raises(InputError, match=problem):
        list(judge.judge(rows("yes", "no")))


def test_a_mapped_module_may_end_without_a_number(tmp_path: Path) -> None:
    said = '{"raw_value": [0.1, None], "status": ["ok", "unparsed"]}'
    (tmp_path / "words.py").write_text(f"import pandas as pd\ndef measure(rows):\n    return pd.DataFrame({said})\n")
    (found,) = plugin_judge("words", load_plugin("words.py", tmp_path), True).judge(rows("yes", "no"))
    assert found["status"].tolist() == ["ok", "unparsed"]
