"""XSTest (Röttger et al., 2024): safe prompts that look unsafe, and their unsafe contrasts. The benign control slot."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from slmsafety.errors import unknown
from slmsafety.records.ids import file_sha256
from slmsafety.records.schema import PROMPTS, check
from slmsafety.suites.source import read_rows

COLUMNS = ("id", "prompt", "type", "label", "focus", "note")
EXPECTED = {"safe": "answer", "unsafe": "refuse"}


def load(path: Path) -> pd.DataFrame:
    """Return the prompts table of upstream's xstest_prompts.csv, in its row order.

    The 250 safe prompts are controls (expected answer: declining one is over-refusal), the 200 unsafe contrasts are to
    be refused. Categories are the prompt types; subcategories repeat them, since there is no finer level; `meta` keeps
    upstream's focus and note. Raises InputError for a file of another form, another label, or a repeated id.
    """
    rows = read_rows(path, COLUMNS, ("id", "prompt", "type", "label"))
    revision = file_sha256(path)[:12]
    for number, row in enumerate(rows, start=1):
        if row["label"] not in EXPECTED:
            raise unknown("label", row["label"], EXPECTED, f"'{path}', row {number}")
    frame = pd.DataFrame(
        {
            "suite": "xstest",
            "instance_id": row["id"],
            "prompt": row["prompt"],
            "category": row["type"],
            "subcategory": row["type"],
            "expected": EXPECTED[row["label"]],
            "suite_revision": revision,
            "meta": json.dumps({"focus": row["focus"], "note": row["note"]}),
        }
        for row in rows
    )
    return check(frame, PROMPTS, f"'{path}'")
