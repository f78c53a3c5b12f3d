"""The files of numbers in this folder."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources

import pandas as pd

_FOLDER = resources.files("slmsafety.published")


def read_csv(name: str) -> pd.DataFrame:
    """Return one of the files as a table."""
    with _FOLDER.joinpath(name).open(encoding="utf-8") as handle:
        return pd.read_csv(handle)


def file_bytes(names: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of files, each by its name with `published/` before it."""
    return {f"published/{name}": _FOLDER.joinpath(name).read_bytes() for name in names}
