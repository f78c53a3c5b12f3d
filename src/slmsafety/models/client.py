"""Calls to an OpenAI-compatible server: many at once, within limits, each ending as a completion or a counted failure.

The calls run on an event loop in a thread of their own, so that `complete` is a plain generator in a script and in a
notebook alike. A place whose call has ended takes the next request from a short queue, without waiting for the caller.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Generator, Iterable
from itertools import islice
from threading import Event, Thread
from typing import Any

from slmsafety.errors import InputError
from slmsafety.models.answers import Completion, Failure
from slmsafety.models.attempts import Attempts, Request, Toll
from slmsafety.models.endpoint import Endpoint

# Seconds for which answers gather before the caller is woken, while there is enough in the queue.
_GATHER = 0.01
# Failures in which nothing came from the server.
_UNHEARD = ("connection", "timeout")
# Failures that a server which works for no request would give, besides any HTTP status.
_OF_THE_SERVER = (*_UNHEARD, "rate_limit", "malformed", "redirect", "body_too_large")
# Those among them that a server gives to one request after a reply to another, if not to many in a row.
_FORBIDDEN = "http_403"
_LATER = ("connection", "rate_limit", _FORBIDDEN)

Answer = tuple[Any, Completion | Failure]


def complete(
    endpoint: Endpoint, requests: Iterable[Request | None], toll: Toll | None = None
) -> Generator[list[Answer], None, None]:
    """Send requests, many at once, and yield how each ended.

    Parameters
    ----------
    endpoint : Endpoint
        The server and its limits.
    requests : iterable of Request or None
        Pulled one by one, in the caller's thread, at most 2 * `endpoint.concurrency` more than answers were taken by
        the caller: as many wait as are under way. None says that nothing may be sent now: it is asked again when a call
        has ended, and not again when none is open.
    toll : Toll or None, default None
        Who pays for attempts.

    Yields
    ------
    list of (key, Completion or Failure)
        What has ended since the last list, in the order in which it ended; each request once.

    Raises
    ------
    InputError
        When the server refuses the key, does not know the model, has no credit left, asks for a wait of more than two
        minutes, or never answers. On this and on Ctrl-C open calls are cancelled, and the answers so far are yielded
        first.
    """
    pending, places = iter(requests), endpoint.concurrency
    answers: list[Answer] = []
    open_calls = 0
    stop: BaseException | None = None
    with _Calls(endpoint, toll) as calls:
        while stop is None:
            try:
                calls.take(answers)
                for request in islice(pending, 2 * places - open_calls):
                    if request is None:
                        break
                    calls.send(request)
                    open_calls += 1
                ended, answers = answers, []
                if ended:
                    yield ended
                    open_calls -= len(ended)
                elif not open_calls:
                    break
                elif calls.stop is None:
                    calls.wait()
            except (KeyboardInterrupt, InputError) as caught:
                stop = caught
            stop = stop or calls.stop
    calls.take(answers)
    if answers:
        yield answers
    stop = stop or calls.failures.silent()
    if stop is not None:
        raise stop


class _FailureCounter:
    """Counts consecutive failures that say something of the server: before the first reply most of them, afterwards
    connection errors, rate limits and bare refusals alone."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Start without a reply."""
        self._host, self._limit = endpoint.host, max(20, 2 * endpoint.concurrency)
        self._answered, self._failed = False, 0
        self._last = Failure("", 0)

    def count(self, answer: Completion | Failure) -> InputError | None:
        """Count how a call ended; return the error that ends the run once too many calls in a row have failed."""
        if isinstance(answer, Failure) and answer.reason == "no_budget":
            return None
        if not isinstance(answer, Failure) or not _of_the_server(answer.reason):
            self._answered, self._failed = True, 0
        elif self._answered and answer.reason not in _LATER:
            self._failed = 0
        else:
            self._failed, self._last = self._failed + 1, answer
            if self._failed >= self._limit:
                return InputError(f"{self._host}: {self._failed} calls in a row failed, the last one by {self._ended}")
            if answer.reason == "redirect":
                return InputError(f"{self._host} {answer.said}, which is not followed with a key; name that address")
        return None

    def silent(self) -> InputError | None:
        """Return the error of a run in which nothing came from the server, or nothing but a refusal."""
        if self._answered or self._last.reason not in (*_UNHEARD, _FORBIDDEN):
            return None
        return InputError(f"{self._host} answered none of {self._failed} calls, the last one ended by {self._ended}")

    @property
    def _ended(self) -> str:
        ended = f"{self._last.reason} ({self._last.said})" if self._last.said else self._last.reason
        why = "; the key may have no right to the model, or a firewall on the way may stop what is asked"
        return f"{ended}{why}" if self._last.reason == _FORBIDDEN else ended


