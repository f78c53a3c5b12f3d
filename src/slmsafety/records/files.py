"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from slmsafety.errors import InputError

# What `tempfile` puts at the end of a name.
_RANDOM = re.compile(r"\.[a-z0-9_]{8}\Z")


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write that takes the place of `path` when the block ends, and is gone when the block fails.

    A reader sees the old file or the new one. Both the bytes and the renaming are on disk when the block has ended.
    An OSError names the file. What killed writers of the same file have left goes first.
    """
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_strays(path.parent, path.name)
        handle = _temporary(path)
        temporary = Path(handle.name)
        held = os.dup(handle.fileno())  # the lock outlives the handle, until the file has its name
        try:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
            handle.close()
            temporary.chmod(0o644)
            os.replace(temporary, path)
            sync_folder(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            with suppress(OSError):  # what is left in its buffer finds no room either
                handle.close()
            raise
        finally:
            os.close(held)


def _temporary(path: Path) -> IO[bytes]:
    """Open a locked file beside `path`; one that `remove_strays` took before it was locked is made again."""
    while True:
        handle = tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False)  # noqa: SIM115
        if try_lock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB) is not False and os.path.exists(handle.name):
            return handle
        handle.close()


def remove_strays(folder: Path, name: str = "") -> None:
    """Remove what killed writers of a file of this name (of any, without one) have left beside it.

    A file that is being written is locked, and stays; so do all on a file system without locks.
    """
    for stray in folder.glob(f".{name}*"):
        if not _RANDOM.search(stray.name) or (name and _RANDOM.sub("", stray.name) != f".{name}"):
            continue
        with suppress(FileNotFoundError), stray.open("r+b") as handle:
            if try_lock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB):
                stray.unlink()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an OSError of the block the file that it is about, where it names none: a full disk knows no names."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # of a library: its words are all there is
            raise OSError(errno.EIO, str(error), str(path)) from error
        if error.filename is None:
            error.filename = str(path)
        raise


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8; InputError naming the file where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: cannot be read as a text in UTF-8 ({reason})") from error


def write_atomic(path: Path, content: bytes) -> Path:
    """Write the bytes to `path` as `atomic_file` does, and return the path."""
    with atomic_file(path) as handle:
        handle.write(content)
    return path


def sync_folder(folder: Path) -> None:
    """Force what a folder lists to disk, such as a rename, before what it replaces is deleted."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def try_lock(handle: int, how: int) -> bool | None:
    """Return whether an open file's lock was got (`fcntl.flock`); None where the file system has no locks.

    The lock goes with the file's closing, or with its process.
    """
    try:
        fcntl.flock(handle, how)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True
