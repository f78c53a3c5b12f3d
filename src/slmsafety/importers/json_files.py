"""JSON files of other tools, read into typed rows with errors of one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from slmsafety.errors import InputError


class Record(BaseModel):
    """What is needed of a JSON object; its other fields are not read."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


R = TypeVar("R", bound=Record)


def read_json(path: Path, each: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """Return a file's content; `each` may replace every object as soon as it is read, to keep less of a large file.

    NaN and Infinity are read as numbers, since Python writes them. Raises InputError naming the file.
    """
    try:
        with path.open(encoding="utf-8-sig") as handle:
            return json.load(handle, object_hook=each)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise InputError(f"{path}: not readable as JSON in UTF-8 ({' '.join(str(error).split())})") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def record(kind: type[R], value: Any, place: str) -> R:
    """Return the value as a record; InputError says which field is missing or of another kind, and where."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{place}: {where or 'it'}: {first['msg'][0].lower()}{first['msg'][1:]}") from error
