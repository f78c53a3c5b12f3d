"""Judging through a server's batches: cheaper, within a day, and the same rows as call by call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.judging.llm.asking import HINTS
from slmsafety.judging.llm.cost import Budget, request_tokens
from slmsafety.judging.llm.judge import JudgeRun, LlmJudge, filed
from slmsafety.models.answers import Failure, Halt, Halted
from slmsafety.models.batches import MOST_BYTES, MOST_REQUESTS, Batches, files
from slmsafety.models.client import Request
from slmsafety.models.hints import naming_keys
from slmsafety.records.schema import JUDGMENTS, REPLY_KEY, typed

# Requests that a batch did not get to.
_NOT_DONE = ("batch_expired", "batch_cancelled")


@dataclass(frozen=True)
class Batching:
    """Where the notes of a part's batches lie, what they may hold, and how often the server is asked.

    Parameters
    ----------
    folder : Path
        The folder of the notes, one for every judge and generation_id.
    every : DataFrame or None
        All rows that a batch of an earlier run may hold; None: those that are asked for. What comes back for a row that
        is not asked for any more is paid, and kept.
    seconds : float
        The seconds between two questions to the server.
    max_requests, max_bytes : int
        The largest batch file that the server takes.
    """

    folder: Path
    every: pd.DataFrame | None = None
    seconds: float = 30.0
    max_requests: int = MOST_REQUESTS
    max_bytes: int = MOST_BYTES


class BatchRun(JudgeRun):
    """The frames of a run over batches, as `JudgeRun` gives them.

    Batches of an earlier run are taken in as well, finished or partial; only rows that are in none are sent. Rows that
    a batch did not get to are left missing: the next run sends them.
    """

    def __init__(self, judge: LlmJudge, rows: pd.DataFrame, judge_id: str, budget: Budget, batching: Batching) -> None:
        """Take what `JudgeRun` takes, and how batches are made."""
        super().__init__(judge, rows if batching.every is None else batching.every, judge_id, budget)
        self._batches, self._batching = Batches(judge.endpoint, batching.folder), batching
        self._index = {self._name(index): index for index in range(len(self._rows))}
        key = [*REPLY_KEY, "judge_id"]
        asked = set(filed(rows, judge_id)[key].itertuples(index=False, name=None))
        keys = self._rows[key].itertuples(index=False, name=None)
        self._asked = [name for name, key in zip(self._index, keys, strict=True) if key in asked]

    def send(self) -> dict[str, list[str]]:
        """Send the rows that are in no batch, and return the custom ids of each batch at the server by its name."""
        known, limits = self._open(), (self._batching.max_requests, self._batching.max_bytes)
        held = {name for ids in known.values() for name in ids}
        for name in held & set(self._index):
            body = self._judge.body(self._of(self._index[name]))
            self._budget.hold(name, request_tokens(body), self._judge.max_tokens)
        for data, ids in files(self._judge.endpoint.model, self._missing(held), *limits):
            known[self._batches.create(data, ids)] = ids
        return known

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield a frame for each batch that has ended; returns when none is open. Raises InputError as the server does,
        and as `JudgeRun` does, after the frame of the batch.

        Ctrl-C leaves the batches at work: the next run goes on waiting for them.
        """
        at_work = self.send()
        with naming_keys(HINTS):
            while at_work:
                for name in list(at_work):
                    if self._batches.ended(name) is not False:
                        yield from self._taken_in(name)
                        for call in at_work.pop(name):
                            self._budget.release(call)
                        self._batches.forget(name)
                        self._stop_where_wrong()
                if at_work:
                    time.sleep(self._batching.seconds)

    def _taken_in(self, name: str) -> Iterator[pd.DataFrame]:
        """Yield the frame of an ended batch, unless it holds nothing."""
        rows = list(self._rows_of(name))
        if rows:
            yield typed(pd.DataFrame.from_records(rows), JUDGMENTS)

    def _open(self) -> dict[str, list[str]]:
        """The custom ids of the batches at the server; the note of one that never came to be is removed."""
        noted = self._batches.open()
        lost = {name for name in noted if self._batches.ended(name) is None}
        for name in lost:
            self._batches.forget(name)
        return {name: ids for name, ids in noted.items() if name not in lost}

    def _missing(self, held: set[str]) -> Iterator[Request]:
        for name in self._asked:
            if name in held:
                continue
            body = self._judge.body(self._of(self._index[name]))
            if not self._budget.reserve(name, request_tokens(body), self._judge.max_tokens):
                self.stopped = True
                return
            yield Request(name, body)

    def _rows_of(self, name: str) -> Iterator[dict[str, Any]]:
        """The judgments in an ended batch, without what it did not get to."""
        for request, answer in self._batches.results(name):
            index = self._index.get(request)
            if isinstance(answer, Halt):
                server = self._judge.endpoint
                self._wrong = Halted(answer, server.host, server.model, server.api_key_env)
                answer = Failure(answer.reason, 1, answer.said)
            if index is not None and not (isinstance(answer, Failure) and answer.reason in _NOT_DONE):
                yield self._row(index, answer)
