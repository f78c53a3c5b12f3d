"""HarmBench (Mazeika et al., 2024): text behaviours keyed on BehaviorID, each after its context if it has one."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.suites.base import Suite
from slmsafety.suites.csv_rows import read_rows
from slmsafety.suites.download import GithubFiles
from slmsafety.suites.prompts import Prompt, prompts_table

COLUMNS = ("Behavior", "FunctionalCategory", "SemanticCategory", "Tags", "ContextString", "BehaviorID")
_FILLED = ("Behavior", "FunctionalCategory", "SemanticCategory", "BehaviorID")


def load(path: Path) -> pd.DataFrame:
    """Return the prompts table of upstream's harmbench_behaviors_text_*.csv, in its row order.

    A contextual row's prompt is its context, a line of three dashes between blank lines, then the behaviour: upstream's
    direct request and HELM's HarmBenchScenario. Categories are functional, subcategories semantic.
    Raises InputError for a file of another form, a repeated BehaviorID, or a contextual row without its context.
    """
    prompts = (
        Prompt(
            instance_id=row["BehaviorID"],
            prompt=_prompt(row, path),
            category=row["FunctionalCategory"],
            subcategory=row["SemanticCategory"],
            meta={"functional_category": row["FunctionalCategory"], "tags": row["Tags"]},
        )
        for row in read_rows(path, COLUMNS, _FILLED)
    )
    return prompts_table("harmbench", [path], prompts)


def _prompt(row: dict[str, str], path: Path) -> str:
    """Return what a model is asked: the behaviour, after its context if the row is contextual."""
    if row["FunctionalCategory"] != "contextual":
        return row["Behavior"]
    if not row["ContextString"].strip():
        raise InputError(f"'{path}': behaviour '{row['BehaviorID']}' is contextual but its ContextString is empty")
    return f"{row['ContextString']}\n\n---\n\n{row['Behavior']}"


SUITE = Suite(
    name="harmbench",
    title="HarmBench",
    rows=400,
    licence="MIT",
    origin=GithubFiles(
        name="harmbench",
        repository="centerforaisafety/HarmBench",
        revision="8e1604d1171fe8a48d8febecd22f600e462bdcdd",
        files={
            "data/behavior_datasets/harmbench_behaviors_text_all.csv": (
                "8d81accedd38eaaf8b760618622bb888417d1fd0c86eba65c427a16f1cbb4afc"
            )
        },
    ),
    load=load,
)
