r"""A table as text: cells by their formats, and a LaTeX tabular (booktabs) that fits the page.

A tabular that is too wide for the text in the document's own size has its headings on several lines, then smaller type
and narrower gaps; one that is too wide even so is scaled, for which the document loads graphicx.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from slmsafety.errors import unknown
from slmsafety.report.headers import format_of, titles
from slmsafety.report.text import latex

TEXT_WIDTH = 122 / 25.4 * 72.27
"""The width of the text in Springer's LNCS, in TeX points."""

_LIMITS = " {[}low,~high]"
_THOUSANDS = 10_000
_LINE = r"\\"
_WORDS = re.compile(r"(?:\\.|\$[^$]*\$|[^ $\\])+")


class Column(NamedTuple):
    """A column of a tabular: its words and cells in LaTeX, and whether they are numbers, which stand right."""

    words: str
    cells: list[str]
    number: bool


class Size(NamedTuple):
    """A size of type: its command, the em of Computer Modern in points, and the gap at each side of a column."""

    command: str
    em: float
    gap: float


# Body text of 10 points with LaTeX's own gaps, then 9, 8 and 7 points. Small sizes of Computer Modern run wider.
SIZES = (
    Size("", 10.0, 6.0),
    Size(r"\small", 9.25, 4.0),
    Size(r"\footnotesize", 8.5, 3.0),
    Size(r"\scriptsize", 7.97, 2.0),
)


def cell(value: Any, spec: str, missing: str) -> str:
    """Return a cell's text: numbers by the format specification, never a negative zero; text as it is."""
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return missing
    if not spec or isinstance(value, bool | np.bool_) or not pd.api.types.is_number(value):
        return str(value)
    text = format(value, spec)
    return text.removeprefix("-") if text.startswith("-") and not text.strip("-0.%") else text


def texts(frame: pd.DataFrame, formats: dict[str, str], default: str = ".3f", missing: str = "--") -> pd.DataFrame:
    """Return the frame as text: `formats` by column, `default` for the floats of other columns."""
    _check(formats, frame)

    def spec(column: Any, value: Any) -> str:
        return formats.get(column, default if isinstance(value, float | np.floating) else "")

    return pd.DataFrame({c: [cell(v, spec(c, v), missing) for v in frame[c]] for c in frame.columns}, dtype="str")


def _check(formats: dict[str, str], frame: pd.DataFrame) -> None:
    for column in formats:
        if column not in frame.columns:
            raise unknown("column", column, map(str, frame.columns), "the formats of a table")


