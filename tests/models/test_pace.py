from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.models.endpoint import Endpoint
from slmsafety.models.pace import Pace, Turns, pace_of


class Clock:
    """A clock on which time passes only by pauses and by sleep, from which a loop wakes `late` seconds late."""

    def __init__(self) -> None:
        self.now, self.late = 1000.0, 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds + self.late


def paced(clock: Clock, **limits: float) -> tuple[Turns, Pace]:
    pace = Pace(clock, clock.sleep)
    return Turns(limited(**limits), pace), pace


def limited(**limits: float) -> Endpoint:
    return Endpoint("http://host/v1", "tiny", **limits)


def sent(turns: Turns, clock: Clock, calls: list[tuple[float, float, float]]) -> list[float]:
    """The times at which calls go that are made (pause, tokens, lateness): asked for after a pause, woken late."""

    async def run() -> AsyncIterator[float]:
        for pause, tokens, late in calls:
            clock.now, clock.late = clock.now + pause, late
            await turns.turn(tokens)
            yield clock.now

    async def times() -> list[float]:
        return [time async for time in run()]

    return asyncio.run(times())


def most_in_a_second(times: list[float]) -> int:
    # A call a whole second after another one, but for the rounding of sums, lies outside of its second.
    return max(sum(start <= time < start + 1 - 1e-6 for time in times) for start in times)


LATE = st.one_of(st.just(0.0), st.floats(0, 0.01), st.floats(0, 3))
CALLS = st.lists(st.tuples(st.one_of(st.just(0.0), st.floats(0, 5)), st.just(1.0), LATE), min_size=1, max_size=60)


@given(st.floats(0.02, 40), CALLS)
def test_no_second_has_more_calls_than_the_rate_plus_one(rate: float, calls: list[tuple[float, float, float]]) -> None:
    clock = Clock()
    times = sent(paced(clock, requests_per_minute=60 * rate)[0], clock, calls)
    assert most_in_a_second(times) <= rate + 1


@pytest.mark.parametrize("rate", [0.5, 1, 7, 100])
def test_the_rate_is_used_up(rate: float) -> None:
    """A loop that wakes a little late each time loses nothing of it."""
    clock = Clock()
    late = min(0.2 / rate, 0.001)
    times = sent(paced(clock, requests_per_minute=60 * rate)[0], clock, [(0.0, 1.0, late)] * 200)
    assert 199 / (times[-1] - times[0]) == pytest.approx(rate, rel=0.01)


def test_a_hold_back_is_waited_out_and_followed_at_the_rate() -> None:
    clock = Clock()
    turns, pace = paced(clock, requests_per_minute=600)
    first = sent(turns, clock, [(0.0, 1.0, 0.0)] * 3)
    pace.hold(2.0)
    rest = sent(turns, clock, [(0.0, 1.0, 0.0)] * 5)
    assert rest[0] == pytest.approx(first[-1] + 2.0)
    assert [later - sooner for sooner, later in pairwise(rest)] == pytest.approx([0.1] * 4)


def test_a_shorter_hold_back_does_not_end_a_longer_one() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.hold(5.0)
    pace.hold(1.0)
    assert pace.take(0.0) == pytest.approx(5.0)


def test_tokens_are_paced_by_what_is_expected_and_corrected_upwards_only() -> None:
    clock = Clock()
    turns, _ = paced(clock, tokens_per_minute=6000)
    first = sent(turns, clock, [(0.0, 50.0, 0.0)])[0]
    turns.correct(expected=50, took=150)
    second = sent(turns, clock, [(0.0, 50.0, 0.0)])[0]
    turns.correct(expected=50, took=5)
    third = sent(turns, clock, [(0.0, 50.0, 0.0)])[0]
    assert (second - first, third - second) == (pytest.approx(1.5), pytest.approx(0.5))


def test_the_same_model_has_one_pace_and_another_one_its_own() -> None:
    here = limited(requests_per_minute=5)
    assert pace_of(here) is pace_of(limited(requests_per_minute=7))
    others = [
        Endpoint("http://host/v1", "other"),
        Endpoint("http://host2/v1", "tiny"),
        Endpoint("http://host/v1", "tiny", "K"),
    ]
    assert len({id(pace_of(each)) for each in (here, *others)}) == 4


def test_two_loops_share_a_pace() -> None:
    pace, endpoint = Pace(), limited(requests_per_minute=1200)
    began = time.monotonic()
    for _ in range(2):
        turns = Turns(endpoint, pace)
        asyncio.run(turns.turn(1.0))
        asyncio.run(turns.turn(1.0))
    assert time.monotonic() - began >= 3 * 0.05 - 0.025
