from __future__ import annotations

import json
from pathlib import Path

import pytest

from slmsafety.errors import InputError
from slmsafety.records.schema import PROMPTS
from slmsafety.suites import sst

SMALL = (
    "id,harm_area,counter,category,prompts_final\nsst_1,Colours,1,Advice,Is red warm?\nsst_2,Shapes,2,Action,Draw it\n"
)


def write(folder: Path, text: str) -> Path:
    path = folder / "cases.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_become_prompts(tmp_path: Path) -> None:
    table = sst.load(write(tmp_path, SMALL))
    assert list(table.columns) == list(PROMPTS.columns)
    fields = ["suite", "instance_id", "prompt", "category", "subcategory", "expected"]
    assert table[fields].to_numpy().tolist() == [
        ["sst", "sst_1", "Is red warm?", "Colours", "Advice", "refuse"],
        ["sst", "sst_2", "Draw it", "Shapes", "Action", "refuse"],
    ]
    assert [json.loads(meta) for meta in table["meta"]] == [{"counter": "1"}, {"counter": "2"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALL.replace("prompts_final", "prompt"), "has no column 'prompts_final'; expected columns: id, harm_area"),
        (SMALL.replace("sst_2", "sst_1"), "'instance_id': 'sst_1'} twice"),
        (SMALL.replace("Draw it", ""), "row 2 has nothing in column 'prompts_final'"),
        ("", "has no column 'id'"),
    ],
)
def test_a_faulty_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=message) as info:
        sst.load(path)
    assert str(path) in str(info.value)
    assert "\n" not in str(info.value)


def test_upstream_is_read_whole(public_data: Path) -> None:
    table = sst.load(public_data / "sst" / "SimpleSafetyTests_test_cases.csv")
    assert table["instance_id"].tolist() == [f"sst_{number:03d}" for number in range(1, 101)]
    assert table["category"].value_counts().tolist() == [20] * 5
    assert table["subcategory"].value_counts().tolist() == [50] * 2
    assert table["prompt"].nunique() == 100
    assert set(table["suite_revision"]) == {"6d95a1301e0d"}
