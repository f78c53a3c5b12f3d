"""Parquet files as text cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slmsafety.errors import InputError
from slmsafety.importers.cells import BYTES, NESTED, NOT_FINITE, Cells, Unfit, frame_of, number_text, text_column


def read_parquet_rows(path: Path) -> Cells:
    """Read a Parquet file; nulls and nan are missing, categories are their words, whole numbers have no fraction.

    Days and times are text (ISO 8601); lists and objects are kept as JSON and noted in `unfit`, as bytes are.

    Raises InputError with one line for what is no Parquet file, or a torn one.
    """
    source = str(path)
    try:
        with path.open("rb") as handle, pq.ParquetFile(handle) as file:
            table = file.read()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError, NotImplementedError) as error:
        raise InputError(f"{source}: not readable as Parquet ({' '.join(str(error).split())[:120]})") from error
    unfit: dict[str, Unfit] = {}
    arrays: dict[int, pa.Array] = {}
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        texts = _texts(column, name, unfit, source)
        arrays[place] = texts if isinstance(texts, pa.ChunkedArray) else text_column(texts, source, name, "row")
    frame = frame_of({str(place): array for place, array in arrays.items()}).set_axis(table.column_names, axis=1)
    if not len(frame):
        raise InputError(f"{source}: holds no rows")
    numbers = np.arange(1, len(frame) + 1)
    return Cells(source, "parquet", frame, numbers, numbers, "row", unfit)


def _texts(column: pa.ChunkedArray, name: str, unfit: dict[str, Unfit], source: str) -> Any:
    """The values of a column as text: an array, or a list."""
    kind = column.type
    try:
        if pa.types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind) or _is_text(kind):
            return column.cast(pa.large_string())
        if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
            return column.cast(pa.large_string())
        values = _short(column) if pa.types.is_float16(kind) or pa.types.is_float32(kind) else column.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InputError(f"{source}: column '{name}' is not readable ({' '.join(str(error).split())[:120]})") from error
    texts: list[str | None] = []
    for row, value in enumerate(values):
        text, what = _text(value)
        if what is not None:
            unfit.setdefault(name, Unfit(row, what))
        texts.append(text)
    return texts


def _short(column: pa.ChunkedArray) -> list[float | None]:
    """The numbers of a column of few digits as they were written: 0.7, not what its bits are in a longer number."""
    return [None if number is None else float(str(number)) for number in map(_scalar, column)]


def _scalar(value: pa.Scalar) -> Any:
    number = value.as_py()
    if number is None:
        return None
    return np.float16(number) if pa.types.is_float16(value.type) else np.float32(number)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _text(value: Any) -> tuple[str | None, str | None]:
    if value is None or value != value:
        return None, None
    if isinstance(value, float):
        return number_text(value), None if abs(value) < float("inf") else NOT_FINITE
    if isinstance(value, bytes):
        return value.hex(), BYTES
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str), NESTED
    return str(value), None
