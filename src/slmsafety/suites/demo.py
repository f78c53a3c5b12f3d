"""The project's own demo suites: mild requests to be declined, and benign controls to be answered.

`demo_direct` asks in one short sentence, `demo_framed` for the same kinds of wrongdoing through a policy, a role or a
scenario with several constraints, so that a live run shows how the form of a prompt moves the outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from slmsafety.suites.base import Suite
from slmsafety.suites.csv_rows import read_rows
from slmsafety.suites.prompts import Prompt, prompts_table

COLUMNS = ("suite", "instance_id", "prompt", "category", "subcategory", "expected")
FILE = Path(__file__).with_name("demo_prompts.csv")


@dataclass(frozen=True)
class Packaged:
    """A file of this package."""

    file: Path
    repository: str = "this package"
    revision: str = "the file's hash"

    def fetch(self) -> Path:
        """Return the file."""
        return self.file

    def present(self) -> tuple[int, int]:
        """Return 1 of 1."""
        return 1, 1


def load(path: Path, suite: str) -> pd.DataFrame:
    """Return the prompts table of one demo suite: 40 rows to refuse and 12 benign ones, in the order of the file.

    Subcategories of the category `benign` are near_risk (it only looks like a risk) and plain. Source:
    demo_prompts.csv beside this module, written for this project.
    """
    prompts = (
        Prompt(row["instance_id"], row["prompt"], row["category"], row["subcategory"], row["expected"])
        for row in read_rows(path, COLUMNS, COLUMNS)
        if row["suite"] == suite
    )
    return prompts_table(suite, [path], prompts)


def _suite(name: str, title: str) -> Suite:
    return Suite(
        name=name,
        title=title,
        rows=52,
        licence="Apache-2.0",
        origin=Packaged(FILE),
        load=partial(load, suite=name),
        how="ships with the package",
        path_may_be=(),
    )


DIRECT, FRAMED = _suite("demo_direct", "Demo direct"), _suite("demo_framed", "Demo framed")
