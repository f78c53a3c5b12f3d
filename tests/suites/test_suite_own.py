"""A user's own file: its text comes back as written, and a fault is one line with the file, the row and the column."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.errors import InputError
from slmsafety.paths import project_root
from slmsafety.records.ids import text_id
from slmsafety.records.schema import PROMPTS
from slmsafety.suites.catalogue import inspect, load_suite, title
from slmsafety.suites.own import COLUMNS, load_own

TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
FILLED = TEXT.filter(lambda text: text.strip() != "")
PLAIN = FILLED.filter(
    lambda text: text == text.strip() and not any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in text)
)
ENDINGS = (".csv", ".jsonl", ".parquet")


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A file of the rows, in the form that its ending says."""
    if path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
        return path
    text = io.StringIO(newline="")
    if path.suffix == ".jsonl":
        text.writelines(json.dumps(row) + "\n" for row in rows)
    else:
        writer = csv.DictWriter(text, list(rows[0]), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_of_prompts_is_enough(ending: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"mine{ending}", [{"prompt": "Is red warm?"}, {"prompt": "Name a colour."}])
    data = load_suite("mine", path)
    assert list(data.prompts.columns) == list(PROMPTS.columns)
    assert (data.title, data.complete, data.rows_expected) == ("mine", True, 2)
    assert data.prompts["instance_id"].tolist() == [text_id("Is red warm?"), text_id("Name a colour.")]
    assert data.prompts["expected"].tolist() == ["refuse", "refuse"]
    assert data.prompts["category"].tolist() == ["", ""]
    assert set(data.prompts["suite_revision"]) == {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}


def test_the_example_of_the_documentation_loads(tmp_path: Path) -> None:
    text = (project_root() / "docs/suites.md").read_text("utf-8")
    path = tmp_path / "prompts.csv"
    path.write_text(text.split("```csv\n")[1].split("```")[0])
    table = load_suite("mine", path).prompts
    assert table["expected"].tolist() == ["answer", "refuse"]
    assert table["category"].tolist() == ["kitchen", "work"]


@pytest.mark.parametrize("ending", ENDINGS)
@given(data=st.data())
def test_any_text_comes_back_from_columns_in_any_order(
    ending: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ids = data.draw(st.lists(PLAIN, min_size=1, max_size=4, unique=True))
    heading = data.draw(PLAIN)
    rows = [
        {
            "prompt": data.draw(FILLED),
            "instance_id": instance_id,
            "expected": data.draw(st.sampled_from(["refuse", "Answer", "REFUSE", " answer ", "", " "])),
            "category": data.draw(TEXT),
            "subcategory": data.draw(TEXT),
            "group": data.draw(TEXT),
            "title": heading,
            "of the file's own": data.draw(TEXT),
        }
        for instance_id in ids
    ]
    order = data.draw(st.permutations(list(rows[0])))
    path = tmp_path_factory.mktemp("own") / f"mine{ending}"
    loaded = load_suite("mine", write(path, [{column: row[column] for column in order} for row in rows]))
    for column in ("prompt", "instance_id", "category", "subcategory"):
        assert loaded.prompts[column].tolist() == [row[column] for row in rows]
    expected = ["answer" if "answer" in row["expected"].lower() else "refuse" for row in rows]
    assert loaded.prompts["expected"].tolist() == expected
    metas = [json.loads(meta) for meta in loaded.prompts["meta"]]
    assert [meta["columns"] for meta in metas] == [{"of the file's own": row["of the file's own"]} for row in rows]
    assert loaded.title == heading
    if "group" in PROMPTS.columns:
        groups = [row["group"] if row["group"].strip() else row["instance_id"] for row in rows]
        assert loaded.prompts["group"].tolist() == groups


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_numbers_become_text_and_other_columns_keep_their_kind(ending: str, tmp_path: Path) -> None:
    rows = [
        {"prompt": "Is 1 odd?", "instance_id": 1, "category": 2.0, "level": 3, "tags": ["a"], "rate": 0.5},
        {"prompt": "Is 2 odd?", "instance_id": 20, "category": 2.5, "level": 4, "tags": [], "rate": None},
    ]
    table = load_own("mine", write(tmp_path / f"mine{ending}", rows))
    assert table["instance_id"].tolist() == ["1", "20"]
    assert table["category"].tolist() == ["2", "2.5"]
    columns = [json.loads(meta)["columns"] for meta in table["meta"]]
    assert columns == [{"level": 3, "tags": ["a"], "rate": 0.5}, {"level": 4, "tags": [], "rate": None}]


def test_what_json_does_not_know_is_kept_as_text(tmp_path: Path) -> None:
    rows = [{"prompt": "Is it Monday?", "day": pd.Timestamp("2026-11-30")}]
    table = load_own("mine", write(tmp_path / "mine.parquet", rows))
    assert json.loads(table["meta"][0])["columns"] == {"day": "2026-11-30 00:00:00"}


def test_a_repeated_prompt_needs_ids(tmp_path: Path) -> None:
    rows = [{"prompt": "Same?", "instance_id": name} for name in ("b", "a")]
    assert load_own("mine", write(tmp_path / "mine.csv", rows))["instance_id"].tolist() == ["b", "a"]


def test_the_title_is_the_file_s_and_a_sample_says_so(tmp_path: Path) -> None:
    rows = [{"prompt": f"Is {n} odd?", "title": name} for n, name in enumerate(["", "My prompts", ""])]
    path = write(tmp_path / "mine.csv", rows)
    prompts = load_suite("mine", path).prompts
    assert title("mine", prompts) == "My prompts"
    assert title("mine", prompts[["meta"]].head(2)) == "My prompts-2"
    assert inspect("mine", path, limit=2) == {
        "suite": "mine",
        "path": str(path),
        "present": "",
        "title": "My prompts-2",
        "prompts": "3; 2 are sampled",
        "revision": prompts["suite_revision"][0],
    }


def test_a_suite_of_one_s_own_without_a_file_is_unknown() -> None:
    for load in (load_suite, inspect):
        with pytest.raises(InputError, match=r"unknown suite 'mine'; valid: .*, or give 'path:' of your own"):
            load("mine", None)


FAULTY: dict[str, tuple[str, str | bytes, str]] = {
    # ending, content, the message after the path
    "another ending": (".txt", "prompt\nhi\n", "ends in '.txt'; a suite's file ends in .csv, .jsonl, .parquet"),
    "no ending": ("", "prompt\nhi\n", "ends in ''; a suite's file ends in .csv"),
    "empty": (".csv", "", "has no column 'prompt'"),
    "header only": (".csv", "prompt\n", "has a header but no row"),
    "semicolons": (".csv", "prompt;category\nhi;x\n", "its cells are separated by ';', a comma is expected"),
    "latin-1": (".csv", "prompt\ncafé\n".encode("latin-1"), "is not a CSV file in UTF-8"),
    "open quote": (".csv", 'prompt\n"hi\n', "is not a CSV file in UTF-8"),
    "column twice": (".csv", "prompt,a,a\nhi,1,2\n", "row 1 has the column 'a' twice"),
    "long row": (".csv", "prompt\nhi\nho,2\n", "row 3 does not have the header's 1 cells"),
    "no prompt column": (".csv", "text,id\nhi,1\n", "has no column 'prompt'"),
    "prompt in capitals": (".jsonl", '{"Prompt": "hi"}', "has a column 'Prompt'; did you mean 'prompt'? rename it"),
    "near column": (".csv", "prompt,Expected\nhi,answer\n", "has a column 'Expected'; did you mean 'expected'?"),
    "near column 2": (".csv", "prompt,instance id\nhi,1\n", "a column 'instance id'; did you mean 'instance_id'?"),
    "near column 3": (".csv", "prompt,catgeory\nhi,1\n", "has a column 'catgeory'; did you mean 'category'?"),
    "blank prompt": (".csv", "prompt,category\nhi,x\n ,x\n", "row 3 has nothing in column 'prompt'"),
    "blank after a gap": (".csv", 'prompt,a\n"two\nlines",x\n\n,x\n', "row 4 has nothing in column 'prompt'"),
    "prompt twice": (".csv", "prompt\nhi\nho\nhi\n", "row 2 and row 4 have the same prompt; add a column"),
    "id twice": (".csv", "prompt,instance_id\na,1\nb,1\n", "row 2 and row 3 have the same instance_id '1'"),
    "blank id": (".csv", "prompt,instance_id\na,1\nb, \n", "row 3 has nothing in column 'instance_id'; fill it"),
    "id with a tab": (".csv", "prompt,instance_id\na,1\t2\n", "row 2 has instance_id '1\\t2'; valid: a text without"),
    "id with a line break": (".csv", 'prompt,instance_id\na,"1\n2"\n', "row 2 has instance_id '1\\n2'"),
    "id with a blank": (".csv", "prompt,instance_id\na, 1\n", "row 2 has instance_id ' 1'"),
    "expected": (".csv", "prompt,expected\na,refus\n", "row 2; did you mean 'refuse'?"),
    "two titles": (".csv", "prompt,title\na,One\nb,Two\n", "row 3 has title 'Two', an earlier row 'One'"),
    "no rows": (".jsonl", "\n", "has no rows"),
    "no json": (".jsonl", '{"prompt": "a"}\n{"prompt": ', "line 2 is not one JSON object"),
    "list": (".jsonl", '{"prompt": "a"}\n\n["b"]\n', "line 3 is not one JSON object (it is ['b'])"),
    "whole array": (".jsonl", '[{"prompt": "a"}]', "line 1 is not one JSON object"),
    "key twice": (".jsonl", '{"prompt": "a", "prompt": "b"}', "line 1 is not one JSON object (key 'prompt' is there"),
    "nan": (".jsonl", '{"prompt": "a", "x": NaN}', "line 1 is not one JSON object (NaN is no number)"),
    "deep": (".jsonl", "[" * 100_000, "line 1 is not one JSON object"),
    "bytes": (".jsonl", b'{"prompt": "\xff"}', "is not in UTF-8 after line 0"),
    "number as prompt": (".jsonl", '{"prompt": 3}', "line 1 has prompt 3; valid: a text"),
    "chat as prompt": (".jsonl", '{"prompt": [{"role": "user"}]}', "line 1 has prompt [{'role': 'user'}]; valid: a"),
    "no prompt": (".jsonl", '{"prompt": "a"}\n{"category": "x"}', "line 2 has nothing in column 'prompt'"),
    "null id": (
        ".jsonl",
        '{"prompt": "a", "instance_id": "1"}\n{"prompt": "b"}',
        "line 2 has nothing in column 'instance_id'",
    ),
    "true as id": (".jsonl", '{"prompt": "a", "instance_id": true}', "line 1 has instance_id True; valid: a text or"),
    "list as category": (".jsonl", '{"prompt": "a", "category": ["x"]}', "line 1 has category ['x']; valid: a text or"),
    "1 and 1.0": (
        ".jsonl",
        '{"prompt": "a", "instance_id": 1}\n{"prompt": "b", "instance_id": 1.0}',
        "line 1 and line 2 have the same instance_id '1'",
    ),
    "surrogate": (".jsonl", '{"prompt": "a\\ud800"}', "line 1 has half a surrogate pair in column 'prompt'"),
    "no parquet": (".parquet", "prompt\nhi\n", "is not a Parquet file"),
    "empty parquet": (".parquet", b"", "is not a Parquet file"),
}


@pytest.mark.parametrize(("ending", "content", "message"), FAULTY.values(), ids=FAULTY)
def test_a_fault_is_one_line_with_its_place(ending: str, content: str | bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / f"mine{ending}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as caught:
        load_suite("mine", path)
    assert message in str(caught.value)
    assert f"'{path}'" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"prompt": ["a", None]}, "row 2 has nothing in column 'prompt'"),
        ({"prompt": ["a", "b"], "instance_id": [1, None]}, "row 2 has nothing in column 'instance_id'"),
        ({"prompt": []}, "has no rows"),
    ],
)
def test_a_faulty_row_of_a_parquet_file_is_counted_from_1(
    rows: dict[str, list[Any]], message: str, tmp_path: Path
) -> None:
    pd.DataFrame(rows).to_parquet(tmp_path / "mine.parquet")
    with pytest.raises(InputError, match=message):
        load_suite("mine", tmp_path / "mine.parquet")


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_not_there_is_named(ending: str, tmp_path: Path) -> None:
    for path in (tmp_path / f"gone{ending}", tmp_path / f"folder{ending}"):
        with pytest.raises(InputError, match=f"there is no file '{path}'"):
            load_suite("mine", path)
        (tmp_path / f"folder{ending}").mkdir(exist_ok=True)


@pytest.mark.parametrize("column", [column for column in COLUMNS if column != "prompt"])
def test_a_column_of_a_near_name_beside_the_right_one_is_the_file_s_own(column: str, tmp_path: Path) -> None:
    row = {"prompt": "a", column: "refuse", f"{column}s": "other"}
    meta = json.loads(load_own("mine", write(tmp_path / "mine.csv", [row]))["meta"][0])
    assert meta["columns"] == {f"{column}s": "other"}
