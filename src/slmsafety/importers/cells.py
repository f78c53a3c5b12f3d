"""What every format of a table is read into: text cells, and where each row stands in its file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from slmsafety.errors import InputError

# Floats from here on are not whole numbers that were written down.
_WHOLE = 2.0**53


class Unfit(NamedTuple):
    """The first row in which a column holds what is no text, and what it holds."""

    row: int
    what: str


NESTED, NOT_FINITE, BYTES = "a list or an object", "no finite number", "bytes"


@dataclass(frozen=True)
class Cells:
    """The rows of a file as text.

    Attributes
    ----------
    source : str
        The file's path, for messages.
    form : str
        Its format, with what else was needed to read it ("csv, utf-8, delimiter ','").
    frame : DataFrame
        A str column for each of the file's, under its name as it stands there; missing where the file has nothing
        (null), "" where it has a blank.
    numbers, lines : sequence of int
        The number of each row, as `unit` counts it, and the line of the file that it starts on.
    unit : str
        What a row is called: "row" as a spreadsheet counts (the header is row 1), "line" or "item".
    unfit : dict
        Columns that hold other things than text.
    """

    source: str
    form: str
    frame: pd.DataFrame
    numbers: Sequence[int] | np.ndarray[Any, np.dtype[np.int64]]
    lines: Sequence[int] | np.ndarray[Any, np.dtype[np.int64]]
    unit: str = "row"
    unfit: dict[str, Unfit] = field(default_factory=dict)

    def name(self, row: int) -> str:
        """Return how messages call a row: "row 7", with its line where that is another number."""
        number, line = int(self.numbers[row]), int(self.lines[row])
        return f"{self.unit} {number}" + (f" (line {line})" if self.unit == "row" and line != number else "")

    def place(self, row: int) -> str:
        """Return the file and the row, for messages."""
        return f"{self.source}: {self.name(row)}"


def number_text(value: float) -> str:
    """Return a number as text: a whole one without a fraction (1.0 is 1), so that an id is one in every format."""
    return str(int(value)) if value == value and abs(value) < _WHOLE and value == int(value) else repr(value)


def plain_text(value: Any) -> tuple[str | None, str | None]:
    """Return a value of JSON as text, and what it is where that is no text (NESTED, NOT_FINITE)."""
    if value is None or isinstance(value, str):
        return value, None
    if isinstance(value, bool):
        return str(value).lower(), None
    if isinstance(value, int):
        return str(value), None
    if isinstance(value, float):
        return number_text(value), None if abs(value) < float("inf") else NOT_FINITE
    return json.dumps(value, ensure_ascii=False, default=str), NESTED


def text_column(values: Sequence[str | None], source: str, name: str, place: str = "value") -> pa.Array:
    """Return texts as Arrow has them; InputError names a lone surrogate, which no file in UTF-8 can hold."""
    try:
        return pa.array(values, pa.large_string())
    except UnicodeEncodeError as error:
        for number, value in enumerate(values):
            if value is not None and any("\ud800" <= character <= "\udfff" for character in value):
                raise InputError(
                    f"{source}: {place} {number + 1} has half a character (a lone surrogate) in column '{name}'; "
                    "repair that text"
                ) from error
        raise


def frame_of(columns: dict[str, Any]) -> pd.DataFrame:
    """Return a frame of str columns from arrays of text, by position, since names may be there twice."""
    table = pa.table(list(columns.values()), names=[str(n) for n in range(len(columns))])
    frame: pd.DataFrame = table.to_pandas(types_mapper=lambda kind: pd.StringDtype(na_value=np.nan))
    return frame.set_axis(pd.Index(list(columns), dtype=object), axis=1)
