"""What a judge may spend: every attempt is set aside before it is sent and counted when it ends."""

from __future__ import annotations

import pytest

from slmsafety.judging.llm.budget import NANO, Account, Budget
from slmsafety.judging.llm.cost import Price, Size
from slmsafety.models.answers import Again, Completion, Failure

PRICE = Price.model_validate({"input": 2.5, "output": 10, "date": "2026-11-01"})
SIZE = Size(input=100, most_input=400, most_output=256)
MOST = PRICE.cost(400, 256)
ONE = PRICE.cost(150, 20)


def heard(input_tokens=150, output_tokens=20):
    return Completion("No.", "stop", input_tokens, output_tokens, "tiny", None, 1)


def budget(limit=None, **more):
    return Budget(PRICE, limit, **more)


def test_calls_at_once_are_set_aside_together():
    found = budget(2.5 * MOST)
    assert [found.reserve(key, SIZE) for key in range(3)] == [True, True, False]
    assert found.attempt(0)
    found.ended(0, heard())
    assert found.reserve(2, SIZE)
    assert found.spent == found.own == pytest.approx(ONE) and found.calls == 1


def test_every_attempt_of_a_call_is_paid_for():
    found = budget(3.5 * MOST)
    assert found.reserve("a", SIZE)
    for answer in (Again("http_500"), Again("malformed"), heard()):
        assert found.attempt("a")
        found.ended("a", answer)
    assert found.spent == pytest.approx(2 * MOST + ONE) and found.calls == 3


def test_a_further_attempt_is_not_made_where_there_is_no_room_for_it():
    found = budget(1.5 * MOST)
    assert found.reserve("a", SIZE) and found.attempt("a")
    found.ended("a", None)
    assert not found.attempt("a")
    assert found.spent == pytest.approx(MOST) and found.calls == 1


def test_a_rate_limit_costs_nothing():
    found = budget(1.5 * MOST)
    assert found.reserve("a", SIZE)
    for _ in range(5):
        assert found.attempt("a")
        found.ended("a", Again("rate_limit", None, 1.0))
    assert found.spent == 0 and found.reserve("b", SIZE)


def test_what_was_sent_and_not_heard_of_counts_and_what_was_not_sent_does_not():
    found = budget()
    for key in "ab":
        assert found.reserve(key, SIZE)
    assert found.attempt("a")
    found.settle()
    assert found.spent == pytest.approx(MOST)
    found.ended("a", heard())
    assert found.spent == pytest.approx(MOST)


def test_a_limit_is_used_up_to_the_last_call_that_fits():
    found = budget(100 * MOST)
    for key in range(100):
        assert found.reserve(key, SIZE) and found.attempt(key)
        found.ended(key, None)
    assert not found.reserve("one more", SIZE)
    assert found.spent <= found.limit and found.spent == pytest.approx(100 * MOST)


def test_an_absurd_count_is_told_once_and_counted_at_the_most():
    said: list[str] = []
    found = budget(say=said.append)
    for key, tokens in enumerate((10**15, -1, 150)):
        assert found.reserve(key, SIZE) and found.attempt(key)
        found.ended(key, heard(tokens))
    assert found.spent == pytest.approx(2 * PRICE.cost(400, 20) + ONE)
    assert len(said) == 1 and "more than a call can have" in said[0]


def test_a_server_that_writes_more_than_it_may_is_expected_to_do_so_again():
    """A limit of tokens that a server does not keep must not let the dollars' limit be passed."""
    twice = PRICE.cost(400, 512)
    found = budget(3.1 * twice)
    assert found.reserve("first", SIZE) and found.attempt("first")
    found.ended("first", heard(400, 512))
    assert [found.reserve(key, SIZE) for key in range(3)] == [True, True, False]


def test_what_waits_is_set_aside_anew_once_a_server_has_taken_more_than_was_thought():
    more = PRICE.cost(4000, 20)
    found = budget(3.1 * more)
    for key in range(4):
        assert found.reserve(key, SIZE)
    assert found.attempt(0)
    found.ended(0, heard(4000))
    assert [found.attempt(key) for key in (1, 2, 3)] == [True, False, True]
    for key in (1, 3):
        found.ended(key, heard(4000))
    assert found.spent == pytest.approx(3 * more)


def test_without_a_price_nothing_is_counted():
    found = Budget(None)
    assert found.reserve("a", Size(10**9, 10**9, 10**9)) and found.attempt("a")
    found.ended("a", heard())
    found.settle()
    assert found.spent == found.calls == 0
    assert found.reserve_batch("b", {"r": SIZE}) and found.room()(SIZE)


def test_a_batch_is_set_aside_whole_or_not_at_all():
    found = budget(2.5 * MOST)
    fits = found.room()
    assert [fits(SIZE) for _ in range(3)] == [True, True, False]
    assert not found.reserve_batch("b", {f"r{number}": SIZE for number in range(3)})
    assert found.reserve_batch("b", {"r0": SIZE, "r1": SIZE})
    assert not found.room()(SIZE)
    assert found.reserve_batch("old", {"r": SIZE}, forced=True)


def test_a_request_of_a_batch_counts_once_however_often_it_is_taken_in():
    found = budget()
    sizes = {"r0": SIZE, "r1": SIZE, "r2": SIZE}
    assert found.reserve_batch("b", sizes)
    for _ in range(2):  # killed after counting, before its rows were kept
        found.ended_batch("b", {"r0": (SIZE, heard()), "r1": (SIZE, Failure("batch_expired", 1))})
        assert found.reserve_batch("b", sizes, forced=True)
    found.release_batch("b")
    assert found.spent == pytest.approx(ONE)
    assert found.reserve_batch("later", {"r1": SIZE})


def test_an_account_s_sums_are_exact():
    account = Account()
    for number in range(1000):
        assert account.reserve({f"w.{number}": 3}, None)
        account.pay({f"w.{number}": 1})
    assert (account.paid, account.reserved) == (1000, 0) and NANO == 10**9
    assert account.pay({"w.0": 7}) == 0
