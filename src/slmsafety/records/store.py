"""The store: an append-only JSONL journal per writer, and one Parquet file per finished partition.

A partition is one file of a table, such as `responses/harmbench/gpt2-small.parquet`. While it is being filled, each
writer appends to a journal of its own in the folder `gpt2-small.journal/`; a record counts once its whole line,
newline included, is on disk. `compact` folds the journals into the Parquet file by an atomic rename and then deletes
them: at every moment a row is in at least one of the two, and reading drops the copies.

Several processes or machines can fill a partition at once. A writer never waits for another one: it holds a lock on
its own journal, which tells `compact` to leave that file, and a lock on the partition is held only to open a journal
and to fold. Killed processes leave no lock. A file system without locks loses nothing: there no journal is deleted.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from slmsafety.errors import InputError, cut, unknown
from slmsafety.records.files import atomic_file, naming, remove_strays
from slmsafety.records.schema import TABLES, Table, check, typed

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
# Files take 255, and the store adds some of its own.
_NAME_LENGTH = 200
# The file of rows whose name is blank, which no name can be: names start with a letter or a digit.
_BLANK_NAME = "_"


@dataclass(frozen=True)
class Partition:
    """One file of a table below a study's folder; `names` fills the table's `files`, such as (suite, model)."""

    root: Path
    table: Table
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse names that are not plain file names."""
        for column, name in zip(self.table.files, self.names, strict=True):
            if not _SAFE_NAME.match(name) and not (name == "" and column in self.table.blank):
                raise InputError(
                    f"{column} '{cut(name)}' cannot name a file; use letters, digits, dot, dash and underscore"
                )
            if len(name) > _NAME_LENGTH:
                raise InputError(f"{column} '{cut(name)}' cannot name a file; use at most {_NAME_LENGTH} characters")

    @property
    def parquet(self) -> Path:
        """The file of the finished rows."""
        return self.root.joinpath(self.table.name, *self.names[:-1], f"{self._file_name}.parquet")

    @property
    def journal(self) -> Path:
        """The folder of the writers' journals."""
        return self.parquet.with_name(f"{self._file_name}.journal")

    @property
    def _file_name(self) -> str:
        return self.names[-1] or _BLANK_NAME

    def read(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the rows of the partition sorted by key, with the table's dtypes (empty when there is none).

        `columns` limits what is read; the key is always read. A row that is held more than once (a crash between
        rename and deletion, or a retried error) counts once: a later row wins over an earlier one, a finished row
        over an error. A torn last journal record is dropped; any other damage raises InputError naming the file.
        """
        # Journals come first: one that another process folds meanwhile is in the Parquet file when that is read.
        wanted = list(dict.fromkeys([*self.table.key, *(columns or self.table.columns)]))
        extra = [c for c in ("status",) if c in self.table.columns and c not in wanted]
        journals = [self._read_journal(path, [*wanted, *extra]) for path in self._journals()]
        finished = [self._read_parquet([*wanted, *extra])] if self.parquet.exists() else []
        if finished and not journals:  # `replace` has sorted it, with each key once
            return finished[0][wanted]
        frames = [*finished, *journals] or [typed(pd.DataFrame(), self.table, [*wanted, *extra])]
        return _one_per_key(pd.concat(frames, ignore_index=True), self.table)[wanted]

    def count(self, **ids: str) -> int:
        """Return how many rows have these ids, such as generation_id=...; only the ids are read."""
        if self._journals():
            rows = self.read(list(ids))
        elif not self.parquet.exists():
            return 0
        elif not ids:
            with self._finished() as file:
                return int(file.metadata.num_rows)
        else:
            rows = self._read_parquet(list(ids))
        return int((rows[list(ids)] == pd.Series(ids, dtype="str")).all(axis=1).sum())

    def has_values(self, column: str) -> bool:
        """Return whether any row may have a value in a column: False where the finished rows' file says that none has.

        Little more than that file's end is read, so that rows of no use need not be.
        """
        if self._journals() or not self.parquet.exists():
            return bool(self._journals())
        with self._finished() as file:
            place = file.schema_arrow.get_field_index(column)
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            counts = [(group.num_rows, group.column(place).statistics) for group in groups] if place >= 0 else []
        return any(held is None or held.null_count != rows for rows, held in counts)

    def torn(self) -> int:
        """Return how many journals end in a torn record; its rows, never reported as finished, will be made again."""
        return sum(read_journal(path)[1] for path in self._journals())

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """Open a new journal for this process; nothing else ever appends to it."""
        with self._alone():
            self.journal.mkdir(parents=True, exist_ok=True)
            remove_strays(self.parquet.parent, self.parquet.name)
            path = self.journal / f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.{self._next()}.jsonl"
            handle = path.open("xb", buffering=0)
            _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with handle:
            yield Writer(handle, self, str(path))

    def compact(self) -> Path:
        """Fold all journals into the Parquet file, sorted by key, and return the file's path.

        The journals are deleted, but for those that another process still writes.
        """
        with self._alone() as alone:
            remove_strays(self.parquet.parent, self.parquet.name)
            journals = self._journals()
            ended = [path for path in journals if alone and not _in_use(path)]  # known before they are read
            if journals or not self.parquet.exists():
                self.replace(self.read())
            for path in ended:
                path.unlink()
            if alone and self.journal.exists() and not any(self.journal.iterdir()):
                self.journal.rmdir()
        return self.parquet

    def replace(self, frame: pd.DataFrame) -> None:
        """Write the whole partition at once, atomically; a bad row raises InputError and nothing is written."""
        frame = sorted_by(self.check(frame, str(self.parquet)), self.table.key)
        with atomic_file(self.parquet) as handle:
            pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), handle)

    def check(self, frame: pd.DataFrame, source: str) -> pd.DataFrame:
        """Return the frame as `schema.check` does; a row of another suite, model or judge raises InputError too."""
        frame = check(frame, self.table, source)
        for column, name in zip(self.table.files, self.names, strict=True):
            strange = (frame[column] != name).to_numpy()
            if strange.any():
                row = int(strange.argmax())
                raise InputError(f"{source}: row {row} has {column} '{frame[column].iloc[row]}'; valid here: '{name}'")
        return frame

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Hold the partition's lock; False where the file system has none."""
        self.parquet.parent.mkdir(parents=True, exist_ok=True)
        with self.parquet.with_name(f".{self._file_name}.lock").open("ab") as handle:
            yield _lock(handle, fcntl.LOCK_EX)

    def _journals(self) -> list[Path]:
        """The journals in the order of their numbers, so that a later row wins.

        Those of before journals had numbers come first, in the order of their last change.
        """
        found = []
        for path in self.journal.glob("*.jsonl"):
            number, changed = _number(path), 0
            with suppress(FileNotFoundError):  # folded by another process
                if number == 0:
                    changed = path.stat().st_mtime_ns
                found.append((number, changed, path.name, path))
        return [path for *_, path in sorted(found)]

    def _next(self) -> int:
        """The number of the next journal; to be asked with the partition's lock held."""
        return 1 + max([_number(path) for path in self.journal.glob("*.jsonl")], default=0)

    def _read_journal(self, path: Path, columns: list[str]) -> pd.DataFrame:
        try:
            rows = read_journal(path)[0]
        except FileNotFoundError:
            rows = []
        try:
            # As objects: pandas would read a whole number beside a missing one as a float.
            frame = typed(pd.DataFrame(rows, dtype=object), self.table, columns)
            if frame[list(self.table.key)].isna().to_numpy().any():
                raise ValueError("a row without its key")
            return frame
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}: holds no rows of {self.table.name}; delete it to make its rows again") from error

    def _read_parquet(self, columns: list[str]) -> pd.DataFrame:
        with self._finished() as file:
            present = set(file.schema_arrow.names)
            # A column that the file lacks reads as what another one says.
            lacking = [d for c, d in self.table.defaults.items() if c in columns and c not in present]
            sources = [column for default in lacking for column in default.columns]
            frame = file.read(columns=[c for c in dict.fromkeys([*columns, *sources]) if c in present]).to_pandas()
        return typed(frame, self.table, columns)

    @contextmanager
    def _finished(self) -> Iterator[pq.ParquetFile]:
        """Open the file of the finished rows; what is wrong with it becomes an InputError."""
        try:
            # Opened once: by its path, a reader could take the metadata of one file and the pages of its successor.
            with self.parquet.open("rb") as handle, pq.ParquetFile(handle) as file:
                yield file
        except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # what the system refuses to read may be whole
            raise InputError(f"{self.parquet}: torn or not a Parquet file; delete it to make its rows again") from error


