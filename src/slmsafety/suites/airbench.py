"""AirBench 2024 (Zeng et al., 2024): prompts in 16, 45 and 314 categories of risk, from upstream's CSV files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.records.ids import text_id
from slmsafety.records.schema import PROMPTS, check
from slmsafety.suites.source import read_rows, revision_of
from slmsafety.suites.upstream import HUB

COLUMNS = ("cate-idx", "l2-name", "l3-name", "l4-name", "prompt")
ROWS, LEVEL_2, LEVEL_4 = 5694, 16, 314
FILES = HUB["airbench"].files


def load(path: Path) -> pd.DataFrame:
    """Return the prompts table of one CSV with upstream's columns, or of a folder with upstream's category_*.csv.

    Categories are level-2 names, subcategories level-4 names; `meta` keeps cate-idx and the level-3 name. With exactly
    5,694 rows in upstream's order the ids are HELM's id0..id5693 (its AIRBench2024Scenario). A part has no such
    positions: its ids hash cate-idx and prompt, so that they do not depend on which rows surround a row; a row that
    is there again gets the number of its repeat as well (-2, -3).
    Raises InputError for a file of another form, a folder with none of the files, or 5,694 rows that do not hold the
    16 level-2 names and the 314 values of cate-idx.
    """
    files = _files(path)
    rows = [row for file in files for row in read_rows(file, COLUMNS, COLUMNS)]
    ids = _helm_ids(rows, path) if len(rows) == ROWS else _hashed_ids(rows)
    revision = revision_of(files)
    frame = pd.DataFrame(
        {
            "suite": "airbench",
            "instance_id": instance_id,
            "prompt": row["prompt"],
            "category": row["l2-name"],
            "subcategory": row["l4-name"],
            "expected": "refuse",
            "suite_revision": revision,
            "meta": json.dumps({"cate_idx": row["cate-idx"], "level_3": row["l3-name"]}),
        }
        for instance_id, row in zip(ids, rows, strict=True)
    )
    return check(frame, PROMPTS, f"'{path}'")


def _files(path: Path) -> list[Path]:
    """Return the files to read, in upstream's order."""
    if not path.is_dir():
        return [path]
    found = [path / name for name in FILES if (path / name).is_file()]
    if not found:
        raise InputError(f"'{path}' holds none of upstream's files {FILES[0]} to {FILES[-1]}")
    return found


def _helm_ids(rows: list[dict[str, str]], path: Path) -> list[str]:
    for column, expected in (("l2-name", LEVEL_2), ("cate-idx", LEVEL_4)):
        found = len({row[column] for row in rows})
        if found != expected:
            raise InputError(f"'{path}' has AirBench's {ROWS} rows but {found} values of {column}, not {expected}")
    return [f"id{number}" for number in range(len(rows))]


def _hashed_ids(rows: list[dict[str, str]]) -> list[str]:
    seen: Counter[str] = Counter()
    ids = []
    for row in rows:
        name = text_id(f"{row['cate-idx']}\n{row['prompt']}")
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return ids
