from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from stored import store

from slmsafety.errors import InputError
from slmsafety.importers.judged_table import read_judged_table
from slmsafety.records.imports import read_imported as read_table
from slmsafety.study import Study

Rows = list[dict[str, Any]]
ROW = {"suite": "mine", "instance_id": "1", "model": "tiny", "judge": "rater", "score": "1"}


def _write(path: Path, rows: Rows, columns: list[str] | None = None) -> Path:
    names = columns or list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, names, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def _import(folder: Path, rows: Rows) -> Path:
    run = folder / "runs" / "mine"
    store(run, read_judged_table(_write(folder / "judged.csv", rows)).imported)
    return run


def test_the_needed_columns_are_enough(tmp_path: Path) -> None:
    rows = [{**ROW, "instance_id": str(i), "score": score} for i, score in enumerate(["0", "0.5", "1", "1.0", "5e-1"])]
    run = _import(tmp_path, rows)
    judgments = read_table(run, "judgments")
    assert judgments["label"].tolist() == [0, 1, 2, 2, 1]
    assert judgments["raw_value"].tolist() == [0, 0.5, 1, 1, 0.5]
    assert judgments["status"].tolist() == ["ok"] * 5
    prompts = read_table(run, "prompts")
    assert prompts["expected"].tolist() == ["refuse"] * 5
    assert prompts["prompt"].tolist() == prompts["category"].tolist() == [""] * 5
    assert read_table(run, "responses")["response"].isna().tolist() == [True] * 5


TEXT = 'A "quoted" text,\nwith a line, \u00fc and \N{GRINNING FACE}; NA'


@pytest.mark.parametrize(
    ("column", "value", "table"),
    [
        ("prompt", TEXT, "prompts"),
        ("category", "NA", "prompts"),
        ("subcategory", "1.0", "prompts"),
        ("expected", "answer", "prompts"),
        ("response", TEXT, "responses"),
        ("reason", "null", "judgments"),
        ("status", "ok", "judgments"),
    ],
)
def test_each_optional_column_is_kept_as_it_is(column: str, value: str, table: str, tmp_path: Path) -> None:
    run = _import(tmp_path, [{**ROW, column: value}])
    assert read_table(run, table)[column].tolist() == [value]


def test_scores_off_the_scale_and_failures_are_counted_without_a_label(tmp_path: Path) -> None:
    cells = [("0.7", "off_scale"), ("-1", "off_scale"), ("", "error")]
    cells += [("0.7", "error"), ("1", "truncated_input"), ("", "unparsed")]
    rows = [{**ROW, "instance_id": str(i), "score": score, "status": s} for i, (score, s) in enumerate(cells)]
    judgments = read_table(_import(tmp_path, rows), "judgments")
    statuses = ["off_scale", "off_scale", "error", "error", "truncated_input", "unparsed"]
    assert judgments["status"].tolist() == statuses
    assert judgments["label"].isna().all()
    assert judgments["raw_value"].fillna(9).tolist() == [0.7, -1, 9, 0.7, 1, 9]


BAD_FILES: dict[str, tuple[Rows, str]] = {
    "a name that is no file": ([ROW, {**ROW, "judge": "../x"}], "judge name '../x' cannot name a file"),
    "merged": (
        [{**ROW, "model": "org/tiny"}, {**ROW, "instance_id": "2", "model": "org_tiny"}],
        "models 'org/tiny' and 'org_tiny' would be stored alike, as 'org_tiny'; rename one",
    ),
    "merged by case": (
        [{**ROW, "judge": "GPT-4"}, {**ROW, "instance_id": "2", "judge": "gpt-4"}],
        "judges 'GPT-4' and 'gpt-4' would be stored alike",
    ),
}


@pytest.mark.parametrize(("rows", "problem"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_rows_are_named_in_one_line_and_nothing_is_written(rows: Rows, problem: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "judged.csv", rows, None if rows else list(ROW))
    with pytest.raises(InputError) as caught:
        store(tmp_path / "runs" / "mine", read_judged_table(path).imported)
    message = str(caught.value)
    assert problem in message
    assert message.count(str(path)) == 1
    assert len(message.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_slash_in_a_models_name_becomes_an_underscore(tmp_path: Path) -> None:
    run = _import(tmp_path, [{**ROW, "model": "org/tiny 1.5"}, {**ROW, "model": "tiny"}])
    assert read_table(run, "judgments")["model"].tolist() == ["org_tiny_1.5", "tiny"]
    assert (run / "imports" / "1" / "judgments" / "mine" / "rater" / "org_tiny_1.5.parquet").is_file()


def test_importing_again_replaces_the_import_before(tmp_path: Path) -> None:
    run = _import(tmp_path, [ROW, {**ROW, "model": "big"}])
    assert read_table(run, "judgments")["model"].tolist() == ["big", "tiny"]
    _import(tmp_path, [{**ROW, "score": "0"}])
    assert read_table(run, "judgments")[["model", "label"]].to_numpy().tolist() == [["tiny", 0]]


def test_a_study_of_an_imported_file_gives_its_outcomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    # tiny: harmful, ambiguous, safe, safe, an error and an off-scale one; big: safe, and an empty reply.
    cells = [
        ("tiny", "0", "ok", "refuse"),
        ("tiny", "0.5", "ok", "refuse"),
        ("tiny", "1", "ok", "refuse"),
        ("tiny", "1", "ok", "refuse"),
        ("tiny", "", "error", "refuse"),
        ("tiny", "0.9", "off_scale", "refuse"),
        ("tiny", "1", "ok", "answer"),
        ("org/big", "1", "ok", "refuse"),
        ("org/big", "", "empty_response", "refuse"),
    ]
    ids = ["1", "2", "3", "4", "5", "6", "7", "1", "2"]
    rows = [
        {**ROW, "instance_id": key, "model": model, "score": score, "status": status, "expected": expected}
        for key, (model, score, status, expected) in zip(ids, cells, strict=True)
    ]
    # Another judge on the same replies; the first by name is the one that is read.
    _write(tmp_path / "judged.csv", [*rows, {**rows[0], "judge": "strict", "score": "1"}])
    parameters = {"name": "mine", "kind": "imported", "judged_csv": "judged.csv", "scores": {"higher": "safe"}}
    study = Study.load(parameters)
    study.collect()
    made = study.outcomes().set_index("model")
    assert made.index.tolist() == ["org_big", "tiny"]
    tiny, big = made.loc["tiny"], made.loc["org_big"]
    assert (tiny["n"], tiny["hcr"], tiny["ar"], tiny["srr"], tiny["mean"]) == (4, 0.25, 0.25, 0.5, 0.625)
    assert (tiny["n_ok"], tiny["n_error"], tiny["n_off_scale"], tiny["n_empty_response"]) == (4, 1, 1, 0)
    assert (big["n"], big["hcr"], big["srr"], big["n_empty_response"]) == (1, 0, 1, 1)
    np.testing.assert_array_equal(Study.load({**parameters, "empty": "harmful"}).outcomes()["hcr"], [0.5, 0.25])
    strict = study.labels("strict")
    assert strict[["model", "label"]].to_numpy().tolist() == [["tiny", 2]]
    assert isinstance(strict, pd.DataFrame)
