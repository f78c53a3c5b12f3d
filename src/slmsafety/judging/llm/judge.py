"""Judgments by a language model that follows a rubric, behind an OpenAI-compatible server, at temperature 0.

A call that ends without a verdict still becomes a row, with its status and reason, so that nothing is dropped: a later
run makes rows of status error again, and others when asked to.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.judging.llm.asking import HINTS, Asking
from slmsafety.judging.llm.budget import Budget
from slmsafety.judging.llm.cost import request_size
from slmsafety.judging.llm.interrupts import held_interrupt
from slmsafety.judging.rubrics.base import Rubric
from slmsafety.judging.verdict import Verdict
from slmsafety.models.answers import Completion, Failure
from slmsafety.models.attempts import Request
from slmsafety.models.client import Answer, complete
from slmsafety.models.endpoint import Endpoint
from slmsafety.models.hints import naming_keys
from slmsafety.models.input_read import input_cut
from slmsafety.models.served import other_model, takes
from slmsafety.models.server_words import conceal
from slmsafety.records.schema import JUDGMENTS, REPLY_KEY, typed, with_sample

# Rows are read so many at a time, and so many times as many are kept at hand: one by one takes a millisecond each.
_CHUNK, _CHUNKS = 128, 8
# Seconds between two looks at whether calls of other processes have left room for more.
_LOOK_AGAIN = 0.2
# A request that the judge's server will not take is no error of the line: to send it again would change nothing.
_NO_ERROR = {"prompt_too_long": "truncated_input"}
# Why an answer has no verdict although the server sent one: it stopped the run, or it did not read the whole request.
OTHER_MODEL = "other_model"
INPUT_CUT = "input_cut_by_server"


@dataclass(frozen=True)
class LlmJudge:
    """A judge as a study configures it: its name in the tables, the rubric, and the model that follows it.

    `revision` is what the user says of the served weights, if anything; `request` is sent along with every call;
    `served_as` are other names that the model may answer by.
    """

    name: str
    rubric: Rubric
    endpoint: Endpoint
    revision: str | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    asking: Asking = field(default_factory=Asking)
    served_as: tuple[str, ...] = ()

    @property
    def max_tokens(self) -> int:
        """The most tokens of a verdict, reasoning included."""
        return self.asking.max_tokens or self.rubric.max_tokens

    def definition(self) -> dict[str, Any]:
        """Return what the judge_id hashes; where the model is served is no part of it."""
        return {
            "model": self.endpoint.model,
            "revision": self.revision,
            "temperature": self.asking.temperature,
            "rubric": self.rubric.definition(),
            **self.asking.definition(self.rubric.max_tokens),
            **({"request": dict(self.request)} if self.request else {}),
        }

    def body(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the request for a row with prompt, response, expected and meta (of the prompt), without the model."""
        return {
            **self.request,
            "messages": self.rubric.messages(row),
            **self.asking.body(self.rubric.max_tokens),
        }

    def takes(self, answer: Completion | Failure) -> bool:
        """Return whether an answer is the asked model's, as far as the server says which one it is of."""
        return isinstance(answer, Failure) or takes(self.endpoint.model, answer.model, self.served_as)

    def judgment(self, row: dict[str, Any], answer: Completion | Failure, price: str) -> dict[str, Any]:
        """Return the judgments row of a finished call about a row that has its judge_id."""
        frame = {**{key: row[key] for key in (*REPLY_KEY, "judge_id")}, "judge": self.name}
        if isinstance(answer, Failure):
            status = _NO_ERROR.get(answer.reason, "error")
            said = answer.said and conceal(answer.said, (row["prompt"], row["response"]))
            meta = {
                "attempts": answer.attempts,
                "base_url": self.endpoint.base_url,
                **({} if said is None else {"said": said}),
            }
            return {**frame, "status": status, "reason": answer.reason, "meta": json.dumps(meta, sort_keys=True)}
        verdict = self._verdict(row, answer)
        meta = {
            **self.rubric.meta(row, verdict),
            "attempts": answer.attempts,
            "base_url": self.endpoint.base_url,
            "finish_reason": answer.finish_reason,
            "fingerprint": answer.fingerprint,
            "served_model": answer.model,
            "price": price or None,
            **({} if answer.reasoning is None else {"reasoning_characters": len(answer.reasoning)}),
        }
        return {
            **frame,
            "status": verdict.status,
            "label": verdict.label,
            "refused": verdict.refused,
            "raw_value": verdict.raw_value,
            "raw_text": answer.text,
            "reason": verdict.reason,
            "input_tokens": answer.input_tokens,
            "output_tokens": answer.output_tokens,
            "meta": json.dumps(meta, sort_keys=True),
        }

    def _verdict(self, row: dict[str, Any], answer: Completion) -> Verdict:
        """What a reply of the judge says: nothing where another model gave it, or one that did not see all."""
        if not self.takes(answer):
            return Verdict("error", None, None, OTHER_MODEL)
        if input_cut(self.body(row), answer):
            return Verdict("truncated_input", None, None, INPUT_CUT)
        if answer.refusal:
            return Verdict("judge_refused", None, None, "refusal")
        return self.rubric.read(row, answer.text, answer.finish_reason)


