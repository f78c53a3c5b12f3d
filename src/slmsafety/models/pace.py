"""Limits a minute of a server, kept by all calls of a process: over suites, models, retries and hold-backs."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from threading import Lock

from slmsafety.models.endpoint import Endpoint


class Pace:
    """Spaces calls evenly, and holds them all back when the server asks for it.

    Parameters
    ----------
    clock : function, default time.monotonic
        Gives the time in seconds.
    sleep : coroutine function, default asyncio.sleep
        Waits for so many seconds of that clock.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.sleep = sleep
        self._clock, self._lock = clock, Lock()
        self._next = self._held = -math.inf

    def take(self, gap: float, credit: float = 0.0) -> float:
        """Take the next turn, or return how long it is until then.

        Parameters
        ----------
        gap : float
            Seconds from this turn to the next one.
        credit : float, default 0
            How many seconds a call may be late (clocks of event loops are coarse) without the next ones being later.

        Returns
        -------
        float
            0 when the turn is taken; else the seconds after which to ask again.
        """
        with self._lock:
            now, turn = self._clock(), max(self._next, self._held)
            if now < turn:
                return turn - now
            self._next = max(turn, now - credit) + gap
            return 0.0

    def owe(self, seconds: float) -> None:
        """Put the next turn off: a call has taken more than was expected."""
        with self._lock:
            self._next = max(self._next, self._clock()) + seconds

    def hold(self, seconds: float) -> None:
        """Let no call go for so many seconds."""
        with self._lock:
            self._held = max(self._held, self._clock() + seconds)


_PACES: dict[tuple[str, str, str | None], Pace] = {}


def pace_of(endpoint: Endpoint) -> Pace:
    """Return the pace of a server's model, the same one for as long as the process lives."""
    return _PACES.setdefault((endpoint.base_url, endpoint.model, endpoint.api_key_env), Pace())


class Turns:
    """The turns of the calls of one event loop, first come, first served."""

    def __init__(self, endpoint: Endpoint, pace: Pace | None = None) -> None:
        """Take the server; its pace is `pace_of` it, unless another one is given."""
        self._pace = pace_of(endpoint) if pace is None else pace
        self._per_request = 60 / endpoint.requests_per_minute if endpoint.requests_per_minute else 0.0
        self._per_token = 60 / endpoint.tokens_per_minute if endpoint.tokens_per_minute else 0.0
        self._credit = _credit(self._per_request)
        self._one = asyncio.Lock()

    async def turn(self, tokens: float) -> None:
        """Wait until a call of so many tokens may be sent."""
        async with self._one:  # one call sleeps, the others queue behind it
            gap = max(self._per_request, tokens * self._per_token)
            while (left := self._pace.take(gap, self._credit)) > 0:
                await self._pace.sleep(left)

    def correct(self, expected: float, took: float) -> None:
        """Count the tokens that a call took beyond those that it was expected to take."""
        if self._per_token and took > expected:
            self._pace.owe((took - expected) * self._per_token)

    def hold(self, seconds: float) -> None:
        """Hold all calls back."""
        self._pace.hold(seconds)


def _credit(gap: float) -> float:
    """Return a lateness that leaves every second with at most the rate plus one calls.

    With k gaps between them calls lie at least k * gap - credit apart; the least k that must take a second is the first
    one above the rate.
    """
    if not gap:
        return 0.0
    rate = 1 / gap
    return (math.floor(rate) + 1 - rate) * gap / 2
