"""The list of artifacts (contents.csv): which notebook makes which, what a study needs for it, and what it shows."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from slmsafety.errors import InputError, unknown

CONTENTS = Path(__file__).with_name("contents.csv")

REQUIREMENTS = {
    "outcomes": "it has no outcome rates by suite and model",
    "printed": "only the paper's printed tables hold it",
    "labels": "it has no labels of single replies",
    "metrics": "it has no metrics of single prompts and replies",
    "predictions": "it has neither metrics of single replies nor the paper's printed tables",
    "two_suites": "it has fewer than two suites",
    "two_judges": "it has no two judges with labels of the same replies",
    "many_models": "it has fewer than ten models",
    "human_labels": "it has no human labels",
    "reference": "it has neither human labels nor two judges with labels of the same replies",
    "crossed_rubrics": "no model judged two suites under both their rubrics",
    "mappings": "it has no judge that measures a number",
    "choices": "it has no multiple-choice suite",
    "controls": "it has no benign controls whose refusals its judge tells by a reason",
}
"""The capabilities of a study that an artifact may require, each with the reason to leave the artifact out."""


@dataclass(frozen=True)
class Artifact:
    """One line of contents.csv.

    Attributes
    ----------
    name : str
        The name of the artifact and of its files.
    notebook : str
        The notebook that makes it.
    needs : tuple of str
        The capabilities that a study must have, keys of `REQUIREMENTS`.
    what : str
        What it shows, in a few words.
    """

    name: str
    notebook: str
    needs: tuple[str, ...]
    what: str

    def reasons(self, capabilities: frozenset[str]) -> str:
        """Return why a study with these capabilities lacks the artifact, or "" if it has it."""
        return "; ".join(REQUIREMENTS[need] for need in self.needs if need not in capabilities)


def all_artifacts() -> list[Artifact]:
    """Return every artifact, in the order of contents.csv.

    Raises
    ------
    InputError
        Where a line needs a capability that `REQUIREMENTS` does not name, or repeats an artifact's name.
    """
    with CONTENTS.open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    artifacts = [Artifact(row["artifact"], row["notebook"], tuple(row["needs"].split()), row["what"]) for row in rows]
    names = set()
    for artifact in artifacts:
        if artifact.name in names:
            raise InputError(f"{CONTENTS.name} has the artifact '{artifact.name}' twice; names must be unique")
        names.add(artifact.name)
        for need in artifact.needs:
            if need not in REQUIREMENTS:
                raise unknown("requirement", need, REQUIREMENTS, f"{CONTENTS.name}, artifact {artifact.name}")
    return artifacts


def contents(notebook: str) -> dict[str, Artifact]:
    """Return a notebook's artifacts by name.

    Parameters
    ----------
    notebook : str
        The notebook's name without suffix, such as "01_rankings".

    Raises
    ------
    InputError
        For a notebook that contents.csv does not name.
    """
    artifacts = all_artifacts()
    found = {artifact.name: artifact for artifact in artifacts if artifact.notebook == notebook}
    if not found:
        raise unknown("notebook", notebook, {artifact.notebook for artifact in artifacts}, CONTENTS.name)
    return found
