"""What a judge has cost, kept beside the tables: a line a call in a file a run, since a row can be judged again."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import IO

from slmsafety.judging.llm.cost import Budget, Price
from slmsafety.pipeline.shards import Shard


class SpendLog:
    """The dollars of a judge's calls, of all runs of a study."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of the judge's files."""
        self._folder = folder
        self._handle: IO[str] | None = None

    def close(self) -> None:
        """Close this run's file."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def spent(self) -> float:
        """Return the dollars of all calls so far; a torn last line of a killed run is left out."""
        lines = [line for path in self._folder.glob("*.txt") for line in path.read_text().split("\n")[:-1]]
        return sum(map(float, lines))

    def budget(self, price: Price | None, limit: float | None, shard: Shard) -> Budget:
        """Return this process's part of what may still be spent of `limit` dollars; no limit where it is None."""
        spent = self.spent()
        own_limit = None if limit is None else spent + max(0.0, limit - spent) / shard.world
        return Budget(price, own_limit, spent, self._write)

    def _write(self, dollars: float) -> None:
        if self._handle is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._handle = (self._folder / f"{uuid.uuid4().hex[:12]}.txt").open("x", buffering=1)
        self._handle.write(f"{dollars:.9f}\n")