def filed(rows: pd.DataFrame, judge_id: str) -> pd.DataFrame:
    """Return rows with `sample` and with `judge_id`, where they have none of their own."""
    rows = with_sample(rows)
    return rows if "judge_id" in rows else rows.assign(judge_id=judge_id)


class JudgeRun:
    """The frames of a run, and how its calls ended: iterate it once, then read `statuses`, `attempts`, `stopped`.

    `statuses` counts rows by status, `attempts` all calls with their retries; `stopped` tells that the budget was used
    up before all rows were judged.
    """

    def __init__(self, judge: LlmJudge, rows: pd.DataFrame, judge_id: str, budget: Budget) -> None:
        """Take the rows still to be judged: the keys, prompt, response, expected and meta (of the prompt).

        `judge_id` is that of rows that have no column of this name.
        """
        self.statuses: Counter[str] = Counter()
        self.attempts = 0
        self.stopped = False
        self._under_way = self._answered = 0  # calls
        self._wrong: InputError | None = None
        self._judge, self._rows, self._budget = judge, filed(rows, judge_id), budget
        self._chunk = lru_cache(maxsize=_CHUNKS)(self._read_chunk)

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield frames of the judgments table as calls end; raises InputError as `models.client.complete` does, and
        after the answer of another model than the one asked for.

        A call whose next attempt the budget has no room for is made again once others have ended. Where all that is
        left is set aside for calls of other processes, it waits for them.
        """
        waiting, rounds = deque(range(len(self._rows))), 0
        while waiting and rounds <= self._judge.endpoint.retries:
            before, unpaid = self.attempts, list[int]()
            with naming_keys(HINTS):
                yield from self._round(waiting, unpaid)
            if waiting and not unpaid and self._budget.others_work():
                time.sleep(_LOOK_AGAIN)
            elif self.attempts == before:
                break
            rounds += bool(unpaid)
            waiting.extendleft(reversed(unpaid))
        self.stopped = bool(waiting)

    def _round(self, waiting: deque[int], unpaid: list[int]) -> Iterator[pd.DataFrame]:
        """Make calls until none is left, or none can be paid for; note those that could not be tried again."""
        self._under_way = 0
        try:
            calls = complete(self._judge.endpoint, self._requests(waiting), self._budget)
            answers = next(calls, None)
            while answers is not None:
                with held_interrupt() as stop:
                    frame = self._frame(answers, unpaid)
                if frame is not None:
                    yield frame
                # Thrown into the calls, so that they hand out first what has ended meanwhile.
                answers = calls.throw(stop[0]) if stop else next(calls, None)
            self._stop_where_wrong()
        finally:
            self._budget.settle()

    def _frame(self, answers: list[Answer], unpaid: list[int]) -> pd.DataFrame | None:
        """The rows of calls that have ended; None where none was paid for."""
        self._under_way -= len(answers)
        self._answered += len(answers)
        unpaid.extend(index for index, answer in answers if _unpaid(answer))
        self.attempts += sum(answer.attempts for _, answer in answers)
        rows = [self._row(index, answer) for index, answer in answers if not _unpaid(answer)]
        self._budget.sync()
        return typed(pd.DataFrame.from_records(rows), JUDGMENTS) if rows else None

    def _requests(self, waiting: deque[int]) -> Iterator[Request | None]:
        while waiting and self._wrong is None:  # what is under way then still ends, and is kept
            body = self._judge.body(self._of(waiting[0]))
            size = request_size(body)
            while self._too_many() or not self._budget.reserve(waiting[0], size):
                yield None
            self._under_way += 1
            yield Request(waiting.popleft(), body)

    def _too_many(self) -> bool:
        """Whether calls under way may take more than they were set aside at: the first is alone, and while all fail
        there is one more for each."""
        return self._budget.unsure and self._under_way > self._answered

    def _row(self, index: int, answer: Completion | Failure) -> dict[str, Any]:
        row = self._judge.judgment(self._of(index), answer, str(self._budget.price or ""))
        self.statuses[row["status"]] += 1
        if isinstance(answer, Completion) and not self._judge.takes(answer):
            server = self._judge.endpoint
            self._wrong = other_model(f"judge {self._judge.name}", server.model, answer.model, server.host)
        return row

    def _stop_where_wrong(self) -> None:
        """Raise InputError where an answer has ended the run; all are rows by then, that one without a label."""
        if self._wrong is not None:
            raise self._wrong

    def _of(self, index: int) -> dict[str, Any]:
        return self._chunk(index // _CHUNK)[index % _CHUNK]

    def _read_chunk(self, number: int) -> list[dict[str, Any]]:
        rows = self._rows.iloc[number * _CHUNK : (number + 1) * _CHUNK]
        names = [str(name) for name in rows]
        return [dict(zip(names, row, strict=True)) for row in rows.itertuples(index=False, name=None)]


def _unpaid(answer: Completion | Failure) -> bool:
    return isinstance(answer, Failure) and answer.reason == "no_budget"
