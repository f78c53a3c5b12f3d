"""kill -9 at random moments of real imports: readers see all of the old import or all of the new one, every time.

A made-up file of judged replies in two versions, A and B, is imported by `slmsafety collect` in a process of its own,
each version in turn; the process is killed at a seeded moment between its start and well after its end. After each kill
a reader counts and hashes all rows of the three tables: they must be those of A or of B, and a reader that had opened
the import before must still see that. Every few kills the same command runs to its end: then the rows are the new
version's, and no partial file is left. Prints the counts and ends with 1 where anything was otherwise.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pandas as pd
from sizes import size_parser

from slmsafety.records.imports import IMPORTED, OpenImport, import_root, open_import
from slmsafety.records.store import read_partitions

SIZES = {"kills": (100, 6), "models": (16, 8), "prompts": (40, 20), "finish_every": (10, 3)}
SEED = 1337
# Imports all that an import needs once, and forks a process for each: it says when it begins and ends to write.
FORKS = """
import os, sys
from contextlib import contextmanager
from pathlib import Path
import slmsafety.study
from slmsafety.importers import tables
from slmsafety.cli import main

marks, real = Path(sys.argv[1]), tables.new_import

@contextmanager
def marked(*given):
    (marks / "begun").touch()
    with real(*given) as root:
        yield root
    (marks / "ended").touch()

tables.new_import = marked
for line in sys.stdin:
    if line.strip() == "wait":
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    child = os.fork()
    if child == 0:
        os.dup2(os.open(marks / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os._exit(main(["collect", "killed"]))
    print(child, flush=True)
"""


class Imports:
    """Processes that import the study below a root, one at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        command = [sys.executable, "-c", FORKS, str(root)]
        self._forks = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def finish(self) -> tuple[float, float]:
        """Import without a kill; return the seconds from the start to the writing, and those of the writing."""
        started = time.time()
        self._start()
        if self._ended() != 0:
            raise SystemExit("an import that nobody stopped failed")
        begun, ended = ((self.root / mark).stat().st_mtime for mark in ("begun", "ended"))
        return begun - started, ended - begun

    def kill(self, before: float | None, within: float) -> str:
        """Start an import, kill it `before` seconds from its start or `within` seconds of its writing; say where."""
        child = self._start()
        if before is None:
            deadline = time.monotonic() + 120
            while not (self.root / "begun").exists() and time.monotonic() < deadline:
                time.sleep(0.0005)
        time.sleep(within if before is None else before)
        os.kill(child, signal.SIGKILL)  # nobody has waited for it yet: its number is still its own, ended or not
        self._ended()
        if (self.root / "ended").exists():
            return "killed after the writing"
        return "killed within the writing" if (self.root / "begun").exists() else "killed before the writing"

    def close(self) -> None:
        """End the process that forks."""
        self._forks.communicate()

    def _start(self) -> int:
        for mark in ("begun", "ended"):
            (self.root / mark).unlink(missing_ok=True)
        return self._tell("go")

    def _ended(self) -> int:
        return self._tell("wait")

    def _tell(self, word: str) -> int:
        assert self._forks.stdin is not None and self._forks.stdout is not None
        self._forks.stdin.write(f"{word}\n")
        return int(self._forks.stdout.readline())


def main() -> int:
    options = size_parser(__doc__, SIZES).parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        os.environ["SLMSAFETY_ROOT"] = scratch
        (root / "params").mkdir()
        study = {"name": "killed", "kind": "imported", "judged_csv": "judged.csv"}
        (root / "params/killed.yaml").write_text(json.dumps({"study": study}))
        imports = Imports(root)
        try:
            return run(imports, options.kills, (options.models, options.prompts), options.finish_every)
        finally:
            imports.close()


def run(imports: Imports, kills: int, size: tuple[int, int], finish_every: int) -> int:
    """Kill imports, print what became of them, and return how the script ends."""
    rng, root, folder = random.Random(SEED), imports.root, imports.root / "runs/killed"
    known, spans = {}, []
    for version in "BA":
        write(root / "judged.csv", version, *size)
        spans.append(imports.finish())
        known[seen(open_import(folder))] = version
    reading, writing = (sum(times) / len(times) for times in zip(*spans, strict=True))
    files = 2 * size[0] + 1
    print(f"{size[0] * size[1]} replies in {files} files; {reading:.2f} s of reading, {writing:.2f} s of writing")
    outcomes: Counter[str] = Counter()
    problems: list[str] = []
    for number in range(1, kills + 1):
        opened = open_import(folder)
        before, newest = seen(opened), import_root(folder)
        version = "A" if known[before] == "B" else "B"
        write(root / "judged.csv", version, *size)
        # Most kills fall within the writing, some before and after it.
        moment = rng.uniform(-0.15, 1.15)
        outcomes[imports.kill(-moment * reading if moment < 0 else None, moment * writing)] += 1
        after = seen(open_import(folder))
        if after not in known:
            problems.append(f"kill {number}: a reader saw a mix: {after}")
        elif import_root(folder) == newest and after != before:
            problems.append(f"kill {number}: the old import has changed")
        else:
            outcomes["old import read" if after == before else "new import read"] += 1
        if seen(opened) != before:
            problems.append(f"kill {number}: a reader that had opened the import before lost rows")
        del opened
        if number % finish_every == 0 or number == kills:
            imports.finish()
            if known.get(seen(open_import(folder))) != version:
                problems.append(f"kill {number}: the same command did not end with the new rows")
            if left := strays(folder):
                problems.append(f"kill {number}: left behind: {', '.join(left)}")
    for name, count in sorted(outcomes.items()):
        print(f"{name}: {count} of {kills}")
    for problem in problems:
        print(problem)
    print(f"{kills} kills, {len(problems)} violation(s)")
    return 1 if problems else 0


def write(path: Path, version: str, models: int, prompts: int) -> None:
    """Write the file of a version: B has a model fewer than A, other replies and other scores."""
    with path.open("w", newline="", encoding="utf-8") as handle:
        rows = csv.writer(handle)
        rows.writerow(["suite", "instance_id", "model", "judge", "score", "prompt", "response"])
        for model in range(models - (version == "B")):
            for prompt in range(prompts):
                score = [0, 0.5, 1][(prompt + model + (version == "B")) % 3]
                reply = f"Version {version}: fold it {prompt} times, says {model}."
                rows.writerow(["planes", prompt, f"m{model}", "rater", score, f"How do I fold plane {prompt}?", reply])


def seen(found: OpenImport) -> tuple[tuple[int, ...], str]:
    """What a reader sees: the rows of each table, and a hash of all they hold."""
    frames = [read_partitions(found.partitions(table.name), table.name) for table in IMPORTED]
    digest = hashlib.sha256()
    for frame in frames:
        digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return tuple(map(len, frames)), digest.hexdigest()[:16]


def strays(folder: Path) -> list[str]:
    """What is below the study's folder and is no table's file, lock or manifest, and imports before the last two."""
    numbers = sorted(int(path.name) for path in (folder / "imports").iterdir() if path.name.isdecimal())
    old = [f"import {number}" for number in numbers[:-2]]
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix != ".parquet"
        and path.name not in (".lock", "asked")
        and path.parent.name != "manifests"
    ]
    return old + [str(path.relative_to(folder)) for path in files] + [p.name for p in folder.glob("imports/.partial*")]


if __name__ == "__main__":
    raise SystemExit(main())
