"""The suites that are one file of upstream's: mild rows in upstream's form, faults, and the public files themselves."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.records.schema import PROMPTS
from slmsafety.suites.catalogue import SUITES, load_suite

HARMBENCH = (
    "Behavior,FunctionalCategory,SemanticCategory,Tags,ContextString,BehaviorID\n"
    "Name a colour,standard,colours,,,colour_1\n"
    'Name it again,contextual,colours,context,"The sky is blue.\nSo is the sea.",colour_2\n'
    'Name a colour,copyright,songs,"lyrics, hash_check",,nan\n'
)
SST = (
    "id,harm_area,counter,category,prompts_final\nsst_1,Colours,1,Advice,Is red warm?\nsst_2,Shapes,2,Action,Draw it\n"
)
XSTEST = (
    "id,prompt,type,label,focus,note\n1,How do I beat eggs?,homonyms,safe,beat,\n2,Do it,contrast_homonyms,unsafe,,n\n"
)
AIRBENCH = "cate-idx,l2-name,l3-name,l4-name,prompt\n1.1.1,Colours,Warm,Red,Is red warm?\n"
FIELDS = ["instance_id", "prompt", "category", "subcategory", "expected"]
CONTEXT = "The sky is blue.\nSo is the sea.\n\n---\n\nName it again"
ROWS = {
    "harmbench": (
        HARMBENCH,
        [
            ["colour_1", "Name a colour", "standard", "colours", "refuse"],
            ["colour_2", CONTEXT, "contextual", "colours", "refuse"],
            ["nan", "Name a colour", "copyright", "songs", "refuse"],
        ],
        [
            {"functional_category": "standard", "tags": ""},
            {"functional_category": "contextual", "tags": "context"},
            {"functional_category": "copyright", "tags": "lyrics, hash_check"},
        ],
    ),
    "sst": (
        SST,
        [
            ["sst_1", "Is red warm?", "Colours", "Advice", "refuse"],
            ["sst_2", "Draw it", "Shapes", "Action", "refuse"],
        ],
        [{"counter": "1"}, {"counter": "2"}],
    ),
    "xstest": (
        XSTEST,
        [
            ["1", "How do I beat eggs?", "homonyms", "homonyms", "answer"],
            ["2", "Do it", "contrast_homonyms", "contrast_homonyms", "refuse"],
        ],
        [{"focus": "beat", "note": ""}, {"focus": "", "note": "n"}],
    ),
    "airbench": (
        AIRBENCH,
        [[hashlib.sha256(b"1.1.1\nIs red warm?").hexdigest()[:12], "Is red warm?", "Colours", "Red", "refuse"]],
        [{"cate_idx": "1.1.1", "level_3": "Warm"}],
    ),
}


def write(folder: Path, text: str) -> Path:
    path = folder / "upstream.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("name", "text", "rows", "metas"), [(n, *c) for n, c in ROWS.items()], ids=ROWS)
def test_rows_become_prompts(
    name: str, text: str, rows: list[list[str]], metas: list[dict[str, str]], tmp_path: Path
) -> None:
    path = write(tmp_path, text)
    data = load_suite(name, path)
    table = data.prompts
    assert list(table.columns) == list(PROMPTS.columns)
    assert table[FIELDS].to_numpy().tolist() == rows
    assert [json.loads(meta) for meta in table["meta"]] == metas
    assert set(table["suite"]) == {name}
    assert set(table["suite_revision"]) == {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}
    assert not data.complete
    assert data.title.endswith(f"-{len(rows)}")
    assert data.rows_expected == SUITES[name].rows


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("harmbench", HARMBENCH.replace("BehaviorID", "ID"), "has no column 'BehaviorID'; expected columns: Behavior"),
        ("harmbench", HARMBENCH.replace("colour_2", "colour_1"), "'instance_id': 'colour_1'} twice"),
        ("harmbench", HARMBENCH.replace("colour_2", ""), "row 3 has nothing in column 'BehaviorID'"),
        ("harmbench", HARMBENCH.replace("Name it again", " "), "row 3 has nothing in column 'Behavior'"),
        (
            "harmbench",
            HARMBENCH.replace("The sky is blue.\nSo is the sea.", ""),
            "'colour_2' is contextual but its ContextString is empty",
        ),
        ("sst", SST.replace("prompts_final", "prompt"), "has no column 'prompts_final'; expected columns: id, harm"),
        ("sst", SST.replace("sst_2", "sst_1"), "'instance_id': 'sst_1'} twice"),
        ("sst", SST.replace("Draw it", ""), "row 3 has nothing in column 'prompts_final'"),
        ("xstest", XSTEST.replace(",unsafe,", ",unsaef,"), "'unsaef' in .*, row 3; did you mean 'unsafe'"),
        ("xstest", XSTEST.replace("\n2,", "\n1,"), "'instance_id': '1'} twice"),
        ("xstest", XSTEST.replace("focus", "focal"), "has no column 'focus'"),
        ("airbench", AIRBENCH.replace("Is red warm?", " "), "row 2 has nothing in column 'prompt'"),
        ("airbench", AIRBENCH.replace(",Is red warm?", ""), "row 2 does not have the header's 5 cells"),
    ],
)
def test_a_faulty_file_is_named_on_one_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=message) as info:
        load_suite(name, path)
    assert str(path) in str(info.value)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize("name", ["harmbench", "sst", "xstest", "airbench", "salad"])
def test_a_file_without_rows_or_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no column|is not a JSON file"):
        load_suite(name, write(tmp_path, ""))
    with pytest.raises(InputError, match=f"suite {name}: there is no file '{tmp_path}/gone.csv'"):
        load_suite(name, tmp_path / "gone.csv")


@pytest.mark.parametrize(
    ("file", "name", "title", "complete"),
    [
        ("harmbench/harmbench_behaviors_text_all.csv", "harmbench", "HarmBench", True),
        ("harmbench/harmbench_behaviors_text_val.csv", "harmbench", "HarmBench-80", False),
        ("harmbench/harmbench_behaviors_text_test.csv", "harmbench", "HarmBench-320", False),
        ("sst/SimpleSafetyTests_test_cases.csv", "sst", "Simple Safety Tests", True),
        ("xstest/xstest_prompts.csv", "xstest", "XSTest", True),
        ("airbench/prompts_original_cac_subset.csv", "airbench", "AIR-261", False),
    ],
)
def test_public_files_load_under_their_titles(
    file: str, name: str, title: str, complete: bool, public_data: Path
) -> None:
    data = load_suite(name, public_data / file)
    assert (data.title, data.complete) == (title, complete)
    assert data.prompts["instance_id"].is_unique


def test_harmbench_is_read_whole(public_data: Path) -> None:
    path = public_data / "harmbench" / "harmbench_behaviors_text_all.csv"
    table = load_suite("harmbench", path).prompts
    assert table["category"].value_counts().to_dict() == {"standard": 200, "contextual": 100, "copyright": 100}
    assert table["subcategory"].nunique() == 7
    # The same file by another reader: contextual prompts hold context and behaviour, the others only the latter.
    raw = pd.read_csv(path, dtype=str, keep_default_na=False)
    joined = raw["ContextString"] + "\n\n---\n\n" + raw["Behavior"]
    expected = raw["Behavior"].where(raw["FunctionalCategory"] != "contextual", joined)
    assert table["prompt"].tolist() == expected.tolist()
    assert table["prompt"].str.len().max() == 3673
    assert table["instance_id"].tolist() == raw["BehaviorID"].tolist()
    assert [json.loads(meta)["tags"] for meta in table["meta"]] == raw["Tags"].tolist()
    assert raw["Behavior"].nunique() == 393


def test_simple_safety_tests_are_read_whole(public_data: Path) -> None:
    table = load_suite("sst", public_data / "sst" / "SimpleSafetyTests_test_cases.csv").prompts
    assert table["instance_id"].tolist() == [f"sst_{number:03d}" for number in range(1, 101)]
    assert table["category"].value_counts().tolist() == [20] * 5
    assert table["subcategory"].value_counts().tolist() == [50] * 2
    assert table["prompt"].nunique() == 100


def test_xstest_is_read_whole(public_data: Path) -> None:
    table = load_suite("xstest", public_data / "xstest" / "xstest_prompts.csv").prompts
    assert table["expected"].value_counts().to_dict() == {"answer": 250, "refuse": 200}
    contrast = table["category"].str.startswith("contrast_")
    assert (contrast == (table["expected"] == "refuse")).all()
    assert table["category"].nunique() == 18
