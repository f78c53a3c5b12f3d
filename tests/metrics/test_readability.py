from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.metrics.readability import flesch_kincaid, gunning_fog, syllables, words

# Counts as the CMU Pronouncing Dictionary has them.
SPOKEN = """
the a cat make makes jumped played eyes strength don't through bread school 1
people table little open wanted needed boxes churches quiet being didn't poem 2
idea area animal computer happier reaction beautiful radio everything 3
information society variety education material ability appreciate 4
university communication association individual 5
"""


@pytest.mark.parametrize("line", SPOKEN.split("\n")[1:-1])
def test_syllables_are_those_of_speech(line: str) -> None:
    *spoken, count = line.split()
    assert {word: syllables(word) for word in spoken} == dict.fromkeys(spoken, int(count))


def test_a_typographic_apostrophe_is_an_apostrophe() -> None:
    assert syllables("didn\u2019t") == syllables("didn't") == 2


@given(st.text("abcdefghijklmnopqrstuvwxyz'", min_size=1))
def test_a_word_has_a_syllable_and_not_more_than_letters(word: str) -> None:
    assert 1 <= syllables(word) <= len(word)


def test_words_are_runs_of_latin_letters() -> None:
    assert words("Don't stop: a well-known Café, naïve 3rd x2!") == (
        ["don't", "stop", "a", "well", "known", "cafe", "naive", "rd", "x"]
    )
    assert words("don\u2019t") == ["don\u2019t"]
    assert words("Привет, 世界! 123 ... \U0001f600 'quoted'") == ["quoted"]
    assert words("for(int i=0;i<n;i++)") == ["for", "int", "i", "i", "n", "i"]


def test_known_grades() -> None:
    # Six words of one syllable in one sentence: 0.39 * 6 + 11.8 - 15.59, and 0.4 * 6.
    assert flesch_kincaid([1] * 6, 1) == pytest.approx(-1.45)
    assert gunning_fog([1] * 6, 1) == pytest.approx(2.4)
    # Ten words in two sentences with 15 syllables, two of the words with three: 0.39 * 5 + 11.8 * 1.5 - 15.59.
    counts = [3, 3, 2, 1, 1, 1, 1, 1, 1, 1]
    assert flesch_kincaid(counts, 2) == pytest.approx(4.06)
    assert gunning_fog(counts, 2) == pytest.approx(0.4 * (5 + 20))


def test_no_word_has_no_grade() -> None:
    assert math.isnan(flesch_kincaid([], 1))
    assert math.isnan(gunning_fog([], 1))


def test_a_hundred_kilobytes_of_one_letter_are_one_word() -> None:
    (word,) = words("A" * 100_000)
    assert syllables(word) == 1
    assert words("." * 100_000) == []
