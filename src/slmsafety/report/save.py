"""Artifacts on disk: a figure or a table, with a sidecar that says what it was made from. Same inputs, same bytes."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from slmsafety.errors import InputError, unknown, visible
from slmsafety.records.files import write_atomic
from slmsafety.report.style import styled
from slmsafety.report.text import latex

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
        A column's format specification in the LaTeX file, such as ".2f"; other floats have ".3f". The CSV has six
        significant digits. A missing number is empty in the CSV and "--" in LaTeX.

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
            table.with_suffix(".tex"): _tex(flat, formats or {}).encode(),
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
    """Return the frame with its named index levels as columns; InputError when two columns have the same name."""
    flat = frame.reset_index() if any(name is not None for name in frame.index.names) else frame
    if not flat.columns.is_unique:
        twice = flat.columns[flat.columns.duplicated()][0]
        raise InputError(f"a table has the column '{visible(twice)}' twice; column names must be unique")
    return flat


def cell(value: Any, spec: str, missing: str) -> str:
    """Return a cell's text: numbers by the format specification, never a negative zero; text as it is."""
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return missing
    if not spec or isinstance(value, bool) or not pd.api.types.is_number(value):
        return str(value)
    text = format(value, spec)
    return text.removeprefix("-") if text.startswith("-") and not text.strip("-0.%") else text


def texts(frame: pd.DataFrame, formats: dict[str, str], default: str = ".3f", missing: str = "--") -> pd.DataFrame:
    """Return the frame as text: `formats` by column, `default` for the floats of other columns."""
    for column in formats:
        if column not in frame.columns:
            raise unknown("column", column, map(str, frame.columns), "the formats of a table")

    def spec(column: Any, value: Any) -> str:
        return formats.get(column, default if isinstance(value, float | np.floating) else "")

    return pd.DataFrame({c: [cell(v, spec(c, v), missing) for v in frame[c]] for c in frame.columns}, dtype="str")


def _csv(frame: pd.DataFrame) -> str:
    return (
        texts(frame, {}, ".6g", missing="")
        .map(visible)
        .rename(columns=visible)
        .to_csv(index=False, lineterminator="\n")
    )


def _tex(frame: pd.DataFrame, formats: dict[str, str]) -> str:
    numeric = [pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind) for kind in frame.dtypes]
    cells = texts(frame, formats)
    escaped = pd.DataFrame(
        {
            latex(column): [_minus(latex(value)) if number else latex(value) for value in cells[column]]
            for column, number in zip(frame.columns, numeric, strict=True)
        }
    )
    aligned = "".join("r" if number else "l" for number in numeric)
    return escaped.style.hide(axis="index").to_latex(hrules=True, column_format=aligned)


def _minus(number: str) -> str:
    return f"$-${number[1:]}" if number.startswith("-") and number != "--" else number


def _drawn(fig: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    buffer = io.BytesIO()
    with styled():
        fig.savefig(buffer, format=kind, dpi=200, metadata=metadata)
    return buffer.getvalue()


def _write_all(files: dict[Path, bytes]) -> list[Path]:
    return [write_atomic(path, content) for path, content in files.items()]
