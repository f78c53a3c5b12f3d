"""A study's imports: each is a folder of tables that takes its place whole, and the highest number is read.

`runs/<study>/imports/<number>/` holds prompts/, responses/ and judgments/ of one import. It is written beside, as
`.partial-<pid>-<hex>`, and renamed when every byte of it is on disk: a reader sees all of the old import or all of the
new one, whatever ends the writer. What the study makes of imported text itself (judgments of its own judges, metrics)
lies directly below runs/<study>/, as in any study, and outlives an import.

An import replaces the one before, which stays until the next one; a reader keeps the one that it has opened for as long
as it needs it. Studies imported before there were numbers have their tables directly below runs/<study>/; they are read
until the next import, which removes them.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.records.files import sync_folder, try_lock
from slmsafety.records.schema import JUDGMENTS, PROMPTS, RESPONSES
from slmsafety.records.store import Partition, partitions, read_partitions

IMPORTED = (PROMPTS, RESPONSES, JUDGMENTS)
"""The tables that an import holds; all others are the study's own work."""

ASKED = "asked"
"""The file of an import that stands for how its sources were read; where it is not there, nothing is known of that."""
_LOCK = ".lock"
_PARTIAL = ".partial-"


@dataclass(frozen=True)
class OpenImport:
    """The newest import of a study when it was opened; it stays on disk for as long as this object lives.

    Attributes
    ----------
    folder : Path
        The study's folder, below which its own work lies.
    root : Path
        What the import's tables lie below: imports/<number>, or `folder` where nothing, or no numbered import, is.
    """

    folder: Path
    root: Path

    def partitions(self, table_name: str, own_judges: Collection[str] = ()) -> list[Partition]:
        """Return the partitions of a table, sorted by name.

        Parameters
        ----------
        table_name : str
            Prompts and replies are the import's, metrics the study's own, judgments both.
        own_judges : collection of str
            The judges that the study runs itself: of the judgments directly below its folder only theirs count, as
            those of others are left from an import before there were numbers.
        """
        if table_name not in [table.name for table in IMPORTED]:
            return partitions(self.folder, table_name)
        found = partitions(self.root, table_name)
        if table_name == JUDGMENTS.name and self.root != self.folder:
            found += [part for part in partitions(self.folder, table_name) if part.names[1] in own_judges]
        return sorted(found, key=lambda part: part.names)


def open_import(folder: Path) -> OpenImport:
    """Return the newest import of the study in `folder`, to be read for as long as the result is kept."""
    while (root := import_root(folder)) is not None:
        try:
            handle = os.open(root / _LOCK, os.O_RDONLY)
        except FileNotFoundError:
            if root.exists():  # a copy without the lock, which no import will remove
                return OpenImport(folder, root)
            continue  # replaced meanwhile
        if try_lock(handle, fcntl.LOCK_SH) is False or not root.exists():
            os.close(handle)
            continue
        found = OpenImport(folder, root)
        weakref.finalize(found, os.close, handle)
        return found
    return OpenImport(folder, folder)


def import_root(folder: Path) -> Path | None:
    """Return the folder of a study's newest import; None without one, or with one of before there were numbers."""
    numbers = _numbers(folder / "imports")
    return folder / "imports" / str(numbers[-1]) if numbers else None


def asked_of(root: Path) -> str:
    """Return what stands for how the sources of an import were read; "" where it does not say."""
    try:
        return (root / ASKED).read_text("utf-8")
    except FileNotFoundError:
        return ""


