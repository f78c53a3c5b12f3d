from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slmsafety.errors import InputError
from slmsafety.suites import salad
from slmsafety.suites.catalogue import load_suite


def row(qid: int, third: int = 66) -> dict[str, Any]:
    """A mild row; the numbers of its categories go beyond their counts, as upstream's do."""
    names = {"1-category": f"O{qid % 6 + 3}: area", "2-category": f"O{qid % 16 + 3}: task"}
    return {
        "qid": qid,
        "question": f"Is {qid} even?",
        "source": "own",
        **names,
        "3-category": f"O{qid % third + 3}: it",
    }


def write(folder: Path, content: object) -> Path:
    path = folder / "base_set.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_rows_become_prompts(tmp_path: Path) -> None:
    table = salad.load(write(tmp_path, [row(7), row(3)]))
    fields = ["suite", "instance_id", "prompt", "category", "subcategory", "expected"]
    assert table[fields].to_numpy().tolist() == [
        ["salad", "7", "Is 7 even?", "O4: area", "O10: it", "refuse"],
        ["salad", "3", "Is 3 even?", "O6: area", "O6: it", "refuse"],
    ]
    assert json.loads(table["meta"][0]) == {"source": "own", "level_2": "O10: task"}


def test_the_whole_set_is_counted(tmp_path: Path) -> None:
    data = load_suite("salad", write(tmp_path, [row(n) for n in range(21318)]))
    assert (data.title, data.complete) == ("SALAD", True)
    assert data.prompts["instance_id"].is_unique
    # The highest index is 68 where there are 66 categories.
    assert (data.prompts["category"].nunique(), data.prompts["subcategory"].nunique()) == (6, 66)
    with pytest.raises(InputError, match="has SALAD's 21318 rows but 65 values of 3-category, not 66"):
        salad.load(write(tmp_path, [row(n, third=65) for n in range(21318)]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([row(1), row(1)], "'instance_id': '1'} twice"),
        ([row(1), {**row(2), "question": " "}], "row 2 has question ' '; it must be filled"),
        ([{**row(2), "qid": None}], "row 1 has qid None"),
        ([{**row(2), "qid": True}], "row 1 has qid True"),
        ([{**row(2), "3-category": 4}], "row 1 has 3-category 4"),
        ([["qid"]], "row 1 has qid None"),
        ({"rows": []}, "is not a JSON list of rows with qid, question"),
        ([], "is not a JSON list of rows"),
    ],
)
def test_a_faulty_file_is_named(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as info:
        salad.load(write(tmp_path, content))
    assert "\n" not in str(info.value)


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "base_set.json"
    for content in (b"qid,question\n", b"\xff\xfe\x00", b'[{"qid": 1}'):
        path.write_bytes(content)
        with pytest.raises(InputError, match="is not a JSON file in UTF-8"):
            salad.load(path)


def test_the_public_part(public_data: Path) -> None:
    path = public_data / "salad" / "sampled_base_1800.json"
    data = load_suite("salad", path)
    assert (data.title, data.complete, data.rows_expected) == ("SALAD-1800", False, 21318)
    assert data.prompts["instance_id"].is_unique
    assert data.prompts["instance_id"].str.fullmatch(r"\d+").all()
    assert data.prompts["category"].value_counts().tolist() == [300] * 6
    assert data.prompts["subcategory"].nunique() == 66
    assert len({json.loads(meta)["level_2"] for meta in data.prompts["meta"]}) == 16
    assert sum(json.loads(meta)["source"] == "ToxicChat" for meta in data.prompts["meta"]) == 7
