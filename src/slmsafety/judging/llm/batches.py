"""Judging through a server's batches: cheaper, within a day, and the same rows as call by call."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.judging.llm.asking import HINTS
from slmsafety.judging.llm.budget import Budget
from slmsafety.judging.llm.cost import Size, request_size
from slmsafety.judging.llm.judge import JudgeRun, LlmJudge, filed
from slmsafety.models.answers import Failure, Halt, Halted
from slmsafety.models.attempts import Request
from slmsafety.models.batches import MOST_BYTES, MOST_REQUESTS, Batches, NotMade, Refused, custom_id, files
from slmsafety.models.hints import naming_keys
from slmsafety.records.files import try_lock
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


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of notes, where the file system has locks."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as handle:
        try_lock(handle.fileno(), fcntl.LOCK_EX)
        yield


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
        """Send the rows that are in no batch, and return the custom ids of each batch at the server by its name.

        One process at a time looks for what is in no batch: two would send it twice.
        """
        with alone_in(self._batching.folder):
            known = self._open()
            for batch, ids in known.items():
                self._budget.reserve_batch(batch, self._sizes(ids), forced=True)
            sizes: dict[str, Size] = {}
            missing = self._missing({name for ids in known.values() for name in ids}, sizes)
            limits = (self._batching.max_requests, self._batching.max_bytes)
            for data, ids in files(self._judge.endpoint.model, missing, *limits):
                sent = {request: sizes.pop(request) for request in ids}
                name = self._made(data, ids, sent)
                if name is None:  # another process has spent what was left
                    self.stopped = True
                    break
                known[name] = ids
        return known

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield a frame for each batch that has ended; returns when none is open. Raises InputError as the server does,
        and as `JudgeRun` does, after the frame of the batch.

        Ctrl-C leaves the batches at work: the next run goes on waiting for them.
        """
        at_work = self.send()
        with naming_keys(HINTS):
            while at_work:
                for batch in list(at_work):
                    ended = self._ended(batch)
                    if ended is False:
                        continue
                    rows = list(self._rows_of(batch)) if ended else []
                    if rows:
                        yield typed(pd.DataFrame.from_records(rows), JUDGMENTS)
                    self._drop(batch)
                    del at_work[batch]
                    self._stop_where_wrong()
                if at_work:
                    time.sleep(self._batching.seconds)

    def _open(self) -> dict[str, list[str]]:
        """The custom ids of the batches at the server; the note of one that never came to be is removed."""
        noted = self._batches.open()
        for batch in list(noted):
            while (ended := self._ended(batch)) is None and self._batches.age(batch) < 2 * self._batching.seconds:
                time.sleep(self._batching.seconds)  # the server may be about to make what a killed run has asked for
            if ended is None:
                self._drop(batch)
                del noted[batch]
        return noted

    def _made(self, data: bytes, ids: list[str], sizes: Mapping[str, Size]) -> str | None:
        """Send a file as a batch; None where there is no room for it. What did not come to be is dropped."""
        try:
            return self._batches.create(data, ids, partial(self._budget.reserve_batch, sizes=sizes))
        except NotMade as error:
            self._drop(error.batch)
            raise

    def _ended(self, batch: str) -> bool | None:
        """Whether a batch will change no more; None for one that is nowhere. One that was refused is dropped."""
        try:
            return self._batches.ended(batch)
        except Refused:
            self._drop(batch)
            raise

    def _drop(self, batch: str) -> None:
        """Forget a batch that will answer no more; what is still set aside for it is free first."""
        self._budget.release_batch(batch)
        self._batches.forget(batch)

    def _missing(self, held: set[str], sizes: dict[str, Size]) -> Iterator[Request]:
        """What is asked for and in no batch, as far as the limit leaves room for it; `sizes` is filled beside it."""
        fits = self._budget.room()
        for name in self._asked:
            if name in held:
                continue
            body = self._judge.body(self._of(self._index[name]))
            sizes[name] = request_size(body)
            if not fits(sizes[name]):
                self.stopped = True
                return
            yield Request(name, body)

    def _sizes(self, ids: Iterable[str]) -> dict[str, Size]:
        """The sizes of requests whose rows are known."""
        return {
            name: request_size(self._judge.body(self._of(self._index[name]))) for name in ids if name in self._index
        }

    def _rows_of(self, batch: str) -> Iterator[dict[str, Any]]:
        """The judgments in an ended batch, without what it did not get to; all are counted before the first is made."""
        answers = list(self._batches.results(batch))
        sizes = self._sizes(name for name, _ in answers)
        self._budget.ended_batch(batch, {name: (sizes.get(name), answer) for name, answer in answers})
        for name, answer in answers:
            if name not in self._index:  # billed, and its row is none of the study's any more
                continue
            if isinstance(answer, Halt):
                server = self._judge.endpoint
                self._wrong = Halted(answer, server.host, server.model, server.api_key_env)
                answer = Failure(answer.reason, 1, answer.said)
            if not (isinstance(answer, Failure) and answer.reason in _NOT_DONE):
                self.attempts += answer.attempts
                yield self._row(self._index[name], answer)

    def _name(self, index: int) -> str:
        """The name of a row's call in a batch."""
        row = self._of(index)
        named = {key: row[key] for key in REPLY_KEY if key != "sample" or row[key]}  # a batch from before `sample`
        return custom_id((*map(str, named.values()), row["judge_id"]))
