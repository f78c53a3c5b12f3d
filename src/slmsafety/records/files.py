"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write that takes the place of `path` when the block ends, and is gone when the block fails.

    A reader sees the old file or the new one. Both the bytes and the renaming are on disk when the block has ended.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as handle:
        temporary = Path(handle.name)
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
            raise


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
