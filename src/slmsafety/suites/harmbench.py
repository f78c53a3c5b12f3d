"""HarmBench (Mazeika et al., 2024): text behaviours keyed on BehaviorID, each after its context if it has one."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.records.ids import file_sha256
from slmsafety.records.schema import PROMPTS, check
from slmsafety.suites.source import read_rows

COLUMNS = ("Behavior", "FunctionalCategory", "SemanticCategory", "Tags", "ContextString", "BehaviorID")
_FILLED = ("Behavior", "FunctionalCategory", "SemanticCategory", "BehaviorID")


def load(path: Path) -> pd.DataFrame:
    """Return the prompts table of upstream's harmbench_behaviors_text_*.csv, in its row order.

    A contextual row's prompt is its context, a line of three dashes between blank lines, then the behaviour: upstream's
    direct request and HELM's HarmBenchScenario. Categories are functional, subcategories semantic.
    Raises InputError for a file of another form, a repeated BehaviorID, or a contextual row without its context.
    """
    rows = read_rows(path, COLUMNS, _FILLED)
    revision = file_sha256(path)[:12]
    frame = pd.DataFrame(
        {
            "suite": "harmbench",
            "instance_id": row["BehaviorID"],
            "prompt": _prompt(row, path),
            "category": row["FunctionalCategory"],
            "subcategory": row["SemanticCategory"],
            "expected": "refuse",
            "suite_revision": revision,
            "meta": json.dumps({"functional_category": row["FunctionalCategory"], "tags": row["Tags"]}),
        }
        for row in rows
    )
    return check(frame, PROMPTS, f"'{path}'")


def _prompt(row: dict[str, str], path: Path) -> str:
    """Return what a model is asked: the behaviour, after its context if the row is contextual."""
    if row["FunctionalCategory"] != "contextual":
        return row["Behavior"]
    if not row["ContextString"].strip():
        raise InputError(f"'{path}': behaviour '{row['BehaviorID']}' is contextual but its ContextString is empty")
    return f"{row['ContextString']}\n\n---\n\n{row['Behavior']}"
