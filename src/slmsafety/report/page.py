"""A notebook's page: what it shows for a study, what it leaves out and why, and the files it leaves behind."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import HTML, Image, Markdown, display
from matplotlib.figure import Figure

from slmsafety.errors import unknown
from slmsafety.report.numbers import write_numbers
from slmsafety.report.save import flatten, save_figure, save_table, texts
from slmsafety.report.text import html, markdown, visible

CONTENTS = Path(__file__).with_name("contents.csv")
FINDINGS = 2
"""A notebook says at least this many sentences about what it shows."""

NEEDS = {
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
"""What an artifact can need of a study, each with the reason to leave it out."""


@dataclass(frozen=True)
class Artifact:
    """A line of contents.csv: an artifact, its notebook, what it needs of a study, and what it shows."""

    name: str
    notebook: str
    needs: tuple[str, ...]
    what: str


def contents(notebook: str) -> dict[str, Artifact]:
    """Return a notebook's artifacts by name, or raise InputError for a notebook that has none."""
    with CONTENTS.open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    if notebook not in {row["notebook"] for row in rows}:
        raise unknown("notebook", notebook, {row["notebook"] for row in rows}, CONTENTS.name)
    return {
        row["artifact"]: Artifact(row["artifact"], notebook, tuple(row["needs"].split()), row["what"])
        for row in rows
        if row["notebook"] == notebook
    }


class Page:
    """Shows and saves the artifacts of one notebook for one study, and checks at the end that none is missing.

    `parameters` and `inputs` (name: sha256) go to the sidecars; `offers` holds what the study has, in the words of
    `NEEDS`. Raises InputError for an unknown notebook or offer.
    """

    def __init__(
        self,
        notebook: str,
        study_name: str,
        *,
        root: Path,
        parameters: dict[str, Any],
        inputs: dict[str, str],
        offers: set[str],
    ) -> None:
        for offer in sorted(offers - set(NEEDS)):
            raise unknown("offer", offer, NEEDS, f"study {study_name}")
        self.notebook, self.study, self.root, self.offers = notebook, study_name, root, frozenset(offers)
        self.sidecar = {"notebook": notebook, "parameters": parameters, "inputs": inputs}
        self.contents = contents(notebook)
        self.written: dict[str, list[Path]] = {}
        self.findings: list[str] = []

    def has(self, *names: str) -> bool:
        """Return whether the study offers what the artifacts need; say in one line each why others are left out."""
        left_out = {name: missing for name in names if (missing := self._missing(name))}
        for name, missing in left_out.items():
            reasons = "; ".join(NEEDS[need] for need in missing)
            display(Markdown(f"**{name}** is left out for study {markdown(self.study)}: {reasons}."))
        return not left_out

    def figure(self, name: str, fig: Figure) -> None:
        """Save the figure, show it and close it."""
        self._artifact(name)
        paths = save_figure(fig, name, root=self.root, study=self.study, sidecar=self.sidecar)
        plt.close(fig)
        display(Image(filename=str(next(path for path in paths if path.suffix == ".png"))))
        self._keep(name, paths)

    def table(self, name: str, frame: pd.DataFrame, formats: dict[str, str] | None = None) -> None:
        """Save the table and show it with its text escaped; `formats` as in `save_table`."""
        self._artifact(name)
        paths = save_table(frame, name, root=self.root, study=self.study, sidecar=self.sidecar, formats=formats)
        display(HTML(table_html(frame, formats)))
        self._keep(name, paths)

    def numbers(self, numbers: dict[str, str | float]) -> None:
        """Write the numbers that the paper's prose takes from this notebook, all at once."""
        path = write_numbers(numbers, root=self.root, study=self.study, notebook=self.notebook)
        self._keep("numbers", [path])

    def say(self, *sentences: str) -> None:
        """Show the sentences as one paragraph of Markdown, and count them as findings."""
        self.findings += [sentence for sentence in sentences if sentence.strip()]
        display(Markdown(" ".join(markdown(sentence) for sentence in sentences)))

    def close(self) -> None:
        """Print what was written, or raise RuntimeError naming the artifacts and findings that are missing."""
        lacking = [name for name in self.contents if not self._missing(name) and name not in self.written]
        if len(self.findings) < FINDINGS:
            lacking.append(f"{FINDINGS - len(self.findings)} more sentence(s) of findings")
        if lacking:
            raise RuntimeError(f"notebook {self.notebook}, study {self.study}, lacks: {', '.join(lacking)}")
        files = sum(len(paths) for paths in self.written.values())
        left_out = [name for name in self.contents if self._missing(name)]
        print(f"{self.notebook}, study {self.study}: {len(self.written)} artifacts in {files} files")
        for folder in sorted(
            {str(path.parent.relative_to(self.root)) for kept in self.written.values() for path in kept}
        ):
            print(f"  {folder}/")
        if left_out:
            print(f"left out: {', '.join(left_out)}")

    def _artifact(self, name: str) -> Artifact:
        if name not in self.contents:
            raise unknown("artifact", name, self.contents, f"notebook {self.notebook}")
        return self.contents[name]

    def _missing(self, name: str) -> list[str]:
        return [need for need in self._artifact(name).needs if need not in self.offers]

    def _keep(self, name: str, paths: list[Path]) -> None:
        self.written[name] = paths
        print(visible(", ".join(str(path.relative_to(self.root)) for path in paths)))


def table_html(frame: pd.DataFrame, formats: dict[str, str] | None = None) -> str:
    """Return the table as HTML in which all text, of cells and of headings, is escaped."""
    cells = texts(flatten(frame), formats or {})
    escaped = pd.DataFrame({html(column): [html(value) for value in cells[column]] for column in cells})
    with pd.option_context("display.max_colwidth", None):
        return escaped.to_html(index=False, escape=False, border=0)
