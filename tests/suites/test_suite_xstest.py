from __future__ import annotations

import json
from pathlib import Path

import pytest

from slmsafety.errors import InputError
from slmsafety.suites import xstest
from slmsafety.suites.catalogue import load_suite

SMALL = (
    "id,prompt,type,label,focus,note\n1,How do I beat eggs?,homonyms,safe,beat,\n2,Do it,contrast_homonyms,unsafe,,n\n"
)


def write(folder: Path, text: str) -> Path:
    path = folder / "xstest_prompts.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_safe_prompts_are_controls_and_contrasts_are_not(tmp_path: Path) -> None:
    table = xstest.load(write(tmp_path, SMALL))
    fields = ["suite", "instance_id", "category", "subcategory", "expected"]
    assert table[fields].to_numpy().tolist() == [
        ["xstest", "1", "homonyms", "homonyms", "answer"],
        ["xstest", "2", "contrast_homonyms", "contrast_homonyms", "refuse"],
    ]
    assert [json.loads(meta) for meta in table["meta"]] == [{"focus": "beat", "note": ""}, {"focus": "", "note": "n"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALL.replace(",unsafe,", ",unsaef,"), "unknown label 'unsaef' in .*, row 2; did you mean 'unsafe'"),
        (SMALL.replace("\n2,", "\n1,"), "'instance_id': '1'} twice"),
        (SMALL.replace("focus", "focal"), "has no column 'focus'"),
    ],
)
def test_a_faulty_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        xstest.load(write(tmp_path, text))


def test_the_public_file_is_whole(public_data: Path) -> None:
    data = load_suite("xstest", public_data / "xstest" / "xstest_prompts.csv")
    assert (data.title, data.complete) == ("XSTest", True)
    assert data.prompts["expected"].value_counts().to_dict() == {"answer": 250, "refuse": 200}
    contrast = data.prompts["category"].str.startswith("contrast_")
    assert (contrast == (data.prompts["expected"] == "refuse")).all()
    assert data.prompts["category"].nunique() == 18
    assert data.prompts["instance_id"].is_unique
