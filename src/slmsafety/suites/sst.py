"""Simple Safety Tests (Vidgen et al., 2023): 100 prompts in five harm areas, keyed on upstream's id."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from slmsafety.suites.base import Suite
from slmsafety.suites.csv_rows import read_rows
from slmsafety.suites.download import GithubFiles
from slmsafety.suites.prompts import Prompt, prompts_table

COLUMNS = ("id", "harm_area", "counter", "category", "prompts_final")


def load(path: Path) -> pd.DataFrame:
    """Return the prompts table of upstream's "SimpleSafetyTests - test cases.csv", in its row order.

    Categories are harm areas; subcategories are the kind of request, upstream's `category`; `meta` keeps its `counter`.
    Raises InputError for a file of another form or a repeated id.
    """
    prompts = (
        Prompt(row["id"], row["prompts_final"], row["harm_area"], row["category"], meta={"counter": row["counter"]})
        for row in read_rows(path, COLUMNS, COLUMNS)
    )
    return prompts_table("sst", [path], prompts)


SUITE = Suite(
    name="sst",
    title="Simple Safety Tests",
    rows=100,
    licence="CC-BY-4.0",
    origin=GithubFiles(
        name="sst",
        repository="bertiev/SimpleSafetyTests",
        revision="d7aee9a9422a5a5488f478fd79c2479c891c0f3b",
        files={
            "SimpleSafetyTests%20-%20test%20cases.csv": (
                "6d95a1301e0d0f3a3c4cf5392f4afff11ad6e3066f95d23aaa138d44aedf986c"
            )
        },
    ),
    load=load,
)
