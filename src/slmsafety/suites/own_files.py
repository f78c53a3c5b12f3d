"""The rows of a user's own file (CSV, JSONL, Parquet): values as written, each row with the number that names it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from slmsafety.errors import InputError
from slmsafety.paths import is_file
from slmsafety.suites.csv_rows import numbered_rows


class FileRow(NamedTuple):
    """A row: what a message calls it ("row 3", "line 3"), and its values by column."""

    name: str
    values: dict[str, Any]


def read_own(path: Path) -> list[FileRow]:
    """Return the rows of a file, read by its ending: .csv, .jsonl or .parquet, in any case.

    CSV is UTF-8 with commas, and a row's number is a spreadsheet's (the header is row 1); of JSONL it is the line's,
    of Parquet counted from 1. Raises InputError for another ending and for a file that is not of its form or is empty.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"'{path}' ends in '{path.suffix}'; a suite's file ends in {', '.join(_READERS)}")
    if not is_file(path):
        raise InputError(f"there is no file '{path}'")
    rows = reader(path)
    if not rows:
        raise InputError(f"'{path}' has no rows")
    return rows


def _read_csv(path: Path) -> list[FileRow]:
    return [FileRow(f"row {number}", dict(row)) for number, row in numbered_rows(path, ("prompt",), ())]


def _read_jsonl(path: Path) -> list[FileRow]:
    rows = []
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as handle:
            # Lines as the file object gives them: str.splitlines would also cut at line separators inside a text.
            for number, line in enumerate(handle, start=1):
                if line.strip():
                    rows.append(FileRow(f"line {number}", _json_object(line)))
    except OSError as error:
        raise InputError(f"cannot read '{path}' ({error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"'{path}' is not in UTF-8 after line {number} ({error})") from error
    except (ValueError, RecursionError) as error:  # JSONDecodeError is a ValueError
        raise InputError(f"'{path}' line {number} is not one JSON object ({error})") from error
    return rows


def _json_object(line: str) -> dict[str, Any]:
    value = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_number)
    if not isinstance(value, dict):
        raise ValueError(f"it is {ascii(value)[:40]}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose keys are there once: plain JSON takes the last one in silence."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key '{next(name for name in names if names.count(name) > 1)}' is there twice")
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _read_parquet(path: Path) -> list[FileRow]:
    try:
        table = pq.read_table(path)
        records = table.to_pylist()
    except (OSError, pa.ArrowException, ValueError) as error:
        raise InputError(f"'{path}' is not a Parquet file ({' '.join(str(error).split())[:200]})") from error
    names = table.column_names
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"'{path}' has the column '{name}' twice; remove one")
    return [
        FileRow(f"row {number}", {name: None if _is_nan(value) else value for name, value in record.items()})
        for number, record in enumerate(records, start=1)
    ]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


_READERS: dict[str, Callable[[Path], list[FileRow]]] = {
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
