"""Suites that a letter answers cannot come from judged tables: their outcome is accuracy, not a label."""

from __future__ import annotations

from slmsafety.errors import InputError
from slmsafety.importers.tables import Imported
from slmsafety.suites.catalogue import MULTIPLE_CHOICE


def refuse_choice_suites(source: Imported) -> None:
    """Raise InputError where a source has rows of a suite that a letter answers.

    Accuracy and bias need the letters and roles of each item, which other tools' tables do not hold, and a judge's
    label says nothing of either.
    """
    for suite in sorted(set(source.prompts["suite"]) & set(MULTIPLE_CHOICE)):
        raise InputError(
            f"{source.source}: suite '{suite}' is multiple choice: its outcome is accuracy by the letters of its own "
            "items, which no judged table holds; leave its rows out, or give the suite another name to count labels"
        )
