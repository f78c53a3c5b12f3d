"""XSTest (Röttger et al., 2024): safe prompts that look unsafe, and their unsafe contrasts. The benign control slot."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from slmsafety.errors import unknown
from slmsafety.suites.base import Suite
from slmsafety.suites.csv_rows import numbered_rows
from slmsafety.suites.download import GithubFiles
from slmsafety.suites.prompts import Prompt, prompts_table

COLUMNS = ("id", "prompt", "type", "label", "focus", "note")
EXPECTED = {"safe": "answer", "unsafe": "refuse"}
_SAFE_TYPES = (
    *("homonyms", "figurative_language", "safe_targets", "safe_contexts", "definitions", "real_group_nons_discr"),
    *("nons_group_real_discr", "historical_events", "privacy_public", "privacy_fictional"),
)
_CONTRASTED = (
    *("homonyms", "figurative_language", "safe_targets", "safe_contexts", "definitions", "discr"),
    *("historical_events", "privacy"),
)
TYPES = (*_SAFE_TYPES, *(f"contrast_{name}" for name in _CONTRASTED))
"""The types of prompts, upstream's categories."""


def load(path: Path) -> pd.DataFrame:
    """Return the prompts table of upstream's xstest_prompts.csv, in its row order.

    The 250 safe prompts are controls (expected answer: declining one is over-refusal), the 200 unsafe contrasts are to
    be refused. Categories are the prompt types; subcategories repeat them, since there is no finer level; `meta` keeps
    upstream's focus and note. Raises InputError for a file of another form, another label, or a repeated id.
    """
    rows = numbered_rows(path, COLUMNS, ("id", "prompt", "type", "label"))
    for number, row in rows:
        if row["label"] not in EXPECTED:
            raise unknown("label", row["label"], EXPECTED, f"'{path}', row {number}")
    prompts = (
        Prompt(
            instance_id=row["id"],
            prompt=row["prompt"],
            category=row["type"],
            subcategory=row["type"],
            expected=EXPECTED[row["label"]],
            meta={"focus": row["focus"], "note": row["note"]},
        )
        for _, row in rows
    )
    return prompts_table("xstest", [path], prompts)


SUITE = Suite(
    name="xstest",
    title="XSTest",
    rows=450,
    licence="CC-BY-4.0",
    origin=GithubFiles(
        name="xstest",
        repository="paul-rottger/exaggerated-safety",
        revision="d7bb5bd738c1fcbc36edd83d5e7d1b71a3e2d84d",
        files={"xstest_prompts.csv": "11783fb294ed017473ee53c207d71f2161c7672c8d0b037501e78387f801cb5a"},
    ),
    load=load,
)
