"""The list of artifacts (contents.csv): which notebook makes which, what a study needs for it, and what it shows."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from slmsafety.errors import InputError, unknown

CONTENTS = Path(__file__).with_name("contents.csv")

REQUIREMENTS = {
    "printed": "only the paper's printed tables hold it",
    "scores": "none of its replies to prompts to refuse has a label, and none chooses among answers",
    "rates": "none of its replies to prompts to refuse has a label",
    "ranked": "no suite has labels of two models' replies to prompts to refuse",
    "common_models": "no two suites have two models in common whose scores differ in both",
    "sized_family": "no suite has scores of two models of one family whose sizes are known and differ",
    "labels": "it has no labels of single replies",
    "metrics": "it has no metrics of all its prompts and replies (the key `metrics` of a study makes them)",
    "prompt_rates": "fewer than three of its prompts have an ambiguity rate, or all have the same one",
    "both_kinds": "its replies to prompts to refuse have no ambiguous label, or no decisive one",
    "predictions": (
        "it has no metrics of all its replies, or not both ambiguous and decisive labels for prompts to refuse, and no "
        "printed table"
    ),
    "two_judges": "it has no two judges with labels of the same replies to prompts to refuse",
    "human_labels": "it has no human labels of labelled replies to prompts to refuse",
    "reference": (
        "it has no human labels of labelled replies to prompts to refuse or, where it names none, no two judges with "
        "labels of the same ones"
    ),
    "crossed_rubrics": "no model judged two suites under both their rubrics",
    "mappings": "it has no judge that measures a number",
    "choices": "it has no answers to multiple choice",
    "controls": "it has no labelled benign control of which the judge tells whether the reply refuses",
    "model_features": "it has no three models with rates in all suites and known features that differ",
    "model_groups": "it has no model with rates in all suites and a known tuning or year",
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
        The capabilities that a study must have, keys of `REQUIREMENTS`; the first that it lacks is the reason to leave
        the artifact out.
    what : str
        What it shows, in a few words.
    """

    name: str
    notebook: str
    needs: tuple[str, ...]
    what: str

    def reason(self, capabilities: frozenset[str]) -> str:
        """Return why a study with these capabilities lacks the artifact, by its first unmet need; "" if it has it."""
        return next((REQUIREMENTS[need] for need in self.needs if need not in capabilities), "")


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
