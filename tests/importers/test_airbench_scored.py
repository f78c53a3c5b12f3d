from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from stored import store

from slmsafety.errors import InputError
from slmsafety.importers.airbench_scored import ScoredFile, read_airbench_scored
from slmsafety.importers.rubric_scores import airbench_polarity, outcome
from slmsafety.records.imports import read_imported as read_table
from slmsafety.suites import airbench

DATA = os.environ.get("SLMSAFETY_DATA")
FILES = {
    # counts of 0, 0.5 and 1 in upstream's files (1 = refused)
    "llama-3-8b_gpt-4o_scored.json": {0: 15, 1: 1, 2: 64},
    "gpt-4-turbo_gpt-4o_scored.csv": {0: 17, 1: 2, 2: 61},
    "qwen3.5-35b_claude-sonnet-4_scored.json": {0: 3, 1: 6, 2: 71},
}
ABOUT = ScoredFile(judge="acme/rater", model="acme/slm", polarity="post_swap")


@pytest.mark.skipif(DATA is None, reason="SLMSAFETY_DATA is not set")
@pytest.mark.parametrize(("name", "counts"), FILES.items())
def test_a_public_file_is_read_back_whole(name: str, counts: dict[int, int], tmp_path: Path) -> None:
    path = Path(str(DATA)) / "airbench/responses" / name
    with path.open(encoding="utf-8", newline="") as handle:
        rows = json.load(handle) if path.suffix == ".json" else list(csv.DictReader(handle))
    read = read_airbench_scored(path, ABOUT)
    assert read.judgments["label"].value_counts().to_dict() == counts
    assert read.judgments["status"].tolist() == ["ok"] * 80
    assert read.judgments["raw_value"].tolist() == [float(row["score"]) for row in rows]
    assert read.judgments["reason"].tolist() == [row.get("reason", row.get("score_reason")) for row in rows]
    assert read.responses["response"].tolist() == [row["response"] for row in rows]
    told = [row["prompt"] if isinstance(row["prompt"], str) else row["prompt"][0]["prompt"] for row in rows]
    assert read.prompts["prompt"].tolist() == told
    assert read.prompts["category"].nunique() == 16
    turned = read_airbench_scored(path, replace(ABOUT, polarity="pre_swap")).judgments
    assert turned["label"].tolist() == (2 - read.judgments["label"]).tolist()
    assert turned["raw_value"].equals(read.judgments["raw_value"])
    assert set(turned["judge_id"]).isdisjoint(read.judgments["judge_id"])
    store(tmp_path / "runs" / "mine", read)
    stored = read_table(tmp_path / "runs" / "mine", "judgments").set_index("instance_id")
    assert stored["reason"].to_dict() == dict(zip(read.judgments["instance_id"], read.judgments["reason"], strict=True))


ROW = {
    "cate-idx": "1.1.1",
    "l2-name": "Level two",
    "l3-name": "Level three",
    "l4-name": "Level four",
    "prompt": "A question?",
    "response": "No, thank you.",
    "score_reason": "It declines.",
    "score": "1.0",
}


def _csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def _json(path: Path, rows: list[dict[str, Any]]) -> Path:
    def named(key: str) -> str:
        return "reason" if key == "score_reason" else key.replace("-", "_")

    content = [{named(key): value for key, value in row.items()} for row in rows]
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_csv_and_json_of_the_same_rows_are_the_same(tmp_path: Path) -> None:
    table = read_airbench_scored(_csv(tmp_path / "a.csv", [ROW]), ABOUT)
    row = {**ROW, "prompt": [{"prompt": ROW["prompt"]}], "score": 1}
    listed = read_airbench_scored(_json(tmp_path / "a.json", [row]), ABOUT)
    for name in ("prompts", "responses", "judgments"):
        pd.testing.assert_frame_equal(getattr(table, name), getattr(listed, name))
    assert table.judgments["judge"].tolist() == ["acme/rater"]
    assert table.judgments["model"].tolist() == ["acme/slm"]
    assert json.loads(table.prompts["meta"].iloc[0]) == {"cate_idx": "1.1.1", "level_3": "Level three"}


def test_ids_are_those_of_the_suite(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "prompt": "Another?"}, {**ROW, "cate-idx": "1.1.2"}, ROW]
    path = _csv(tmp_path / "a.csv", rows)
    ids = read_airbench_scored(path, ABOUT).prompts["instance_id"].tolist()
    assert ids == airbench.load(path).loc[:, "instance_id"].tolist()
    assert len(set(ids)) == 4


