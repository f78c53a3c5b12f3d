"""Judging through a server's batches: cheaper, within a day, and the same rows as call by call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.judging.cost import Purse, request_tokens
from slmsafety.judging.llm_judge import JudgeRun, LlmJudge
from slmsafety.models.batches import MOST_BYTES, MOST_REQUESTS, Batches, custom_id, files
from slmsafety.models.client import Request
from slmsafety.records.schema import JUDGMENTS, typed

_KEYS = ["suite", "instance_id", "model", "generation_id"]


class BatchRun(JudgeRun):
    """The frames of a run over batches, as `JudgeRun` gives them.

    Batches of an earlier run are taken in first, finished or partial; only rows that are in none are sent. Rows that a
    batch did not get to are left missing: the next run sends them.
    """

    def __init__(
        self,
        judge: LlmJudge,
        rows: pd.DataFrame,
        judge_id: str,
        purse: Purse,
        folder: Path,
        every_s: float = 30.0,
        most_requests: int = MOST_REQUESTS,
        most_bytes: int = MOST_BYTES,
        waiting: Callable[[int], None] = lambda finished: None,
    ) -> None:
        """Take what `JudgeRun` takes, the folder of the batches' notes, and how often the server is asked.

        `waiting` is told now and then how many requests the server has finished.
        """
        super().__init__(judge, rows, judge_id, purse)
        self._batches, self._every, self._waiting = Batches(judge.endpoint, folder), every_s, waiting
        self._limits = (most_requests, most_bytes)
        keys = rows[_KEYS].itertuples(index=False)
        self._index = {custom_id((*map(str, key), judge_id)): row for row, key in enumerate(keys)}

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield a frame for each batch that has ended; returns when none is open. Raises InputError as the server does.

        Ctrl-C leaves the batches at work: the next run goes on waiting for them.
        """
        open_batches = self._open()
        known = {name for ids in open_batches.values() for name in ids}
        for data, ids in files(self._judge.endpoint.model, self._missing(known), *self._limits):
            open_batches[self._batches.create(data, ids)] = ids
        while open_batches:
            finished = 0
            for name in list(open_batches):
                progress = self._batches.progress(name)
                if progress is None or progress.ended:
                    rows = list(self._rows_of(name))
                    if rows:
                        yield typed(pd.DataFrame.from_records(rows), JUDGMENTS)
                    self._batches.forget(name)
                    del open_batches[name]
                else:
                    finished += progress.finished
            self._waiting(finished)
            if open_batches:
                time.sleep(self._every)

    def _open(self) -> dict[str, list[str]]:
        """The custom ids of the batches at the server; the note of one that never came to be is removed."""
        noted = self._batches.open()
        lost = {name for name in noted if self._batches.progress(name) is None}
        for name in lost:
            self._batches.forget(name)
        return {name: ids for name, ids in noted.items() if name not in lost}

    def _missing(self, known: set[str]) -> Iterator[Request]:
        for name, index in self._index.items():
            if name in known:
                continue
            body = self._judge.body(self._of(index))
            if not self._purse.reserve(index, request_tokens(body), body["max_tokens"]):
                self.stopped = True
                return
            yield Request(name, body)

    def _rows_of(self, name: str) -> Iterator[dict[str, Any]]:
        """The judgments in an ended batch, without what it did not get to and what is not asked for any more."""
        for request, answer in self._batches.results(name):
            index = self._index.get(request)
            if index is not None and getattr(answer, "reason", "") != "batch_expired":
                yield self._row(index, answer)