def _of_the_server(reason: str) -> bool:
    return reason in _OF_THE_SERVER or reason.startswith("http_")


class _Calls:
    """The calls of one run, on an event loop in a thread; what is still under way at the end is cancelled.

    Attributes
    ----------
    stop : BaseException or None
        Why no further request is sent.
    failures : _FailureCounter
        How the calls have failed.
    """

    def __init__(self, endpoint: Endpoint, toll: Toll | None) -> None:
        """Take the server and who pays; InputError where the server's key or proxy is of no use."""
        self.stop: BaseException | None = None
        self.failures = _FailureCounter(endpoint)
        self._attempts, self._places = Attempts(endpoint, toll), endpoint.concurrency
        self._ended: list[Answer] = []
        self._news, self._telling = Event(), False
        self._waiting: deque[Request] = deque()
        self._more, self._idle = asyncio.Event(), 0
        self._workers: list[asyncio.Task[None]] = []
        # Not the policy's: uvloop, for one, knows no delay between a host's addresses.
        self._loop = asyncio.SelectorEventLoop()
        self._thread = Thread(target=self._loop.run_forever, name=f"calls to {endpoint.host}", daemon=True)

    def __enter__(self) -> _Calls:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        if sys.is_finalizing():  # the thread stands still then, and would never answer
            return
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def send(self, request: Request) -> None:
        """Queue a request. The loop is woken for a place without a call; others look for one when theirs has ended."""
        self._waiting.append(request)
        if self._idle:
            self._loop.call_soon_threadsafe(self._more.set)

    def take(self, answers: list[Answer]) -> None:
        """Move what has ended to the end of a list."""
        number = len(self._ended)
        # Ctrl-C comes after a call, not between these two: no answer is lost by it and none doubled.
        answers += self._ended[:number]
        del self._ended[:number]

    def wait(self) -> None:
        """Wait until there is something to take or room in the queue."""
        self._news.wait()
        self._news.clear()

    async def _open(self) -> None:
        for _ in range(self._places):
            worker = asyncio.create_task(self._work())
            worker.add_done_callback(self._left)
            self._workers.append(worker)

    async def _close(self) -> None:
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        await self._attempts.close()

    async def _work(self) -> None:
        while self.stop is None:
            if len(self._waiting) <= self._places // 2:
                self._tell()
            request = await self._next()
            answer = await self._attempts.answer(request)
            self._ended.append((request.key, answer))
            self.stop = self.stop or self.failures.count(answer)
            if self.stop is not None:
                self._tell()
            elif not self._telling:
                self._telling = True
                self._loop.call_later(_GATHER, self._tell)

    async def _next(self) -> Request:
        while not self._waiting:
            self._idle += 1  # before the last look: who queues a request looks at it afterwards
            self._more.clear()
            if not self._waiting:
                await self._more.wait()
            self._idle -= 1
        return self._waiting.popleft()

    def _tell(self) -> None:
        self._telling = False
        self._news.set()

    def _left(self, worker: asyncio.Task[None]) -> None:
        """Stop the run where a worker has left by an error."""
        if not worker.cancelled() and (error := worker.exception()) is not None:
            self.stop = self.stop or error
            self._tell()
