"""Judging through a server's batches: cheaper, within a day, and the same rows as call by call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.judging.llm.cost import Purse, request_tokens
from slmsafety.judging.llm.judge import JudgeRun, LlmJudge
from slmsafety.models.batches import MOST_BYTES, MOST_REQUESTS, Batches, files
from slmsafety.models.client import Request
from slmsafety.records.schema import JUDGMENTS, typed


class BatchRun(JudgeRun):
    """The frames of a run over batches, as `JudgeRun` gives them.

    Batches of an earlier run are taken in as well, finished or partial; only rows that are in none are sent. Rows that
    a batch did not get to are left missing: the next run sends them.
    """

    def __init__(
        self,
        judge: LlmJudge,
        rows: pd.DataFrame,
        judge_id: str,
        purse: Purse,
        folder: Path,
        every: pd.DataFrame | None = None,
        every_s: float = 30.0,
        most_requests: int = MOST_REQUESTS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Take what `JudgeRun` takes, the folder of these rows' notes, and how often the server is asked.

        `every` are all rows that a batch of an earlier run may hold (`rows` where None): what comes back for one that
        is not asked for any more is paid, and kept.
        """
        super().__init__(judge, rows if every is None else every, judge_id, purse)
        self._batches, self._every, self._limits = Batches(judge.endpoint, folder), every_s, (most_requests, most_bytes)
        self._index = {self._name(place): place for place in range(len(self._rows))}
        keys = ["suite", "instance_id", "model", "generation_id"]
        asked = set(rows[keys].itertuples(index=False, name=None))
        places = self._rows[keys].itertuples(index=False, name=None)
        self._asked = [name for name, key in zip(self._index, places, strict=True) if key in asked]

    def send(self) -> dict[str, list[str]]:
        """Send the rows that are in no batch, and return the custom ids of each batch at the server by its name."""
        known = self._open()
        held = {name for ids in known.values() for name in ids}
        for name in held & set(self._index):
            body = self._judge.body(self._of(self._index[name]))
            self._purse.hold(name, request_tokens(body), body["max_tokens"])
        for data, ids in files(self._judge.endpoint.model, self._missing(held), *self._limits):
            known[self._batches.create(data, ids)] = ids
        return known

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield a frame for each batch that has ended; returns when none is open. Raises InputError as the server does.

        Ctrl-C leaves the batches at work: the next run goes on waiting for them.
        """
        at_work = self.send()
        while at_work:
            for name in list(at_work):
                if self._batches.ended(name) is not False:
                    rows = list(self._rows_of(name))
                    if rows:
                        yield typed(pd.DataFrame.from_records(rows), JUDGMENTS)
                    for call in at_work.pop(name):
                        self._purse.release(call)
                    self._batches.forget(name)
            if at_work:
                time.sleep(self._every)

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
            if not self._purse.reserve(name, request_tokens(body), body["max_tokens"]):
                self.stopped = True
                return
            yield Request(name, body)

    def _rows_of(self, name: str) -> Iterator[dict[str, Any]]:
        """The judgments in an ended batch, without what it did not get to."""
        for request, answer in self._batches.results(name):
            index = self._index.get(request)
            if index is not None and getattr(answer, "reason", "") != "batch_expired":
                yield self._row(index, answer)
