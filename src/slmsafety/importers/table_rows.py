"""The cells of a table's known columns, trimmed and typed; what one row says of a prompt holds for its other rows."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.importers.cells import Cells
from slmsafety.importers.rules import closed, trimmed
from slmsafety.importers.scores import plain
from slmsafety.importers.table_layout import CONSTANTS, OPTIONAL, REQUIRED, Layout
from slmsafety.records.ids import text_id
from slmsafety.records.schema import EXPECTED, FINISH_REASONS, STATUSES

_OF_PROMPT = ("prompt", "expected", "category", "subcategory", "group")
_REFUSED = {"true": True, "1": True, "false": False, "0": False, "": None}
_MOST_SAMPLES = 2**31


def read_rows(cells: Cells, layout: Layout, constants: dict[str, str]) -> pd.DataFrame:
    """Return a row for each of the file's, without judges that are columns.

    Columns: REQUIRED and OPTIONAL of `table_layout`, with what the file leaves out: prompts are to be refused, a reply
    ended by itself, its text is missing where there is no such column. Ids and names are trimmed, `expected`, `status`,
    `finish_reason` and `refused` are read in any case; `group`, category and the like are "" where nobody says them.
    Judges that are columns are left out: `judge` and `score` are there where the file has rows of judges.

    Raises InputError with one line that names the row, or both rows where two contradict each other.
    """
    rows = pd.DataFrame(index=pd.RangeIndex(len(cells.frame)))
    for name in (*REQUIRED, *OPTIONAL):
        rows[name] = _column(name, cells, layout, constants)
    if "instance_id" not in layout.known:
        rows["instance_id"] = _ids_by_text(rows["prompt"], cells)
    for name in REQUIRED[:-1] if not layout.judges else REQUIRED[:-2]:
        _refuse(rows[name].eq(""), cells, f"has no {name}")
    rows["sample"] = _samples(rows["sample"], cells, "sample" in layout.known)
    rows["refused"] = _refusals(rows["refused"], cells)
    rows["status"] = closed(rows["status"].mask(rows["status"].eq(""), "ok"), STATUSES, "status", cells.place)
    for name, valid in (("expected", EXPECTED), ("finish_reason", FINISH_REASONS)):
        blank = rows[name].eq("")
        rows[name] = closed(rows[name].mask(blank, valid[0]), valid, name, cells.place).mask(blank, "")
    return _filled(rows, cells)


def meta_column(cells: Cells, layout: Layout) -> pd.Series:
    """Return the columns that nobody knows as JSON, a text a row; a missing value is left as null."""
    if not layout.meta:
        return pd.Series("{}", index=pd.RangeIndex(len(cells.frame)), dtype="str")
    parts = []
    for place in layout.meta:
        column = cells.frame.iloc[:, place]
        values = column.unique()
        written = {value: json.dumps(None if _is_missing(value) else value, ensure_ascii=False) for value in values}
        name = json.dumps(str(cells.frame.columns[place]))
        parts.append([f"{name}: {written[value]}" for value in column])
    return pd.Series(["{" + ", ".join(row) + "}" for row in zip(*parts, strict=True)], dtype="str")


def _is_missing(value: object) -> bool:
    return not isinstance(value, str)


def _column(name: str, cells: Cells, layout: Layout, constants: dict[str, str]) -> pd.Series:
    """The cells of a column: texts as they are, others trimmed; a reply that is null is not known."""
    if name in constants:
        return pd.Series(trimmed(constants[name]), index=pd.RangeIndex(len(cells.frame)), dtype="str")
    if name not in layout.known:
        return pd.Series(None if name == "response" else "", index=pd.RangeIndex(len(cells.frame)), dtype="str")
    column = cells.frame.iloc[:, layout.known[name]]
    if name == "response":
        return column
    column = column.fillna("")
    if name == "prompt":
        return column
    if name in CONSTANTS:
        return column.map({value: trimmed(value) for value in column.unique()}).astype("str")
    return column.str.strip()


def _refuse(wrong: pd.Series, cells: Cells, problem: str) -> None:
    if wrong.any():
        raise InputError(f"{cells.place(int(wrong.to_numpy().argmax()))} {problem}")


def _ids_by_text(prompts: pd.Series, cells: Cells) -> pd.Series:
    _refuse(prompts.str.strip().eq(""), cells, "has neither an instance_id nor a prompt")
    return prompts.map({prompt: text_id(prompt) for prompt in prompts.unique()}).astype("str")


def _samples(column: pd.Series, cells: Cells, is_given: bool) -> pd.Series:
    if not is_given:
        return pd.Series(0, index=column.index, dtype="Int64")
    written = {text: plain(text) for text in column.unique()}  # 1.0 is 1, as pandas writes a column with gaps
    numbers = {text: int(found) for text, found in written.items() if found.isdigit() and len(found) < 11}
    numbers = {text: number for text, number in numbers.items() if number < _MOST_SAMPLES}
    for text in column[~column.isin(numbers)].head(1):
        valid = "whole numbers from 0, one for each reply to a prompt"
        _refuse(column.eq(text), cells, f"has sample '{text}'; valid: {valid}")
    return column.map(numbers).astype("Int64")


def _refusals(column: pd.Series, cells: Cells) -> pd.Series:
    words = {text: plain(text) for text in column.unique()}
    wrong = column.isin([text for text, word in words.items() if word not in _REFUSED])
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        raise unknown("refused", column.iloc[row], ["true", "false", "1", "0", "nothing"], cells.place(row))
    return column.map({text: _REFUSED[word] for text, word in words.items()}).astype("boolean")


def codes(rows: pd.DataFrame, key: Sequence[str]) -> np.ndarray:
    """Return a number for each row that rows of the same key share."""
    found = np.zeros(len(rows), dtype="int64")
    for column in key:
        values, names = pd.factorize(rows[column])
        found, _ = pd.factorize(found * (len(names) + 1) + values)
    return found


def _filled(rows: pd.DataFrame, cells: Cells) -> pd.DataFrame:
    """The rows with what other rows of their prompt or reply say; InputError names two that contradict each other."""
    prompts = codes(rows, ("suite", "instance_id"))
    for name in _OF_PROMPT:
        rows[name] = _one_value(rows[name], prompts, cells, f"{name} of a prompt")
    replies = codes(rows.assign(prompt_code=prompts), ("prompt_code", "model", "sample"))
    rows["response"] = _one_value(rows["response"], replies, cells, "response of a reply")
    rows["finish_reason"] = _one_value(rows["finish_reason"], replies, cells, "finish_reason of a reply")
    rows["expected"] = rows["expected"].mask(rows["expected"].eq(""), "refuse")
    rows["finish_reason"] = rows["finish_reason"].mask(rows["finish_reason"].eq(""), "stop")
    return rows


def _one_value(column: pd.Series, groups: np.ndarray, cells: Cells, what: str) -> pd.Series:
    """The column with the one value of each group in all of its rows; "" is none, and of a reply only what is null."""
    values, _ = pd.factorize(column)
    said = values >= 0 if column.name == "response" else (values >= 0) & column.ne("").to_numpy()
    rows = np.flatnonzero(said)
    first = np.full(groups.max(initial=-1) + 1, -1)
    first[groups[rows[::-1]]] = rows[::-1]
    wrong = rows[values[first[groups[rows]]] != values[rows]]
    if wrong.size:
        row = int(wrong[0])
        advice = ""
        if column.name == "response":
            advice = "; several replies to a prompt need a column 'sample'"
            blank = [at for at in (int(first[groups[row]]), row) if not column.iloc[at].strip()]
            if blank:
                advice += f", and where it is one reply, fill in that of {cells.name(blank[0])}: a blank one is empty"
        raise InputError(
            f"{cells.source}: {cells.name(int(first[groups[row]]))} and {cells.name(row)} contradict each other: they "
            f"have two values for the {what}{advice}"
        )
    taken = first[groups]
    if (said == (taken >= 0)).all():
        return column
    filled = column.to_numpy(dtype=object)[np.maximum(taken, 0)]
    return pd.Series(filled, index=column.index, dtype="str", name=column.name).where(taken >= 0, column)
