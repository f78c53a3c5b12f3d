"""A notebook's page: what it shows for a study, what it leaves out and why, and the files it leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict, Unpack

import IPython.display
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from slmsafety.errors import unknown, visible
from slmsafety.report.contents import REQUIREMENTS, Artifact, contents
from slmsafety.report.numbers import write_numbers
from slmsafety.report.save import Target, flatten, save_figure, save_table
from slmsafety.report.tabular import texts, without_ids
from slmsafety.report.text import counted, html, markdown

_ipython: Any = IPython.display  # a library without types

OWN_STUDIES = ("published", "demo")
"""The project's studies: a notebook that shows too little of one of them has a fault."""

FINDINGS = 2
"""A notebook says at least this many sentences about what it shows of one of these."""


EMPTY = "none of its rows counts there"


class StudyFacts(TypedDict):
    """What a page must know of a study besides its capabilities: the fields of `Target` that a study gives."""

    study_name: str
    root: Path
    parameters: dict[str, Any]
    inputs: dict[str, str]


class Page:
    """Shows and saves the artifacts of one notebook for one study, and checks at the end that none is missing.

    Parameters
    ----------
    notebook : str
        The notebook's name without suffix; contents.csv lists its artifacts.
    capabilities : set of str
        What the study has, in the words of `REQUIREMENTS`.
    **facts
        `study_name`, `root`, `parameters` and `inputs` of the study, as in `Target`.

    Raises
    ------
    InputError
        For an unknown notebook or capability.
    """

    def __init__(self, notebook: str, *, capabilities: set[str], **facts: Unpack[StudyFacts]) -> None:
        self.target = Target(notebook, **facts)
        for capability in sorted(capabilities - set(REQUIREMENTS)):
            raise unknown("capability", capability, REQUIREMENTS, f"study {self.target.study_name}")
        self.capabilities = frozenset(capabilities)
        self.contents = contents(notebook)
        self.written: dict[str, list[Path]] = {}
        self.findings: list[str] = []
        self._explained: dict[str, str] = {}

    def has(self, *names: str, unless: str = "") -> bool:
        """Return whether the study has what all the artifacts need; say why one is left out, once for each artifact.

        Parameters
        ----------
        *names : str
            Artifacts of this notebook.
        unless : str
            Why the analysis itself gives nothing to show; "" where it does. It counts where nothing else is lacking.

        Raises
        ------
        InputError
            For a name that contents.csv does not list for this notebook.
        """
        left_out = {name: reason for name in names if (reason := self._left_out(name) or unless)}
        for name, reason in left_out.items():
            if name not in self._explained:
                self._explained[name] = reason
                told = f"**{name}** is left out for study {markdown(self.target.study_name)}: {markdown(reason)}."
                _ipython.display(_ipython.Markdown(told))
        return not left_out

    def figure(self, name: str, fig: Figure) -> None:
        """Save the figure (see `save_figure`), show it and close it."""
        self._artifact(name)
        paths = save_figure(fig, name, self.target)
        plt.close(fig)
        _ipython.display(_ipython.Image(filename=str(next(path for path in paths if path.suffix == ".png"))))
        self._keep(name, paths)

    def table(self, name: str, frame: pd.DataFrame, formats: dict[str, str] | None = None) -> None:
        """Save the table (see `save_table`) and show it with its text escaped; one without rows is left out."""
        self._artifact(name)
        if frame.empty:
            self.has(name, unless=EMPTY)
            return
        paths = save_table(frame, name, self.target, formats)
        _ipython.display(_ipython.HTML(table_html(frame, formats)))
        self._keep(name, paths)

    def numbers(self, numbers: dict[str, str | float]) -> None:
        """Write all numbers that the paper's prose takes from this notebook (see `write_numbers`)."""
        self._keep("numbers", [write_numbers(numbers, self.target)])

    def say(self, *sentences: str) -> None:
        """Show the sentences as one paragraph of Markdown, and count them as findings; nothing where there is none."""
        told = [sentence for sentence in sentences if sentence.strip()]
        self.findings += told
        if told:
            _ipython.display(_ipython.Markdown(" ".join(markdown(sentence) for sentence in told)))

    def close(self) -> None:
        """Print what was written and what was left out; say why, where no cell has asked.

        What is missing although the study has what it needs is named: by a RuntimeError for the project's own studies,
        whose findings are counted too, and in one line for any other.
        """
        left_out = [name for name in self.contents if name not in self.written and not self.has(name)]
        lacking = [name for name in self.contents if name not in left_out and name not in self.written]
        where, own = f"{self.target.notebook}, study {self.target.study_name}", self.target.study_name in OWN_STUDIES
        if own and self.written and len(self.findings) < FINDINGS:
            lacking.append(f"{FINDINGS - len(self.findings)} more sentence(s) of findings")
        if lacking and own:
            raise RuntimeError(f"notebook {where}, lacks: {', '.join(lacking)}")
        if lacking:
            print(f"{where}: not shown for this study: {', '.join(lacking)}")
        paths = [path for kept in self.written.values() for path in kept]
        print(f"{where}: {counted(len(self.written), 'artifact')} in {counted(len(paths), 'file')}")
        for folder in sorted({str(path.parent.relative_to(self.target.root)) for path in paths}):
            print(f"  {folder}/")
        if left_out:
            print(f"left out: {', '.join(left_out)}")

    def _artifact(self, name: str) -> Artifact:
        if name not in self.contents:
            raise unknown("artifact", name, self.contents, f"notebook {self.target.notebook}")
        return self.contents[name]

    def _left_out(self, name: str) -> str:
        return self._artifact(name).reason(self.capabilities) or self._explained.get(name, "")

    def _keep(self, name: str, paths: list[Path]) -> None:
        self.written[name] = paths
        print(visible(", ".join(str(path.relative_to(self.target.root)) for path in paths)))


def table_html(frame: pd.DataFrame, formats: dict[str, str] | None = None) -> str:
    """Return the table as HTML in which all text, of cells and of headings, is escaped; ids as in `without_ids`."""
    cells = without_ids(texts(flatten(frame), formats or {}))
    escaped = pd.DataFrame({html(column): [html(value) for value in cells[column]] for column in cells})
    with pd.option_context("display.max_colwidth", None):
        return escaped.to_html(index=False, escape=False, border=0)
