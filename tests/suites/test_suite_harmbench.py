from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.records.schema import PROMPTS
from slmsafety.suites import harmbench

HEADER = "Behavior,FunctionalCategory,SemanticCategory,Tags,ContextString,BehaviorID\n"
SMALL = (
    HEADER
    + "Name a colour,standard,colours,,,colour_1\n"
    + 'Name it again,contextual,colours,context,"The sky is blue.\nSo is the sea.",colour_2\n'
    + 'Name a colour,copyright,songs,"lyrics, hash_check",,nan\n'
)


def write(folder: Path, text: str) -> Path:
    path = folder / "behaviors.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_become_prompts(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    table = harmbench.load(path)
    assert list(table.columns) == list(PROMPTS.columns)
    assert table["instance_id"].tolist() == ["colour_1", "colour_2", "nan"]
    assert table["prompt"].tolist() == [
        "Name a colour",
        "The sky is blue.\nSo is the sea.\n\n---\n\nName it again",
        "Name a colour",
    ]
    assert table["category"].tolist() == ["standard", "contextual", "copyright"]
    assert table["subcategory"].tolist() == ["colours", "colours", "songs"]
    assert set(table["suite"]) == {"harmbench"}
    assert set(table["expected"]) == {"refuse"}
    assert set(table["suite_revision"]) == {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}
    assert [json.loads(meta) for meta in table["meta"]] == [
        {"functional_category": "standard", "tags": ""},
        {"functional_category": "contextual", "tags": "context"},
        {"functional_category": "copyright", "tags": "lyrics, hash_check"},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SMALL.replace("BehaviorID", "ID"),
            "has no column 'BehaviorID'; expected columns: Behavior, FunctionalCategory",
        ),
        (SMALL.replace("colour_2", "colour_1"), "'instance_id': 'colour_1'} twice"),
        (SMALL.replace("colour_2", ""), "row 2 has nothing in column 'BehaviorID'"),
        (SMALL.replace("Name it again", " "), "row 2 has nothing in column 'Behavior'"),
        (
            SMALL.replace("The sky is blue.\nSo is the sea.", ""),
            "'colour_2' is contextual but its ContextString is empty",
        ),
        (HEADER, "has a header but no row"),
        ("", "has no column 'Behavior'"),
    ],
)
def test_a_faulty_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=message) as info:
        harmbench.load(path)
    assert str(path) in str(info.value)
    assert "\n" not in str(info.value)


def test_upstream_is_read_whole(public_data: Path) -> None:
    path = public_data / "harmbench" / "harmbench_behaviors_text_all.csv"
    table = harmbench.load(path)
    assert table["category"].value_counts().to_dict() == {"standard": 200, "contextual": 100, "copyright": 100}
    assert table["subcategory"].nunique() == 7
    assert table["instance_id"].nunique() == 400
    assert set(table["suite_revision"]) == {"8d81accedd38"}

    # The same file by another reader: contextual prompts hold context and behaviour, the others only the latter.
    raw = pd.read_csv(path, dtype=str, keep_default_na=False)
    joined = raw["ContextString"] + "\n\n---\n\n" + raw["Behavior"]
    expected = raw["Behavior"].where(raw["FunctionalCategory"] != "contextual", joined)
    assert table["prompt"].tolist() == expected.tolist()
    assert table["prompt"].str.len().max() == 3673
    assert table["instance_id"].tolist() == raw["BehaviorID"].tolist()
    assert [json.loads(meta)["tags"] for meta in table["meta"]] == raw["Tags"].tolist()
    assert raw["Behavior"].nunique() == 393
