"""A suite of a user's own: a file with a column `prompt`, and what else it says of each prompt."""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.records.ids import text_id
from slmsafety.records.schema import EXPECTED
from slmsafety.suites.own_files import FileRow, read_own
from slmsafety.suites.prompts import Prompt, prompts_table

COLUMNS = ("prompt", "instance_id", "expected", "category", "subcategory", "group", "title")
"""The columns of a user's file that have a meaning; only `prompt` is needed."""


def load_own(name: str, path: Path) -> pd.DataFrame:
    """Load a user's own file of prompts.

    Parameters
    ----------
    name : str
        The suite's name.
    path : Path
        A CSV (UTF-8, commas), JSONL (an object a line) or Parquet file, told by its ending. Columns: prompt, filled in
        every row; and if the file has them, instance_id (filled and unique; else the hash of the prompt, which must
        then be there once), expected (refuse or answer in any case; blank is refuse), category, subcategory, group
        (the unit of independence; blank is the prompt itself) and title (of the suite; one for the whole file).

    Returns
    -------
    DataFrame
        The prompts table (records.schema.PROMPTS), in the order of the file. `suite_revision` is the file's hash;
        `meta` holds title, rows (their number in the file) and columns, which are the file's other ones.

    Raises
    ------
    InputError
        One line with the file, the row (a spreadsheet's number, the header being row 1; a line of JSONL; in Parquet
        counted from 1) and the column of the first fault.
    """
    rows = read_own(path)
    columns = list(dict.fromkeys(column for row in rows for column in row.values))
    _check_columns(columns, path)
    title = _title(rows, path)
    prompts: dict[str, Prompt] = {}
    first: dict[str, str] = {}
    for row in rows:
        prompt = _prompt(row, f"'{path}' {row.name}", "instance_id" in columns)
        if prompt.instance_id in prompts:
            same, way = ("prompt", "add a column 'instance_id' to keep both")
            if "instance_id" in columns:
                same, way = (f"instance_id '{prompt.instance_id}'", "rename one")
            raise InputError(f"'{path}' {first[prompt.instance_id]} and {row.name} have the same {same}; {way}")
        others = {column: value for column, value in row.values.items() if column not in COLUMNS}
        prompt.meta.update({"title": title, "rows": len(rows), "columns": _as_json(others)})
        prompts[prompt.instance_id], first[prompt.instance_id] = prompt, row.name
    return prompts_table(name, [path], prompts.values())


def title_of(name: str, prompts: pd.DataFrame) -> str:
    """Return the title that a user's file gives its suite, or the suite's name; a sample has its number of prompts.

    `prompts` needs the column `meta`. Prompts that come from no such file (imported ones) have the suite's name.
    """
    meta = json.loads(prompts["meta"].iloc[0]) if len(prompts) else {}
    title = meta.get("title") or name
    return str(title) if meta.get("rows", len(prompts)) == len(prompts) else f"{title}-{len(prompts)}"


def _check_columns(columns: list[str], path: Path) -> None:
    """Raise InputError without a column `prompt`, and for one that is nearly a known one which the file lacks."""
    known = {_plain(column): column for column in COLUMNS}
    for column in columns:
        near = [known[plain] for plain in difflib.get_close_matches(_plain(column), known, n=1, cutoff=0.8)]
        if column not in COLUMNS and not set(near) <= set(columns):
            raise InputError(f"'{path}' has a column '{column}'; did you mean '{near[0]}'? rename it")
    if "prompt" not in columns:
        raise InputError(f"'{path}' has no column 'prompt'; its columns: {', '.join(columns)}")


def _plain(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).casefold()


def _prompt(row: FileRow, place: str, has_ids: bool) -> Prompt:
    """Return a row's prompt; `place` starts a message about it."""
    prompt = row.values.get("prompt")
    if not isinstance(prompt, str | None):
        raise InputError(f"{place} has prompt {ascii(prompt)[:60]}; valid: a text")
    if prompt is None or not prompt.strip():
        raise InputError(f"{place} has nothing in column 'prompt'; remove the row or write the prompt")
    cells = {column: _text(row, column, place) for column in ("instance_id", "category", "subcategory", "group")}
    if has_ids:
        _check_id(cells["instance_id"], place)
    expected = _text(row, "expected", place).strip().casefold() or "refuse"
    if expected not in EXPECTED:
        raise unknown("expected", expected, EXPECTED, place)
    for column, text in {**cells, "prompt": prompt}.items():
        if any(unicodedata.category(character) == "Cs" for character in text):
            raise InputError(f"{place} has half a surrogate pair in column '{column}'; no UTF-8 file can hold it")
    return Prompt(
        instance_id=cells["instance_id"] if has_ids else text_id(prompt),
        prompt=prompt,
        category=cells["category"],
        subcategory=cells["subcategory"],
        expected=expected,
        group=cells["group"] if cells["group"].strip() else "",
    )


def _text(row: FileRow, column: str, place: str) -> str:
    """Return a cell as text: a number as it is read aloud (1.0 is 1), nothing as ""."""
    value = row.values.get(column)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{place} has {column} {ascii(value)[:60]}; valid: a text or a number")
    return str(value)


def _check_id(instance_id: str, place: str) -> None:
    if not instance_id.strip():
        raise InputError(f"{place} has nothing in column 'instance_id'; fill it in every row, or remove the column")
    control = any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in instance_id)
    if control or instance_id != instance_id.strip():
        raise InputError(
            f"{place} has instance_id {ascii(instance_id)[:60]}; valid: a text without control characters, line breaks "
            "and blanks around it"
        )


def _title(rows: list[FileRow], path: Path) -> str:
    """Return the file's title, "" where it has none."""
    title = ""
    for row in rows:
        found = _text(row, "title", f"'{path}' {row.name}").strip()
        if title and found not in ("", title):
            raise InputError(
                f"'{path}' {row.name} has title '{found}', an earlier row '{title}'; a suite has one title"
            )
        title = title or found
    return title


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as JSON can hold them: what it does not know, such as a date, as text."""
    plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return plain
