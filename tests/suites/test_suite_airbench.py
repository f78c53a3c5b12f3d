from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from slmsafety.errors import InputError
from slmsafety.records.schema import PROMPTS
from slmsafety.suites import airbench
from slmsafety.suites.catalogue import load_suite

ROW = ["1.1.1", "Colours", "Warm", "Red", "Is red warm?"]


def write(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([airbench.COLUMNS, *rows])
    return path


def whole(leaves: int = 314, areas: int = 16) -> list[list[str]]:
    """5,694 mild rows on so many leaves, which are spread over so many level-2 names."""
    return [
        [
            f"1.1.{n % leaves}",
            f"area {n % leaves % areas}",
            f"l3 {n % 45}",
            f"leaf {n % leaves}",
            f"Name the number {n}.",
        ]
        for n in range(5694)
    ]


def test_the_whole_file_has_helm_s_ids_in_row_order(tmp_path: Path) -> None:
    data = load_suite("airbench", write(tmp_path / "all.csv", whole()))
    assert (data.title, data.complete) == ("AirBench", True)
    assert data.prompts["instance_id"].tolist() == [f"id{n}" for n in range(5694)]
    assert data.prompts["prompt"][5693] == "Name the number 5693."
    assert (data.prompts["category"].nunique(), data.prompts["subcategory"].nunique()) == (16, 314)


@pytest.mark.skipif("group" not in PROMPTS.columns, reason="the table prompts has no groups")
def test_three_wordings_of_the_full_set_are_a_group(tmp_path: Path) -> None:
    rows = [[f"1.1.{n // 3 % 314}", f"area {n // 3 % 16}", "l3", "leaf", f"Name the number {n}."] for n in range(5694)]
    groups = airbench.load(write(tmp_path / "all.csv", rows))["group"]
    assert (groups.groupby(groups, sort=False).size() == 3).all()
    assert groups[0] == groups[2] != groups[3]
    part = airbench.load(write(tmp_path / "part.csv", rows[:6]))
    assert part["group"].tolist() == part["instance_id"].tolist()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (whole(leaves=313), "has AirBench's 5694 rows but 313 values of cate-idx, not 314"),
        (whole(areas=15), "has AirBench's 5694 rows but 15 values of l2-name, not 16"),
    ],
)
def test_a_whole_file_with_other_levels_is_refused(tmp_path: Path, rows: list[list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        airbench.load(write(tmp_path / "all.csv", rows))


def test_one_row_short_is_a_part_without_positions(tmp_path: Path) -> None:
    data = load_suite("airbench", write(tmp_path / "all.csv", whole()[:-1]))
    assert (data.title, data.complete) == ("AIR-5693", False)
    assert not data.prompts["instance_id"].str.startswith("id").any()


def test_ids_of_a_part_do_not_depend_on_other_rows(tmp_path: Path) -> None:
    other = ["1.1.2", *ROW[1:]]  # the same prompt on another leaf
    alone = airbench.load(write(tmp_path / "a.csv", [ROW]))["instance_id"]
    ids = airbench.load(write(tmp_path / "b.csv", [other, ROW, ROW]))["instance_id"].tolist()
    assert ids[1] == alone[0]
    assert ids[2] == f"{alone[0]}-2"
    assert ids[0] not in ids[1:]


def test_a_folder_is_read_in_upstream_s_order(tmp_path: Path) -> None:
    for name, number in (("category_10", "10"), ("category_2", "2"), ("category_3940", "39"), ("category_43", "43")):
        write(tmp_path / f"{name}.csv", [[f"1.{number}.1", "Colours", "Warm", "Red", f"File {number}?"]])
    write(tmp_path / "judge_prompt_final.csv", [ROW])
    data = load_suite("airbench", tmp_path)
    assert data.prompts["prompt"].tolist() == ["File 2?", "File 10?", "File 39?", "File 43?"]
    assert data.title == "AIR-4"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds none of upstream's files category_1.csv to category_45.csv"):
        airbench.load(tmp_path / "empty")


def test_upstream_s_files_cover_the_45_categories_of_level_3() -> None:
    numbers = [re.fullmatch(r"category_(\d+)\.csv", name)[1] for name in airbench.FILES]  # type: ignore[index]
    parts = [part for number in numbers for part in (number[:2], number[2:]) if part]
    assert parts == [str(n) for n in range(1, 46)]
    assert len(airbench.FILES) == 43


def test_the_public_part(public_data: Path) -> None:
    data = load_suite("airbench", public_data / "airbench" / "prompts_original_cac_subset.csv")
    assert (data.title, data.complete, data.rows_expected) == ("AIR-261", False, 5694)
    assert data.prompts["instance_id"].is_unique
    assert data.prompts["instance_id"].str.fullmatch("[0-9a-f]{12}").all()
    assert (data.prompts["category"].nunique(), data.prompts["subcategory"].nunique()) == (7, 16)
