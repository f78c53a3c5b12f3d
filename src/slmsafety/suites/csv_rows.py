"""CSV files as text, cell for cell, with the row numbers that a spreadsheet shows."""

from __future__ import annotations

import csv
from pathlib import Path

from slmsafety.errors import InputError

Row = dict[str, str]


def read_rows(path: Path, columns: tuple[str, ...], filled: tuple[str, ...]) -> list[Row]:
    """Return the rows of `numbered_rows` without their numbers."""
    return [row for _, row in numbered_rows(path, columns, filled)]


def numbered_rows(path: Path, columns: tuple[str, ...], filled: tuple[str, ...]) -> list[tuple[int, Row]]:
    """Return the rows of a CSV file (UTF-8, comma), each with its number in a spreadsheet, where the header is row 1.

    Cells are text as written: "nan" and "" stay what they are. A line without any cell is left out, but counted.
    Raises InputError when the file is missing, not UTF-8, not a CSV, without rows, lacks one of `columns`, leaves a
    cell of `filled` blank, or has a row of another length than the header.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            header, *lines = list(csv.reader(handle, strict=True)) or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"'{path}' is not a CSV file in UTF-8 ({error})") from error
    except OSError as error:
        raise InputError(f"cannot read '{path}' ({error})") from error
    _check_header(path, header, columns)
    rows = []
    for number, cells in enumerate(lines, start=2):
        if not cells:
            continue
        if len(cells) != len(header):
            raise InputError(f"'{path}' row {number} does not have the header's {len(header)} cells")
        row = dict(zip(header, cells, strict=True))
        for column in filled:
            if not row[column].strip():
                raise InputError(f"'{path}' row {number} has nothing in column '{column}'")
        rows.append((number, row))
    if not rows:
        raise InputError(f"'{path}' has a header but no row; expected columns: {', '.join(columns)}")
    return rows


def _check_header(path: Path, header: list[str], columns: tuple[str, ...]) -> None:
    """Raise InputError for a column that is missing, has no name, or is there twice."""
    for column in columns:
        if column not in header:
            other = next((mark for mark in (";", "\t") if len(header) == 1 and mark in header[0]), None)
            hint = f"; its cells are separated by {other!r}, a comma is expected" if other else ""
            raise InputError(f"'{path}' has no column '{column}'; expected columns: {', '.join(columns)}{hint}")
    for place, column in enumerate(header, start=1):
        if not column.strip():
            raise InputError(f"'{path}' row 1 has no name for column {place}; name it or remove it")
        if header.count(column) > 1:
            raise InputError(f"'{path}' row 1 has the column '{column}' twice; remove one")
