"""kill -9 at any moment: nothing finished is lost or made again, and the end is that of an uninterrupted run."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slmsafety.records.schema import RESPONSES
from slmsafety.records.store import Partition

ROWS = 160
KILLS = 20

# Made rows go to a log of the test's own: "made" before a row is appended, "kept" once its append has returned.
CHILD = """
import os, signal, sys, time
from pathlib import Path
import pandas as pd
from slmsafety.records import store
from slmsafety.records.schema import RESPONSES

root, rows, die, moment = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
log = os.open(root / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
part = store.Partition(root / "run", RESPONSES, ("demo", "tiny"))

def note(word, key):
    os.write(log, f"{word} {key}\\n".encode())

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def dying(original, when, before):
    calls = 0
    def call(*given, **named):
        nonlocal calls
        if not when(*given):
            return original(*given, **named)
        calls += 1
        if calls < moment:
            return original(*given, **named)
        before(*given)
        kill()
    return call

class Torn:
    # A journal that takes half of a record's bytes, once, and then the process dies.
    def __init__(self, handle):
        self.handle, self.left = handle, moment
    def __getattr__(self, name):
        return getattr(self.handle, name)
    def write(self, data):
        self.left -= 1
        if self.left:
            return self.handle.write(data)
        self.handle.write(data[: len(data) // 2])
        os.fsync(self.handle.fileno())
        kill()

if die == "rename":
    store.os.replace = dying(os.replace, lambda *given: True, lambda *given: None)
if die == "delete":
    Path.unlink = dying(Path.unlink, lambda path, *given: path.suffix == ".jsonl", lambda *given: None)
if die == "deleted":
    Path.unlink = dying(Path.unlink, lambda path, *given: path.suffix == ".jsonl", Path.unlink)
if die == "lock":
    store._lock = dying(store._lock, lambda *given: True, store._lock)

note("start", os.getpid())
done = set(part.read(["instance_id"])["instance_id"])
todo = [f"{number:03d}" for number in range(rows) if f"{number:03d}" not in done]
for start in range(0, len(todo), 8):
    with part.writer() as writer:
        if die == "write":
            writer._handle = Torn(writer._handle)
        for key in todo[start : start + 8]:
            time.sleep(0.012)
            note("made", key)
            writer.append(pd.DataFrame([{
                "suite": "demo", "instance_id": key, "model": "tiny", "generation_id": "g", "response": key * 50,
                "prompt_tokens": int(key), "output_tokens": None if int(key) % 3 else 1, "finish_reason": "stop",
                "prompt_truncated": int(key) % 2 == 0, "meta": "{}",
            }]))
            note("kept", key)
    if start % 24 == 16:
        part.compact()
part.compact()
note("end", os.getpid())
"""


def _start(root: Path, rows: int, die: str = "never", moment: int = 0) -> subprocess.Popen[bytes]:
    root.mkdir(exist_ok=True)
    arguments = [str(root), str(rows), die, str(moment)]
    return subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stderr=subprocess.PIPE)


def _finish(root: Path, rows: int) -> None:
    child = _start(root, rows)
    _, errors = child.communicate(timeout=50)
    assert child.returncode == 0, errors.decode()


def _log(root: Path) -> list[list[str]]:
    path = root / "log"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def _part(root: Path) -> Partition:
    return Partition(root / "run", RESPONSES, ("demo", "tiny"))


def _none_made_twice(root: Path) -> int:
    """Assert that no row was made after its append had returned; return how many rows were made more than once."""
    kept: set[str] = set()
    made: list[str] = []
    for word, key in _log(root):
        if word == "made":
            assert key not in kept, f"row {key} was finished and made again"
            made.append(key)
        if word == "kept":
            kept.add(key)
    return len(made) - len(set(made))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("uninterrupted")
    _finish(root, ROWS)
    assert _part(root).read()["instance_id"].tolist() == [f"{number:03d}" for number in range(ROWS)]
    return root


def test_kills_at_random_moments(uninterrupted: Path, tmp_path: Path) -> None:
    root, rng, killed = tmp_path / "killed", random.Random(1337), 0
    while killed < KILLS:
        before = len(_log(root))
        child = _start(root, ROWS)
        while len(_log(root)) == before and child.poll() is None:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.16))
        child.kill()
        _, errors = child.communicate()
        assert child.returncode == -signal.SIGKILL, errors.decode() or "finished before it was killed"
        killed += 1
    assert 0 < sum(word == "kept" for word, _ in _log(root)) < ROWS, "the kills came too late to matter"
    _finish(root, ROWS)
    _none_made_twice(root)
    assert _part(root).parquet.read_bytes() == _part(uninterrupted).parquet.read_bytes()
    assert not _part(root).journal.exists()


@pytest.mark.parametrize(
    ("die", "moments", "lost"),
    [
        ("write", [1, 5, 8], 3),  # inside a record: that one row, and no other, is made again
        ("rename", [1, 1], 0),  # the folded rows are written, but the file has not got its name
        ("delete", [1, 2], 0),  # the file has its name, and all its rows are in the journals too
        ("deleted", [1, 2], 0),  # one of the journals is deleted
        ("lock", [1, 2, 4], 0),  # while the partition's lock is held
    ],
)
def test_kills_at_the_worst_moments(die: str, moments: list[int], lost: int, tmp_path: Path) -> None:
    rows, root, whole = 40, tmp_path / "killed", tmp_path / "whole"
    for number, moment in enumerate(moments, start=1):
        child = _start(root, rows, die, moment)
        _, errors = child.communicate(timeout=50)
        assert child.returncode == -signal.SIGKILL, errors.decode()
        if die == "write":
            assert _part(root).torn() == number
    _finish(root, rows)
    assert _none_made_twice(root) == lost
    _finish(whole, rows)
    assert _part(root).parquet.read_bytes() == _part(whole).parquet.read_bytes()
    assert not _part(root).journal.exists()