def without_ids(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame without the ids whose title stands beside them: `suite` by suite_title, `model` by model_name.

    A file for programs has both; a table for readers has the title alone.
    """
    names = set(frame.columns)
    return frame[[name for name in frame.columns if not names & {f"{name}_title", f"{name}_name"}]]


def tabular(frame: pd.DataFrame, formats: dict[str, str]) -> str:
    """Return the table as a LaTeX tabular.

    Parameters
    ----------
    frame : DataFrame
        The table. Ids are left out where their titles stand (`without_ids`); `x_low` and `x_high` go into the cell of
        `x`, where that is a column: 0.66 [0.61, 0.70].
    formats : dict of str to str
        A column's format specification; else that of headers.csv, or ".3f" for floats. A column of whole numbers of
        which one has five digits has commas.

    Returns
    -------
    str
        The lines: text left and numbers right, booleans as yes and no, a missing cell as "--".
    """
    _check(formats, frame)
    shown = without_ids(frame)
    specs = {name: formats.get(name) or format_of(name) or _spec(shown[name]) for name in shown.columns}
    ends = {f"{name}{end}" for name in shown.columns for end in ("_low", "_high") if _has_limits(shown, name)}
    names = [name for name in shown.columns if name not in ends]
    columns = []
    for name, words in zip(names, titles(names), strict=True):
        cells = _cells(shown[name], specs[name])
        if _has_limits(shown, name):
            # The limits are of the value's own kind, so that they are written alike.
            low, high = (_cells(shown[f"{name}{end}"], specs[name]) for end in ("_low", "_high"))
            cells = [_with_limits(*parts) for parts in zip(cells, low, high, strict=True)]
            words += _LIMITS if any(limit != "--" for limit in low + high) else ""
        columns.append(Column(words, cells, _is_number(shown[name])))
    return _sized(columns)


def width(columns: list[Column], size: Size = SIZES[0]) -> float:
    """Return how wide a tabular of the columns is at most, in points, by the widths of Computer Modern's letters."""
    widest = [
        max(_ems(text) for heading in (column.words, *column.cells) for text in heading.split(_LINE))
        for column in columns
    ]
    return sum(widest) * size.em + 2 * size.gap * len(columns)


def _sized(columns: list[Column]) -> str:
    if width(columns) <= TEXT_WIDTH:
        return _body(columns)
    columns = [_stacked(column) for column in columns]
    size = next((size for size in SIZES if width(columns, size) <= TEXT_WIDTH), None)
    if size == SIZES[0]:
        return _body(columns)
    chosen = size or SIZES[-1]
    gap = rf"\setlength{{\tabcolsep}}{{{chosen.gap:g}pt}}"
    inner = _body(columns) if size else f"\\resizebox{{\\textwidth}}{{!}}{{%\n{_body(columns).rstrip()}%\n}}\n"
    return f"{{{chosen.command}{gap}%\n{inner}}}\n"


def _stacked(column: Column) -> Column:
    """The column with its words on as many lines as they need to be no wider than its cells, if they can."""
    parts = _WORDS.findall(column.words)
    room = max(map(_ems, [*parts, *column.cells]), default=0.0)
    lines: list[str] = []
    for part in parts:
        joined = f"{lines[-1]} {part}" if lines else part
        lines = [*lines[:-1], joined] if _ems(joined) <= room else [*lines, part]
    return column._replace(words=_LINE.join(lines))


def _body(columns: list[Column]) -> str:
    aligned = "".join("r" if column.number else "l" for column in columns)
    rows = [" & ".join(row) + r" \\" for row in zip(*(column.cells for column in columns), strict=True)]
    head = " & ".join(map(_heading, columns)) + r" \\"
    lines = [
        rf"\begin{{tabular}}{{{aligned}}}",
        r"\toprule",
        head,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _heading(column: Column) -> str:
    if _LINE not in column.words:
        return column.words
    side = "r" if column.number else "l"
    return rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{column.words}\end{{tabular}}"


def _has_limits(frame: pd.DataFrame, name: Any) -> bool:
    ends = [f"{name}_low", f"{name}_high"]
    return all(end in frame.columns for end in ends) and all(_is_number(frame[each]) for each in (name, *ends))


def _is_number(values: pd.Series) -> bool:
    if pd.api.types.is_object_dtype(values.dtype):
        return pd.api.types.infer_dtype(values, skipna=True) in ("integer", "floating", "mixed-integer-float")
    return pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_bool_dtype(values.dtype)


def _spec(values: pd.Series) -> str:
    if pd.api.types.is_integer_dtype(values.dtype):
        return "," if bool(values.abs().ge(_THOUSANDS).any()) else ""
    return ""


def _cells(values: pd.Series, spec: str) -> list[str]:
    number, told = _is_number(values), texts(values.to_frame("x"), {"x": spec} if spec else {})["x"]
    return [
        ("yes" if value else "no") if isinstance(value, bool | np.bool_) else _minus(text) if number else text
        for value, text in zip(values, map(latex, told), strict=True)
    ]


def _minus(number: str) -> str:
    return f"$-${number[1:]}" if number.startswith("-") and number != "--" else number


def _with_limits(value: str, low: str, high: str) -> str:
    return value if {low, high} == {"--"} else f"{value} [{low}, {high}]"


# Ems of Computer Modern, rounded up: capitals, figures and small letters, narrow ones; anything else counts as wide.
_KINDS: tuple[tuple[Callable[[str], object], float], ...] = (
    (re.compile(r"[ijlft.,:;'`!()\[\]|/ ~-]").match, 0.4),
    (re.compile(r"[a-ln-vx-z0-9]").match, 0.56),
    (re.compile(r"[A-LN-VX-Z+=<>]").match, 0.79),
)
_WIDE = 1.03
_COMMAND = re.compile(r"\\[A-Za-z]+(\{\})?|\\(.)|[{}$^_]")


def _ems(source: str) -> float:
    """Return how wide a cell is at most, in ems: a command counts as a wide letter, braces and dollars as nothing."""
    plain = source.replace("$-$", "+").replace(r"\mathrm", "")
    plain = _COMMAND.sub(lambda found: found[2] or ("@" if found[0].startswith("\\") else ""), plain)
    return sum(next((em for matches, em in _KINDS if matches(char)), _WIDE) for char in plain)
