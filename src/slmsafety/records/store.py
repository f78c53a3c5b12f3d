"""The store: an append-only JSONL journal per writer, and one Parquet file per finished partition.

A partition is one file of a table, such as `responses/harmbench/gpt2-small.parquet`. While it is being filled, each
writer appends to a journal of its own in the folder `gpt2-small.journal/`; a record counts once its whole line,
newline included, is on disk. `compact` folds the journals into the Parquet file by an atomic rename and then deletes
them: at every moment a row is in at least one of the two, and reading drops the copies. No lock and no shared file is
used, so several machines can fill a partition on a network file system.
"""

from __future__ import annotations

import json
import os
import re
import socket
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from slmsafety.errors import InputError
from slmsafety.records.schema import TABLES, Table, check, typed

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


@dataclass(frozen=True)
class Partition:
    """One file of a table below a study's folder; `names` fills the table's `files`, such as (suite, model)."""

    root: Path
    table: Table
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse names that are not plain file names."""
        for column, name in zip(self.table.files, self.names, strict=True):
            if not _SAFE_NAME.match(name):
                raise InputError(f"{column} '{name}' cannot name a file; use letters, digits, dot, dash and underscore")

    @property
    def parquet(self) -> Path:
        """The file of the finished rows."""
        return self.root.joinpath(self.table.name, *self.names[:-1], f"{self.names[-1]}.parquet")

    @property
    def journal(self) -> Path:
        """The folder of the writers' journals."""
        return self.parquet.with_suffix("").with_name(self.names[-1] + ".journal")

    def read(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the rows of the partition sorted by key, with the table's dtypes (empty when there is none).

        `columns` limits what is read; the key is always read. A row that is held more than once (a crash between
        rename and deletion, or a retried error) counts once: a later row wins over an earlier one, a finished row
        over an error. A torn last journal record is dropped; any other damage raises InputError naming the file.
        """
        wanted = list(dict.fromkeys([*self.table.key, *(columns or self.table.columns)]))
        extra = [c for c in ("status",) if c in self.table.columns and c not in wanted]
        frames = [self._read_parquet([*wanted, *extra])] if self.parquet.exists() else []
        rows = [row for path in self._journals() for row in read_journal(path)[0]]
        frames.append(typed(pd.DataFrame(rows), self.table, [*wanted, *extra]))
        return _one_per_key(pd.concat(frames, ignore_index=True), self.table)[wanted]

    def torn(self) -> int:
        """Return how many journals end in a torn record (each is one row that will be made again)."""
        return sum(read_journal(path)[1] for path in self._journals())

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """Open a new journal for this process; nothing else ever appends to it."""
        self.journal.mkdir(parents=True, exist_ok=True)
        path = self.journal / f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"
        with path.open("xb", buffering=0) as handle:
            yield Writer(handle, self.table, str(path))

    def compact(self) -> Path:
        """Fold all journals into the Parquet file, sorted by key, and delete them; return the file's path."""
        journals = self._journals()
        if journals or not self.parquet.exists():
            self.replace(self.read())
        for path in journals:
            path.unlink()
        if self.journal.exists() and not any(self.journal.iterdir()):
            self.journal.rmdir()
        return self.parquet

    def replace(self, frame: pd.DataFrame) -> None:
        """Write the whole partition at once, atomically."""
        frame = check(frame, self.table, str(self.parquet)).sort_values(list(self.table.key), ignore_index=True)
        self.parquet.parent.mkdir(parents=True, exist_ok=True)
        partial = self.parquet.with_name(f".{self.parquet.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
        try:
            with partial.open("wb") as handle:
                pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), handle)
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(partial, self.parquet)
        finally:
            partial.unlink(missing_ok=True)

    def _journals(self) -> list[Path]:
        """The journals, oldest first, so that a later row wins."""
        found = self.journal.glob("*.jsonl") if self.journal.exists() else []
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def _read_parquet(self, columns: list[str]) -> pd.DataFrame:
        try:
            present = set(pq.read_schema(self.parquet).names)
            frame = pd.read_parquet(self.parquet, columns=[c for c in columns if c in present])
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{self.parquet}: torn or not a Parquet file; delete it to make its rows again") from error
        return typed(frame, self.table, columns)


class Writer:
    """Appends rows to one journal; a row is durable when `append` returns."""

    def __init__(self, handle: IO[bytes], table: Table, source: str) -> None:
        """Take an unbuffered file that no one else writes."""
        self._handle, self._table, self._source = handle, table, source

    def append(self, frame: pd.DataFrame) -> None:
        """Append finished rows in one write and force them to disk; a bad row raises InputError and nothing is kept."""
        frame = check(frame, self._table, self._source).astype(object)
        records = frame.where(frame.notna(), None).to_dict("records")
        data = "".join(json.dumps(record, default=_plain) + "\n" for record in records).encode("ascii")
        while data:
            data = data[self._handle.write(data) :]
        os.fsync(self._handle.fileno())


def read_journal(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return a journal's records and the number of torn last records (0 or 1).

    Raises InputError naming the file and line when a record before the end is damaged.
    """
    *lines, rest = path.read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise InputError(f"{path}: line {number} is damaged; delete the file to make its rows again") from error
    return records, int(bool(rest))


def partitions(root: Path, table_name: str) -> list[Partition]:
    """Return the partitions of a table that have any rows below a study's folder, sorted by name."""
    table = TABLES[table_name]
    below = root / table_name
    depth = len(table.files)
    pattern = "/".join(["*"] * depth)
    found = {
        (*path.relative_to(below).parent.parts, path.name.removesuffix(path.suffix))
        for path in below.glob(pattern)
        if path.suffix in (".parquet", ".journal") and not path.name.startswith(".")
    }
    return [Partition(root, table, names) for names in sorted(found)]


def read_table(root: Path, table_name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return all rows of a table sorted by key, reading only `columns` (and the key)."""
    table = TABLES[table_name]
    frames = [part.read(columns) for part in partitions(root, table_name)]
    if not frames:
        wanted = list(dict.fromkeys([*table.key, *(columns or table.columns)]))
        return typed(pd.DataFrame(), table, wanted)
    return pd.concat(frames, ignore_index=True).sort_values(list(table.key), ignore_index=True)


def _one_per_key(frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    """Keep one row per key: finished rows before errors, then the latest; sorted by key."""
    key = list(table.key)
    if "status" in frame.columns:
        failed = (frame["status"] == "error").rename("failed")
        order = pd.DataFrame({"failed": failed, "age": range(len(frame))}).sort_values(
            ["failed", "age"], ascending=[False, True]
        )
        frame = frame.loc[order.index]
    return frame.drop_duplicates(key, keep="last").sort_values(key, ignore_index=True)


def _plain(value: Any) -> Any:
    """Turn a numpy scalar into the Python number that JSON writes."""
    return value.item()
