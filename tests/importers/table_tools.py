"""A table of judged replies as a study reads it, for tests: a file of bytes and an entry of `judged_tables`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.importers.judged_table import JudgedTable, read_judged_table
from slmsafety.importers.rules import by_rules
from slmsafety.importers.tables import Imported
from slmsafety.params.imports import ScoresParams, TableEntry


def read(path: Path, data: bytes | str, **entry: Any) -> JudgedTable:
    """Write a file and read it as an entry of a study says."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    found = TableEntry(path=str(path), **entry)
    return read_judged_table(path, found.options(ScoresParams()))


def ruled(table: JudgedTable) -> Imported:
    """The rows as the store takes them."""
    (found,) = by_rules([table.imported], lambda suite: False)
    return found


def verdicts(table: JudgedTable) -> list[tuple[Any, ...]]:
    """Of each judgment: instance, model, judge, the label or else the status, and the reply."""
    found = ruled(table)
    key = ["suite", "instance_id", "model", "generation_id", "sample"]
    rows = found.judgments.merge(found.responses[[*key, "response"]], on=key, how="left", validate="many_to_one")
    said = rows["label"].astype(object).where(rows["label"].notna(), rows["status"])
    texts = rows["response"].astype(object).where(rows["response"].notna(), None)
    return list(zip(rows["instance_id"], rows["model"], rows["judge"], said, texts, strict=True))


def column(table: JudgedTable, name: str, of: str = "judgments") -> list[Any]:
    """A column's values as Python has them, None where missing."""
    values = getattr(ruled(table), of)[name]
    return [None if pd.isna(value) else value for value in values]