CELLS: list[tuple[Any, str, str, int | None, float | None, str | None]] = [
    ("0", "x", "ok", 0, 0.0, None),
    ("0.5", "x", "ok", 1, 0.5, None),
    (1, "x", "ok", 2, 1.0, None),
    ("2", "x", "off_scale", None, 2.0, None),
    ("nan", "x", "unparsed", None, None, "nan"),
    ("inf", "x", "off_scale", None, None, "inf"),
    ("1 (refuses)", "x", "unparsed", None, None, "1 (refuses)"),
    ("", "x", "unparsed", None, None, ""),
    (None, "x", "unparsed", None, None, None),
    ("1", " ", "empty_response", None, 1.0, None),
]


@pytest.mark.parametrize(("score", "response", "status", "label", "raw_value", "raw_text"), CELLS)
def test_each_cell_has_its_status(
    score: Any,
    response: str,
    status: str,
    label: int | None,
    raw_value: float | None,
    raw_text: str | None,
    tmp_path: Path,
) -> None:
    path = _json(tmp_path / "a.json", [{**ROW, "score": score, "response": response}])
    store(tmp_path / "runs" / "mine", read_airbench_scored(path, ABOUT))
    row = read_table(tmp_path / "runs" / "mine", "judgments").iloc[0]
    found = [None if pd.isna(value) else value for value in (row["label"], row["raw_value"], row["raw_text"])]
    assert [row["status"], *found] == [status, label, raw_value, raw_text]
    replies = read_table(tmp_path / "runs" / "mine", "responses")
    assert replies["finish_reason"].tolist() == ["empty" if status == "empty_response" else "stop"]
    if status == "empty_response":
        store(tmp_path / "runs" / "asked", read_airbench_scored(path, ABOUT), judges_empty=True)
        asked = read_table(tmp_path / "runs" / "asked", "judgments").iloc[0]
        assert (asked["status"], asked["label"]) == ("ok", 2)


BAD: dict[str, tuple[str, str]] = {
    "object": ('{"a": 1}', "needs a JSON list of objects"),
    "none": ("[]", "holds no rows"),
    "number": ("[3]", "row 1: it: input should be a valid dictionary"),
    "no response": (
        json.dumps([{k.replace("-", "_"): v for k, v in ROW.items() if k != "response"}]),
        "row 1: response: field",
    ),
    "no prompt": (json.dumps([{**ROW, "prompt": []}]), "row 1: prompt"),
    "broken": ("[{", "not readable as JSON in UTF-8 ("),
}


@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD)
def test_what_is_no_scored_file_is_named(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_airbench_scored(path, ABOUT)
    assert str(caught.value).startswith(str(path))
    assert problem in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_csv_without_scores_is_named(tmp_path: Path) -> None:
    path = _csv(tmp_path / "a.csv", [{key: value for key, value in ROW.items() if key != "score"}])
    with pytest.raises(InputError, match=r"a\.csv: lacks column 'score'"):
        read_airbench_scored(path, ABOUT)


@pytest.mark.parametrize(
    ("score", "polarity", "label"), [(0.0, "pre_swap", 2), (1.0, "pre_swap", 0), (0.5, "pre_swap", 1)]
)
def test_before_the_swap_one_is_harmful(score: float, polarity: str, label: int) -> None:
    assert outcome(score, polarity) == ("ok", label)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None, None), None),
        (("pre_swap", None, None), "pre_swap"),
        (("post_swap", None, "0.5.2"), "post_swap"),
        ((None, None, "0.5.4"), None),
        ((None, None, "0.5.5"), "post_swap"),
        ((None, None, "v0.5.16"), "post_swap"),
        ((None, "976d9fbb", None), "post_swap"),
        ((None, "976d", None), None),
        ((None, "a929966", None), None),
        (("pre_swap", None, "0.5.2"), "pre_swap"),
    ],
)
def test_the_direction_is_named_or_implied_and_never_guessed(
    given: tuple[str | None, ...], expected: str | None
) -> None:
    assert airbench_polarity("run", *given) == expected


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("pre_swap", None, "0.5.6"), "run: polarity pre_swap contradicts helm_version 0.5.6"),
        (("pre_swap", "976d9fbb0f52", None), "run: polarity pre_swap contradicts rubric_revision 976d9fbb0f52"),
        (("swapped", None, None), "unknown polarity 'swapped' in run; valid: post_swap, pre_swap"),
        ((None, None, "latest"), "run: helm_version 'latest' is no version"),
    ],
)
def test_contradictions_about_the_direction_are_refused(given: tuple[str | None, ...], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        airbench_polarity("run", *given)
    assert problem in str(caught.value)
