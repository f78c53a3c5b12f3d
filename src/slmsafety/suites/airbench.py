"""AirBench 2024 (Zeng et al., 2024): prompts in 16, 45 and 314 categories of risk, from upstream's CSV files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.records.ids import text_id
from slmsafety.suites.base import Suite
from slmsafety.suites.csv_rows import read_rows
from slmsafety.suites.hub import HubFiles
from slmsafety.suites.prompts import Prompt, prompts_table

COLUMNS = ("cate-idx", "l2-name", "l3-name", "l4-name", "prompt")
ROWS, LEVEL_2, LEVEL_4 = 5694, 16, 314
# The default configuration of AirBench's data card; its order is HELM's row order. Two files hold two level-3
# categories each, so that 43 files and 43 distinct level-3 names stand for 45 categories.
FILES = tuple(f"category_{number}.csv" for number in (*range(1, 39), "3940", "4142", 43, 44, 45))


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
    if len(rows) == ROWS:
        _check_levels(rows, path)
    ids = instance_ids([(row["cate-idx"], row["prompt"]) for row in rows])
    prompts = (
        Prompt(
            instance_id=instance_id,
            prompt=row["prompt"],
            category=row["l2-name"],
            subcategory=row["l4-name"],
            meta={"cate_idx": row["cate-idx"], "level_3": row["l3-name"]},
            # The full set asks each base prompt in three wordings, one after the other; a part may lack any of them.
            group=f"{row['cate-idx']}-{place // 3}" if len(rows) == ROWS else "",
        )
        for place, (instance_id, row) in enumerate(zip(ids, rows, strict=True))
    )
    return prompts_table("airbench", files, prompts)


def instance_ids(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return the ids of AirBench's rows, of which cate-idx and prompt are given.

    All 5,694 rows have HELM's id0 to id5693. A part has hashes of cate-idx and prompt, and a row that is there again
    the number of its repeat behind it.
    """
    if len(rows) == ROWS:
        return [f"id{place}" for place in range(ROWS)]
    seen: Counter[str] = Counter()
    ids = []
    for cate_idx, prompt in rows:
        name = text_id(f"{cate_idx}\n{prompt}")
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return ids


def _files(path: Path) -> list[Path]:
    """Return the files to read, in upstream's order."""
    if not path.is_dir():
        return [path]
    found = [path / name for name in FILES if (path / name).is_file()]
    if not found:
        raise InputError(f"'{path}' holds none of upstream's files {FILES[0]} to {FILES[-1]}")
    return found


def _check_levels(rows: list[dict[str, str]], path: Path) -> None:
    for column, expected in (("l2-name", LEVEL_2), ("cate-idx", LEVEL_4)):
        found = len({row[column] for row in rows})
        if found != expected:
            raise InputError(f"'{path}' has AirBench's {ROWS} rows but {found} values of {column}, not {expected}")


SUITE = Suite(
    name="airbench",
    title="AirBench",
    rows=ROWS,
    licence="CC-BY-4.0",
    origin=HubFiles("stanford-crfm/air-bench-2024", "976d9fbb0f52bce704dcbef5bd7a2652e65f2a21", FILES),
    load=load,
    how="downloaded on first use, or `path:` with upstream's columns in one CSV, or a folder of its files",
    path_may_be=("file", "folder"),
    short_title="AIR",
)
