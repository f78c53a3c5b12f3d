"""Artifacts on disk: a figure or a table, with a sidecar that says what it was made from. Same inputs, same bytes."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from slmsafety.errors import InputError, visible
from slmsafety.records.files import write_atomic
from slmsafety.report.style import styled
from slmsafety.report.tabular import tabular, texts

_SLUG = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")


@dataclass(frozen=True)
class Target:
    """Where a notebook's artifacts for one study go, and what the sidecar beside each says.

    Attributes
    ----------
    notebook : str
        The notebook's name without suffix.
    study_name : str
        The study's name: letters and digits, joined by "_" or "-". It names the folder of the artifacts.
    root : Path
        The project's root folder.
    parameters : dict
        The study's and the notebook's parameters; they must be JSON.
    inputs : dict of str to str
        The sha256 of each file that the artifacts are made from, by its name.
    """

    notebook: str
    study_name: str
    root: Path
    parameters: dict[str, Any]
    inputs: dict[str, str]

    def sidecar(self, name: str) -> bytes:
        """Return the JSON text of an artifact's sidecar: no time, no version, keys sorted."""
        content = {
            "name": name,
            "study": self.study_name,
            "notebook": self.notebook,
            "parameters": self.parameters,
            "inputs": self.inputs,
        }
        return (json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def save_figure(fig: Figure, name: str, target: Target) -> list[Path]:
    """Write a figure as PDF (fonts embedded) and PNG (200 dpi), with a sidecar beside each.

    Parameters
    ----------
    fig : Figure
        The figure, in inches.
    name : str
        The artifact's name: letters and digits, joined by "_" or "-".
    target : Target
        Where it goes.

    Returns
    -------
    list of Path
        `paper/figures/STUDY/NAME.pdf` and its `.json`, `figures/STUDY/NAME.png` and its `.json`. The same figure gives
        the same bytes.

    Raises
    ------
    InputError
        When `name` or the study's name cannot name a file.
    """
    about = target.sidecar(name)
    pdf = slug_path(target.root / "paper" / "figures", target.study_name, name)
    png = slug_path(target.root / "figures", target.study_name, name)
    return _write_all(
        {
            pdf.with_suffix(".pdf"): _drawn(fig, "pdf", {"Creator": None, "Producer": None, "CreationDate": None}),
            pdf.with_suffix(".json"): about,
            png.with_suffix(".png"): _drawn(fig, "png", {"Software": None}),
            png.with_suffix(".json"): about,
        }
    )


def save_table(frame: pd.DataFrame, name: str, target: Target, formats: dict[str, str] | None = None) -> list[Path]:
    """Write a table as CSV and as a LaTeX tabular (booktabs), with a sidecar.

    Parameters
    ----------
    frame : DataFrame
        The table. Named index levels become columns, an unnamed index is not written. Text is escaped.
    name : str
        The artifact's name: letters and digits, joined by "_" or "-".
    target : Target
        Where it goes.
    formats : dict of str to str, optional
        A column's format specification in the LaTeX file, such as ".2f", before that of headers.csv; other floats have
        ".3f". The CSV has the columns' names and six significant digits; LaTeX has their words (`tabular`). A missing
        number is empty in the CSV and "--" in LaTeX.

    Returns
    -------
    list of Path
        `paper/tables/STUDY/NAME.csv`, `NAME.tex` and `NAME.json`. The same frame gives the same bytes.

    Raises
    ------
    InputError
        When a name cannot name a file, `formats` has an unknown column, or two columns have one name.
    """
    flat = flatten(frame)
    table = slug_path(target.root / "paper" / "tables", target.study_name, name)
    return _write_all(
        {
            table.with_suffix(".csv"): _csv(flat).encode(),
            table.with_suffix(".tex"): tabular(flat, formats or {}).encode(),
            table.with_suffix(".json"): target.sidecar(name),
        }
    )


def slug_path(folder: Path, *names: str) -> Path:
    """Return the path below `folder`, or raise InputError when a name is not letters, digits, `_` and `-`."""
    for name in names:
        if not _SLUG.fullmatch(name):
            raise InputError(f"'{visible(name)}' cannot name a file; use letters and digits joined by '_' or '-'")
    return folder.joinpath(*names)


def flatten(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with its named index levels as columns, and each title after its id (suite, suite_title).

    Raises InputError when two columns have the same name.
    """
    flat = frame.reset_index() if any(name is not None for name in frame.index.names) else frame
    if not flat.columns.is_unique:
        twice = flat.columns[flat.columns.duplicated()][0]
        raise InputError(f"a table has the column '{visible(twice)}' twice; column names must be unique")
    ids = {f"{name}{end}": name for name in flat.columns for end in ("_title", "_name")}
    titles = [name for name in flat.columns if ids.get(name) in flat.columns]
    order: list[Any] = []
    for name in flat.columns:
        order += [] if name in titles else [name, *(title for title in titles if ids[title] == name)]
    return flat[order]


def _csv(frame: pd.DataFrame) -> str:
    return (
        texts(frame, {}, ".6g", missing="")
        .map(visible)
        .rename(columns=visible)
        .to_csv(index=False, lineterminator="\n")
    )


def _drawn(fig: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    buffer = io.BytesIO()
    with styled():
        fig.savefig(buffer, format=kind, dpi=200, metadata=metadata)
    return buffer.getvalue()


def _write_all(files: dict[Path, bytes]) -> list[Path]:
    return [write_atomic(path, content) for path, content in files.items()]
