"""SALAD-Bench (Li et al., 2024): the questions of its base set, keyed on upstream's qid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.suites.base import Suite
from slmsafety.suites.hub import HubFiles
from slmsafety.suites.prompts import Prompt, prompts_table

LEVELS = {"1-category": 6, "2-category": 16, "3-category": 66}
COLUMNS = ("qid", "question", "source", *LEVELS)
ROWS = 21318


def load(path: Path) -> pd.DataFrame:
    """Return the prompts table of upstream's base_set.json or of a part of it, in its row order.

    Categories are the 6 domains, subcategories the 66 categories, both as upstream's strings: their numbers restart at
    each level and are no counts. `meta` keeps the source, since one (ToxicChat) has terms of its own, and the task,
    which is level 2.
    Raises InputError for a file of another form, a repeated qid, or 21,318 rows without the 6, 16 and 66 categories.
    """
    rows = _read(path)
    if len(rows) == ROWS:
        for column, expected in LEVELS.items():
            found = len({row[column] for row in rows})
            if found != expected:
                raise InputError(f"'{path}' has SALAD's {ROWS} rows but {found} values of {column}, not {expected}")
    prompts = (
        Prompt(
            instance_id=str(row["qid"]),
            prompt=row["question"],
            category=row["1-category"],
            subcategory=row["3-category"],
            meta={"source": row["source"], "level_2": row["2-category"]},
        )
        for row in rows
    )
    return prompts_table("salad", [path], prompts)


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the file's rows, each with a whole qid and filled texts."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"cannot read '{path}' ({error})") from error
    except (ValueError, RecursionError) as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
        raise InputError(f"'{path}' is not a JSON file in UTF-8 ({error})") from error
    if not (isinstance(rows, list) and rows):
        raise InputError(f"'{path}' is not a JSON list of rows with {', '.join(COLUMNS)}")
    for number, row in enumerate(rows, start=1):
        for column in COLUMNS:
            value = row.get(column) if isinstance(row, dict) else None
            whole = column == "qid" and isinstance(value, int) and not isinstance(value, bool)
            if not (whole or (isinstance(value, str) and value.strip())):
                raise InputError(f"'{path}' row {number} has {column} {ascii(value)[:80]}; it must be filled")
    return rows


SUITE = Suite(
    name="salad",
    title="SALAD",
    rows=ROWS,
    licence="Apache-2.0",
    # Not pinned: no revision is published for the paper's copy. The loader checks rows and levels instead.
    origin=HubFiles("OpenSafetyLab/Salad-Data", "main", ("base_set.json",)),
    load=load,
    how="downloaded on first use, or `path:` with upstream's base_set.json",
)