def read_imported(folder: Path, table_name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the rows that a study's newest import holds of a table, sorted by key."""
    found = open_import(folder)
    return read_partitions(found.partitions(table_name), table_name, columns)


@contextmanager
def new_import(folder: Path, own_judges: Collection[str] = ()) -> Iterator[Path]:
    """Yield an empty folder for the tables of an import, which becomes the study's newest when the block ends.

    When the block fails, nothing of it is left and the import before is read as ever. Removes what no reader can need:
    imports before the previous one, what killed imports have left, and an import of before there were numbers (of the
    judgments beside it those of `own_judges`, which the study runs itself, are kept).

    Raises InputError while another process imports into the same study, and where the study's folder holds an own run,
    whose replies would be lost.
    """
    _refuse_own_run(folder)
    imports = folder / "imports"
    imports.mkdir(parents=True, exist_ok=True)
    with (imports / _LOCK).open("ab") as handle:
        alone = try_lock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        if alone is False:
            raise InputError(f"{folder}: another process imports into this study; wait until it has ended")
        if alone:
            _remove_partial(imports)
        partial = imports / f"{_PARTIAL}{os.getpid()}-{uuid.uuid4().hex[:8]}"
        try:
            partial.mkdir()
            (partial / _LOCK).touch()
            yield partial
            _sync(partial)
            newest = _take_number(partial)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        for synced in (imports, folder, folder.parent):
            sync_folder(synced)
        if alone:
            _remove_older(imports, newest)
        _remove_unnumbered(folder, own_judges)


def _numbers(imports: Path) -> list[int]:
    """The numbers of the imports that are there, ascending."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(int(entry.name) for entry in os.scandir(imports) if entry.name.isdecimal() and entry.is_dir())
    return []


def _take_number(partial: Path) -> int:
    """Rename a finished import to the next number, and return that."""
    number = max([0, *_numbers(partial.parent)])
    while True:
        number += 1
        target = partial.with_name(str(number))
        try:
            partial.rename(target)
        except OSError:
            if not target.exists():
                raise
            continue  # taken meanwhile, on a file system without locks
        return number


def _remove_older(imports: Path, newest: int) -> None:
    """Remove the imports before the previous one, but for those that are being read."""
    for number in [number for number in _numbers(imports) if number < newest][:-1]:
        old = imports / str(number)
        try:
            handle = os.open(old / _LOCK, os.O_RDWR)
        except FileNotFoundError:
            continue
        try:
            if try_lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
                _remove(old)
        finally:
            os.close(handle)


def _remove_partial(imports: Path) -> None:
    """Remove what killed imports have left; only an import that is alone may."""
    for stray in imports.glob(f"{_PARTIAL}*"):
        shutil.rmtree(stray)


def _remove_unnumbered(folder: Path, own_judges: Collection[str]) -> None:
    """Remove the tables of an import of before there were numbers, whose rows no one reads any more.

    Such an import has its prompts and replies there, which go last. Without them every judgment there is the study's
    own work, also of judges that its parameters do not name now: they may again, and calls were paid for.
    """
    tables = [folder / table.name for table in (PROMPTS, RESPONSES) if (folder / table.name).is_dir()]
    for judge in (folder / JUDGMENTS.name).glob("*/*") if tables else ():
        if judge.is_dir() and judge.name not in own_judges:
            shutil.rmtree(judge)
            with suppress(OSError):  # it holds other judges
                judge.parent.rmdir()
    for table in tables:
        _remove(table)
    with suppress(OSError):
        (folder / JUDGMENTS.name).rmdir()


def _remove(tree: Path) -> None:
    """Remove a folder whose name tells readers what it holds: it loses the name first, at once."""
    imports = tree.parent if tree.parent.name == "imports" else tree.parent / "imports"
    shutil.rmtree(tree.rename(imports / f"{_PARTIAL}old-{uuid.uuid4().hex[:8]}"))


def _refuse_own_run(folder: Path) -> None:
    """Raise InputError where the study's folder holds replies that the study made itself, which an import removes."""
    if not (folder / RESPONSES.name).exists():
        return
    for path in sorted((folder / "manifests").glob("*.json")):
        try:
            kind = json.loads(path.read_text(encoding="utf-8"))["resolved"]["kind"]
        except (OSError, ValueError, LookupError, TypeError):  # not a manifest of ours: it says nothing of the kind
            continue
        if kind == "run":
            raise InputError(
                f"{folder} holds an own run of this name ({path.name}); give the imported study another name"
            )


def _sync(tree: Path) -> None:
    """Force a tree's folders to disk; its files are written so that they are there already."""
    for folder, _, _ in os.walk(tree, topdown=False):
        sync_folder(Path(folder))
