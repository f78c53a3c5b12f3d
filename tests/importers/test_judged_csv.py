from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from stored import store

from slmsafety.errors import InputError
from slmsafety.importers.judged_csv import read_judged_csv
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
    store(run, read_judged_csv(_write(folder / "judged.csv", rows)))
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
    "no suite": ([{name: value for name, value in ROW.items() if name != "suite"}], "lacks column 'suite'; needed: "),
    "misspelt": ([{**ROW, "respons": ""}], "unknown column 'respons' in {path}; did you mean 'response'?"),
    "no rows": ([], "has no rows below the header"),
    "word": (
        [ROW, {**ROW, "instance_id": "2", "score": "safe"}],
        "row 3 has score 'safe'; valid: 0 (harmful)",
    ),
    "comma": ([{**ROW, "score": "0,5"}], "row 2 has score '0,5'; valid"),
    "nan": ([{**ROW, "score": "nan"}], "row 2 has score 'nan'; valid"),
    "no score": ([{**ROW, "score": ""}], "row 2 has no score; add a column 'status' that says why"),
    "ok without score": ([{**ROW, "score": "", "status": "ok"}], "row 2 has status ok and no score; valid: empty_"),
    "status": ([{**ROW, "status": "fine"}], "unknown status 'fine' in {path}, row 2"),
    "expected": (
        [{**ROW, "expected": "refused"}],
        "unknown expected 'refused' in {path}, row 2; did you mean 'refuse'?",
    ),
    "no id": ([ROW, {**ROW, "instance_id": ""}], "row 3 has no instance_id"),
    "no model": ([{**ROW, "model": ""}], "row 2 has no model"),
    "twice": ([ROW, {**ROW, "score": "0"}], "row 3 repeats a judgment: mine, 1, tiny"),
    "exactly twice": ([ROW, ROW], "row 3 repeats a judgment: mine, 1, tiny"),
    "two prompts": (
        [{**ROW, "prompt": "a\nb"}, {**ROW, "model": "big", "prompt": "c"}],
        "row 3 contradicts an earlier row of table prompts: mine, 1",
    ),
    "two replies": (
        [{**ROW, "response": "a"}, {**ROW, "judge": "other", "response": "b"}],
        "row 3 contradicts an earlier row of table responses: mine, 1, tiny",
    ),
    "judge": ([ROW, {**ROW, "judge": "../x"}], "judge name '../x' cannot name a file"),
    "hidden": ([{**ROW, "model": ".tiny"}], "model name '.tiny' cannot name a file"),
    "merged": (
        [{**ROW, "model": "org/tiny"}, {**ROW, "instance_id": "2", "model": "org_tiny"}],
        "models 'org/tiny' and 'org_tiny' would be stored alike, as 'org_tiny'; rename one",
    ),
}


@pytest.mark.parametrize(("rows", "problem"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_rows_are_named_in_one_line_and_nothing_is_written(rows: Rows, problem: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "judged.csv", rows, None if rows else list(ROW))
    with pytest.raises(InputError) as caught:
        store(tmp_path / "runs" / "mine", read_judged_csv(path))
    message = str(caught.value)
    assert problem.format(path=path) in message
    assert message.count(str(path)) == 1
    assert len(message.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


HEADER = b"suite,instance_id,model,judge,score\n"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not readable as CSV (No columns to parse from file)"),
        (HEADER + b"a,1,m,j\xff,1\n", "not readable as CSV ("),
        (HEADER + b"a,1,m,j,1\na,2,m,j,1,9\n", "not readable as CSV ("),
        (HEADER + b"a,1,m,j,1,\na,2,m,j,1,\n", "its rows have more fields than the header has columns"),
        (HEADER + b'a,1,m,"j,1\n', "not readable as CSV ("),
        (HEADER + b"a,1,m\n", "row 2 has no judge"),
        (HEADER.replace(b",", b";") + b"a;1;m;j;1\n", "lacks column 'suite'"),
        (HEADER.replace(b"score", b"score,score") + b"a,1,m,j,1,0\n", "unknown column 'score.1'"),
    ],
)
def test_what_is_no_such_csv_is_named(data: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "judged.csv"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        store(tmp_path / "runs" / "mine", read_judged_csv(path))
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["absent.csv", "."])
def test_a_file_that_cannot_be_opened_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not readable as CSV"):
        read_judged_csv(tmp_path / name)


def test_a_byte_order_mark_and_crlf_are_read(tmp_path: Path) -> None:
    path = tmp_path / "judged.csv"
    path.write_bytes(b"\xef\xbb\xbf" + HEADER.replace(b"\n", b"\r\n") + b"a,1,m,j,0.5\r\n")
    store(tmp_path / "runs" / "mine", read_judged_csv(path))
    assert read_table(tmp_path / "runs" / "mine", "judgments")["label"].tolist() == [1]


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
    parameters = {"name": "mine", "kind": "imported", "judged_csv": "judged.csv"}
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
