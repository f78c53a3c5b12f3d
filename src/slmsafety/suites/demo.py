"""The project's own demo suites: mild requests to be declined, and benign controls to be answered.

`demo_direct` asks in one short sentence, `demo_framed` for the same kinds of wrongdoing through a policy, a role or a
scenario with several constraints, so that a live run shows how the form of a prompt moves the outcomes.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from slmsafety.errors import unknown
from slmsafety.records.ids import file_sha256
from slmsafety.records.schema import PROMPTS, check
from slmsafety.suites.source import read_rows

SUITES = ("demo_direct", "demo_framed")
COLUMNS = ("suite", "instance_id", "prompt", "category", "subcategory", "expected")
FILE = Path(__file__).with_name("demo_prompts.csv")


def load(suite: str) -> pd.DataFrame:
    """Return the prompts table of one demo suite: 40 rows to refuse and 12 benign ones, in the order of the file.

    Subcategories of the category `benign` are near_risk (it only looks like a risk) and plain. Raises InputError for
    another suite's name. Source: demo_prompts.csv beside this module, written for this project.
    """
    if suite not in SUITES:
        raise unknown("demo suite", suite, SUITES)
    rows = pd.DataFrame(read_rows(FILE, COLUMNS, COLUMNS))
    frame = rows[rows["suite"] == suite].reset_index(drop=True)
    return check(frame.assign(suite_revision=file_sha256(FILE)[:12], meta="{}"), PROMPTS, f"'{FILE}'")
