"""What a judge has cost, kept beside the tables in one file that all commands of a study share.

A line is written before a call is sent and before its answer is used, so that a process that is killed leaves at least
what it was billed. Who writes holds the file's lock, has read what others wrote, and so knows what is left of a limit.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import IO, NamedTuple

from slmsafety.errors import InputError, cut
from slmsafety.judging.llm.budget import NANO, Account
from slmsafety.records.files import naming, sync_folder, try_lock

_NAME = "ledger"
_HEAD = b"# billionths of a dollar: open CALL MOST, sent CALL 0, paid CALL COST, lost CALL COST (of a killed process)\n"
# Seconds after which what was written is on disk at the latest; an answer waits for it, a call that is sent does not.
_SYNC_EVERY = 0.05


class Standing(NamedTuple):
    """What a ledger says, in billionths of a dollar.

    Attributes
    ----------
    paid, sent, unsent : int
        What ended calls have cost, and the most that open ones can: sent (those of batches too), or not sent yet.
    sent_calls : int
        How many are sent and open.
    lost : int
        What of the paid are calls of killed processes, counted at the most they could be.
    """

    paid: int
    sent: int
    unsent: int
    sent_calls: int
    lost: int = 0


class Ledger(Account):
    """An account on disk: `ledger` in a judge's folder, which holds too what runs before it have noted (*.txt).

    Each process that writes holds a lock on a file WRITER.lock, which tells the others that its open calls may still
    end. Calls of a process that was killed are counted at their most expensive where they were sent, at nothing where
    they were not. Without locks (some network disks) no limit can be kept, and killed calls stay set aside.
    """

    def __init__(self, folder: Path) -> None:
        """Take the judge's folder; it is made with the first entry."""
        super().__init__()
        self._folder, self._path = folder, folder / _NAME
        self.paid = _noted_before(folder)
        self._file: IO[bytes] | None = None
        self._alive: IO[bytes] | None = None
        self._read = 0  # bytes
        self._turns, self._locked = 0, True
        self._untold = (0, 0)
        self._unsynced, self._syncing, self._ending = False, Lock(), Event()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the ledger's lock, with what others have written taken in."""
        with self._mutex:
            if self._turns:
                yield
                return
            file = self._opened()
            self._turns += 1
            try:
                self._locked = try_lock(file.fileno(), fcntl.LOCK_EX) is not None
                self._take_in(file)
                if self._alive is None:
                    self._begin()
                yield
            finally:
                self._turns -= 1
                if self._locked:
                    fcntl.flock(file, fcntl.LOCK_UN)

    def reserve(self, calls: Mapping[str, int], limit: int | None, sent: bool = False) -> bool:
        """Set calls aside, as `Account.reserve` does; InputError for a limit on a file system without locks."""
        with self.turn():
            if limit is not None and not self._locked:
                raise InputError(f"{self._path}: this file system has no locks, without which no max_cost can be kept")
            return super().reserve(calls, limit, sent)

    def others_work(self) -> bool:
        """Return whether another process that is alive has calls open; those of killed ones are counted first."""
        with self.turn():
            return bool(self._count_killed())

    def lost(self) -> tuple[int, int]:
        """Return how many calls were found sent by killed processes, and what they were counted at; told once."""
        with self.turn():
            found, self._untold = self._untold, (0, 0)
        return found

    def sync(self) -> None:
        """Return when all that was written so far is on disk."""
        with self._syncing:
            if self._unsynced and self._file is not None:
                self._unsynced = False
                try:
                    with naming(self._path):
                        os.fsync(self._file.fileno())
                except OSError:
                    self._unsynced = True
                    raise

    def close(self) -> None:
        """Force all to disk and close the file; what is still open counts as a killed process's."""
        if self._file is None:
            return
        self._ending.set()
        try:
            self.sync()
        finally:
            with self._mutex, self._syncing:
                self._file.close()
                alive, self._file, self._alive = self._alive, None, None
                if alive is not None:
                    with alive:
                        Path(alive.name).unlink(missing_ok=True)

    def look(self) -> Standing:
        """Return what the file says now, without a lock, and without counting what killed processes have left."""
        with self._mutex, suppress(FileNotFoundError), self._path.open("rb", buffering=0) as file:
            self._locked = False
            self._take_in(file)
        sent = [cost for name, cost in self._open.items() if name in self._sent or "/" in name]
        return Standing(self.paid, sum(sent), self.reserved - sum(sent), len(sent), self.lost_cost)

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            with naming(self._path):
                self._file = self._path.open("a+b", buffering=0)
            self._ending.clear()
        return self._file

    def _begin(self) -> None:
        """Join those that write: with a lock of one's own, and after counting what killed ones have left."""
        path = self._folder / f"{self.writer}.lock"
        with naming(path):
            self._alive = path.open("ab")
        try_lock(self._alive.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        if self._read == 0:
            self._append(_HEAD)
            sync_folder(self._folder)
        self._count_killed()
        for other in self._folder.glob("*.lock"):
            if other != path:
                self._killed(other.stem)  # which removes what one without open calls has left
        Thread(target=self._sync_often, name=f"ledger {self._path}", daemon=True).start()

    def _count_killed(self) -> list[str]:
        """Count the open calls of processes that are gone, and return those of others that are not."""
        writers: dict[str, list[str]] = {}
        for name in self._open:
            if "/" not in name:
                writers.setdefault(name.partition(".")[0], []).append(name)
        writers.pop(self.writer, None)
        for writer in list(writers):
            if not self._killed(writer):
                continue
            names = writers.pop(writer)
            costs = {name: self._open[name] if name in self._sent else 0 for name in names}
            sent = sum(name in self._sent for name in names)
            self._untold = (self._untold[0] + sent, self._untold[1] + sum(costs.values()))
            self._write([("lost", name, cost) for name, cost in costs.items()])
        return [name for names in writers.values() for name in names]

    def _killed(self, writer: str) -> bool:
        """Whether a process that has written is gone; its lock's file goes too."""
        path = self._folder / f"{writer}.lock"
        with suppress(FileNotFoundError), path.open("r+b") as handle:
            if not try_lock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB):
                return False
            path.unlink(missing_ok=True)
        return True

    def _take_in(self, file: IO[bytes]) -> None:
        """Read what was written since the last time. With the lock, a line without its end is a killed writer's."""
        while data := os.pread(file.fileno(), 1 << 20, self._read):
            whole = data[: data.rfind(b"\n") + 1]
            if not whole:
                if self._locked:
                    os.ftruncate(file.fileno(), self._read)
                return
            self._read_lines(whole)
            self._read += len(whole)

    def _read_lines(self, data: bytes) -> None:
        for line in data.splitlines():
            if line.startswith(b"#"):
                continue
            try:
                what, name, cost = line.decode("ascii").split(" ")
                if what not in ("open", "sent", "paid", "lost") or int(cost) < 0:
                    raise ValueError
                self._apply(what, name, int(cost))
            except (ValueError, KeyError) as error:
                raise InputError(
                    f"{self._path}: '{cut(line.decode('ascii', 'replace'))}' is no entry that can stand here (open, "
                    "sent, paid or lost, a call and billionths of a dollar); remove the line, or the file to begin anew"
                ) from error

    def _write(self, entries: list[tuple[str, str, int]]) -> None:
        if entries:
            self._append("".join(f"{what} {name} {cost}\n" for what, name, cost in entries).encode("ascii"))
            if self._locked:
                super()._write(entries)
            else:
                self._take_in(self._opened())  # others may have written before it

    def _append(self, data: bytes) -> None:
        file = self._opened()
        left = data
        try:
            with naming(self._path):
                while left:
                    left = left[file.write(left) :]
        except BaseException:  # a full disk, an interrupt: the next entry must not follow half of this one
            if self._locked:
                os.ftruncate(file.fileno(), self._read)
            raise
        if self._locked:
            self._read += len(data)
        self._unsynced = True

    def _sync_often(self) -> None:
        while not self._ending.wait(_SYNC_EVERY):
            with suppress(OSError):  # the next `sync` raises it
                self.sync()


def look(folder: Path) -> Standing:
    """Return what the ledger in a judge's folder says, also while others write it; nothing is changed."""
    return Ledger(folder).look()


def _noted_before(folder: Path) -> int:
    """The dollars that runs from before there was a ledger have noted: a number a line, in a file a run."""
    lines = [line for path in folder.glob("*.txt") for line in path.read_text().split("\n")[:-1]]
    return round(sum(map(float, lines)) * NANO)
