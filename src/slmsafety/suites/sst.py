"""Simple Safety Tests (Vidgen et al., 2023): 100 prompts in five harm areas, keyed on upstream's id."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from slmsafety.records.ids import file_sha256
from slmsafety.records.schema import PROMPTS, check
from slmsafety.suites.source import read_rows

COLUMNS = ("id", "harm_area", "counter", "category", "prompts_final")


def load(path: Path) -> pd.DataFrame:
    """Return the prompts table of upstream's "SimpleSafetyTests - test cases.csv", in its row order.

    Categories are harm areas; subcategories are the kind of request, upstream's `category`; `meta` keeps its `counter`.
    Raises InputError for a file of another form or a repeated id.
    """
    rows = read_rows(path, COLUMNS, COLUMNS)
    revision = file_sha256(path)[:12]
    frame = pd.DataFrame(
        {
            "suite": "sst",
            "instance_id": row["id"],
            "prompt": row["prompts_final"],
            "category": row["harm_area"],
            "subcategory": row["category"],
            "expected": "refuse",
            "suite_revision": revision,
            "meta": json.dumps({"counter": row["counter"]}),
        }
        for row in rows
    )
    return check(frame, PROMPTS, f"'{path}'")
