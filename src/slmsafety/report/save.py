"""Artifacts on disk: a figure or a table, with a sidecar that says what it was made from. Same inputs, same bytes."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from slmsafety.errors import InputError, unknown
from slmsafety.records.files import write_atomic
from slmsafety.report.style import styled
from slmsafety.report.text import latex, visible

_SLUG = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")
SIDECAR = ("inputs", "notebook", "parameters")


def save_figure(fig: Figure, name: str, *, root: Path, study: str, sidecar: dict[str, Any]) -> list[Path]:
    """Write `paper/figures/STUDY/NAME.pdf`, `figures/STUDY/NAME.png` (200 dpi) and a sidecar beside each.

    Returns the four paths. `sidecar` holds `notebook`, `parameters` and `inputs` (name: sha256). The files carry no
    time or version. Raises InputError when `name` or `study` is not a slug.
    """
    about = _sidecar(name, study, sidecar)
    pdf = slug_path(root / "paper" / "figures", study, name)
    png = slug_path(root / "figures", study, name)
    return _write_all(
        {
            pdf.with_suffix(".pdf"): _drawn(fig, "pdf", {"Creator": None, "Producer": None, "CreationDate": None}),
            pdf.with_suffix(".json"): about,
            png.with_suffix(".png"): _drawn(fig, "png", {"Software": None}),
            png.with_suffix(".json"): about,
        }
    )


def save_table(
    frame: pd.DataFrame,
    name: str,
    *,
    root: Path,
    study: str,
    sidecar: dict[str, Any],
    formats: dict[str, str] | None = None,
) -> list[Path]:
    """Write `paper/tables/STUDY/NAME.csv`, `NAME.tex` (a booktabs tabular) and the sidecar; return the three paths.

    `formats` gives a column's format specification in the TeX file (".2f"; floats have ".3f" without one); the CSV
    holds six significant digits. Named index levels become columns, an unnamed index is not written. Text is escaped.
    """
    flat = flatten(frame)
    table = slug_path(root / "paper" / "tables", study, name)
    return _write_all(
        {
            table.with_suffix(".csv"): _csv(flat).encode(),
            table.with_suffix(".tex"): _tex(flat, formats or {}).encode(),
            table.with_suffix(".json"): _sidecar(name, study, sidecar),
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


def _sidecar(name: str, study: str, sidecar: dict[str, Any]) -> bytes:
    if sorted(sidecar) != sorted(SIDECAR):
        raise InputError(f"the sidecar of '{visible(name)}' has the keys {sorted(sidecar)}; it needs {sorted(SIDECAR)}")
    content = {"name": name, "study": study, **sidecar}
    return (json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _write_all(files: dict[Path, bytes]) -> list[Path]:
    return [write_atomic(path, content) for path, content in files.items()]
