from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slmsafety.metrics.memo import Memo, well_formed


class Counted:
    """The length of each text, and every text that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> list[int]:
        self.asked += texts
        return [len(text) for text in texts]


def test_identical_texts_are_computed_once() -> None:
    counted = Counted()
    memo = Memo(counted)
    assert memo(["aa", "b", "aa"]) == [2, 1, 2]
    assert memo(["b", "ccc", "aa"]) == [1, 3, 2]
    assert memo([]) == []
    assert counted.asked == ["aa", "b", "ccc"]


def test_only_the_latest_results_are_kept() -> None:
    counted = Counted()
    memo = Memo(counted, size=2)
    memo(["a", "b"])
    memo(["a"])  # used again: b is the older one now
    memo(["c"])
    assert memo(["a"]) == [1]
    assert memo(["b"]) == [1]
    assert counted.asked == ["a", "b", "c", "b"]


def test_one_call_may_be_larger_than_what_is_kept() -> None:
    assert Memo(Counted(), size=1)(["a", "bb", "a", "ccc"]) == [1, 2, 1, 3]


@given(st.lists(st.lists(st.text("ab", max_size=3))), st.integers(0, 4))
def test_results_do_not_depend_on_what_came_before(calls: list[list[str]], size: int) -> None:
    memo = Memo(Counted(), size)
    for texts in calls:
        assert memo(texts) == [len(text) for text in texts]


def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    counted = Counted()
    assert Memo(counted)(["x\ud800y", "x\udfffy", "\ud83d\ude00", "x\ud800y"]) == [3, 3, 1, 3]
    assert counted.asked == ["x\ufffdy", "x\ufffdy", "\U0001f600"]


@given(st.text())
def test_a_text_that_utf8_holds_stays_as_it_is(text: str) -> None:
    assert well_formed(text) == text
