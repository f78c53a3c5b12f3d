"""Rows as JSON objects, one a line (JSONL) or in one list."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slmsafety.errors import InputError
from slmsafety.importers.cells import NESTED, Cells, Unfit, frame_of, plain_text, text_column
from slmsafety.importers.delimited import checked_lines, opened, refuse_utf8, text_encoding

_CHUNK = 50_000


def read_json_rows(path: Path, encoding: str | None = None) -> Cells:
    """Read objects, one a line or all in one list; a field that an object lacks is missing, as null is.

    A number is text as it is written, but whole numbers have no fraction (1.0 is 1); true and false are words. Lists
    and objects are kept as JSON and noted in `unfit`, and so are NaN and Infinity, which Python writes.

    Raises InputError with one line that names the line (or the item of the list): no object, a field twice, bytes of
    another encoding, what is no JSON.
    """
    source, encoding = str(path), text_encoding(str(path), encoding)
    refuse_utf8(path, encoding)
    is_list = _opens_list(path, encoding)
    rows = _items(path, encoding) if is_list else _lines(path, encoding)
    unit = "item" if is_list else "line"
    numbers: list[int] = []
    columns: dict[str, list[pa.Array]] = {}
    unfit: dict[str, Unfit] = {}
    chunk: list[dict[str, str | None]] = []
    for number, row in rows:
        if not isinstance(row, dict):
            raise InputError(f'{source}: {unit} {number} is no object; needs one a row, such as {{"score": 1}}')
        texts: dict[str, str | None] = {}
        for name, value in row.items():
            texts[name], what = plain_text(value)
            if what is not None:
                unfit.setdefault(name, Unfit(len(numbers), what))
        numbers.append(number)
        chunk.append(texts)
        if len(chunk) == _CHUNK:
            _fold(chunk, columns, len(numbers), source)
    _fold(chunk, columns, len(numbers), source)
    if not numbers:
        raise InputError(f"{source}: holds no rows")
    if len(numbers) == 1 and unfit and all(name in unfit and unfit[name].what == NESTED for name in columns):
        names = ", ".join(list(columns)[:3])
        raise InputError(
            f"{source}: is one object with lists or objects in all its fields ({names[:80]}); needs one object a row, "
            "so write those out first: docs/importing.md has recipes"
        )
    arrays = {name: pa.chunked_array(parts, pa.large_string()) for name, parts in columns.items()}
    order = np.array(numbers, dtype="int64")
    return Cells(source, f"json, {encoding}, {unit}s", frame_of(arrays), order, order, unit, unfit)


def _fold(chunk: list[dict[str, str | None]], columns: dict[str, list[pa.Array]], end: int, source: str) -> None:
    """Move rows, the last of them the one of number `end`, from a chunk into columns."""
    start = end - len(chunk)
    for name in dict.fromkeys(name for row in chunk for name in row):
        columns.setdefault(name, [pa.nulls(start, pa.large_string())])
    for name, parts in columns.items():
        parts.append(text_column([row.get(name) for row in chunk], source, name))
    chunk.clear()


def _opens_list(path: Path, encoding: str) -> bool:
    with opened(path, encoding) as handle:
        for line in handle:
            if line.strip():
                return line.lstrip().startswith("[")
    return False


def _lines(path: Path, encoding: str) -> Iterator[tuple[int, Any]]:
    with opened(path, encoding) as handle:
        for number, line in enumerate(checked_lines(handle, path, encoding), start=1):
            if not line.strip():
                continue
            yield number, _parsed(line, f"{path}: line {number}", "; needs one object a line, or one list of objects")


def _items(path: Path, encoding: str) -> Iterator[tuple[int, Any]]:
    with opened(path, encoding) as handle:
        text = "".join(checked_lines(handle, path, encoding))
    yield from enumerate(_parsed(text, str(path), ""), start=1)


def _parsed(text: str, place: str, needs: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except _Twice as error:
        raise InputError(f"{place} has the field '{error}' twice in one object") from error
    except (ValueError, RecursionError) as error:
        said = " ".join(str(error).split())[:120]
        raise InputError(f"{place} is no JSON ({said}){needs}") from error


class _Twice(Exception):
    """A field that an object has twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(name for name in names if names.count(name) > 1))
    return found


def _constant(word: str) -> float:
    return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}[word]