class Writer:
    """Appends rows to one journal; a row is durable when `append` returns."""

    def __init__(self, handle: IO[bytes], part: Partition, source: str) -> None:
        """Take an unbuffered file that no one else writes."""
        self._handle, self._part, self._source = handle, part, source

    def append(self, frame: pd.DataFrame) -> None:
        """Append finished rows in one write and force them to disk; a bad row raises InputError and nothing is kept."""
        frame = self._part.check(frame, self._source).astype(object)
        records = frame.where(frame.notna(), None).to_dict("records")
        data = "".join(json.dumps(record, default=_plain) + "\n" for record in records).encode("ascii")
        start = self._handle.tell()
        try:
            with naming(Path(self._source)):
                while data:
                    data = data[self._handle.write(data) :]
                os.fsync(self._handle.fileno())
        except BaseException:  # a full disk, an interrupt: the next record must not follow half of this one
            self._handle.truncate(start)
            self._handle.seek(start)
            raise


def read_journal(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return a journal's records and the number of torn last records (0 or 1).

    Raises InputError naming the file and line when a record before the end is damaged; FileNotFoundError when the
    journal has just been folded.
    """
    *lines, rest = path.read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(dict(json.loads(line)))
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: line {number} is damaged; delete the file to make its rows again") from error
    return records, int(bool(rest))


def partitions(root: Path, table_name: str) -> list[Partition]:
    """Return the partitions of a table that have any rows below a study's folder, sorted by name.

    Raises InputError for a name that is no table.
    """
    if table_name not in TABLES:
        raise unknown("table", table_name, TABLES)
    table = TABLES[table_name]
    below = root / table_name
    depth = len(table.files)
    pattern = "/".join(["*"] * depth)
    found = {
        (*path.relative_to(below).parent.parts, path.name.removesuffix(path.suffix))
        for path in below.glob(pattern)
        if path.suffix in (".parquet", ".journal") and not path.name.startswith(".")
    }
    return [Partition(root, table, (*names[:-1], names[-1].removeprefix(_BLANK_NAME))) for names in sorted(found)]


def read_table(root: Path, table_name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return all rows of a table sorted by key, reading only `columns` (and the key)."""
    return read_partitions(partitions(root, table_name), table_name, columns)


def read_partitions(parts: Sequence[Partition], table_name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return all rows of some partitions of a table sorted by key, reading only `columns` (and the key)."""
    frames = [part.read(columns) for part in parts]
    table = TABLES[table_name]
    if not frames:
        return typed(pd.DataFrame(), table, list(dict.fromkeys([*table.key, *(columns or table.columns)])))
    return sorted_by(pd.concat(frames, ignore_index=True), table.key)


def sorted_by(frame: pd.DataFrame, key: Sequence[str]) -> pd.DataFrame:
    """Return the frame sorted by its key columns, numbered anew; names are compared once, not once a row."""
    codes = [pd.factorize(frame[column], sort=True)[0] for column in key]
    return frame.iloc[np.lexsort(codes[::-1])].reset_index(drop=True)


def _one_per_key(frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    """Keep one row per key: finished rows before errors, then the latest; sorted by key."""
    key = list(table.key)
    if "status" in frame.columns:
        failed = (frame["status"] == "error").rename("failed")
        order = pd.DataFrame({"failed": failed, "age": range(len(frame))}).sort_values(
            ["failed", "age"], ascending=[False, True]
        )
        frame = frame.loc[order.index]
    return sorted_by(frame.drop_duplicates(key, keep="last"), key)


def _number(journal: Path) -> int:
    """The number of a journal, from 1; 0 for one of before they had any."""
    number = Path(journal.stem).suffix.removeprefix(".")
    return int(number) if number.isdecimal() else 0


def _lock(handle: IO[bytes], how: int) -> bool:
    """Whether an open file's lock was got; it goes with the file's closing, or with its process."""
    try:
        fcntl.flock(handle, how)
    except OSError:
        return False
    return True


def _in_use(path: Path) -> bool:
    """Whether the writer of a journal is still there."""
    with path.open("ab") as handle:
        return not _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _plain(value: Any) -> Any:
    """Turn a numpy scalar into the Python number that JSON writes."""
    return value.item()
