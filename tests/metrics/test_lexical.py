from __future__ import annotations

import math

import pytest

from slmsafety.metrics.lexical import lexical_sophistication
from slmsafety.models.encoder import word_frequencies

FREQUENCIES = {"house": 1e-3, "abode": 1e-6}


def test_the_mean_is_over_occurrences_that_the_list_knows() -> None:
    assert lexical_sophistication(["house", "abode"], FREQUENCIES) == pytest.approx(4.5)
    assert lexical_sophistication(["house", "house", "abode"], FREQUENCIES) == pytest.approx(4.0)
    assert lexical_sophistication(["house", "abbode", "2024"], FREQUENCIES) == pytest.approx(3.0)


def test_nothing_known_is_undefined() -> None:
    assert math.isnan(lexical_sophistication([], FREQUENCIES))
    assert math.isnan(lexical_sophistication(["xqzt"], FREQUENCIES))


def test_frequencies_are_wordfreqs() -> None:
    made = word_frequencies()
    assert made.name == "wordfreq's large English list (package wordfreq 3.1.1)"
    # Its Zipf values, as wordfreq 3.1.1 prints them: the 7.73, house 5.71, abode 3.13, and nothing for a misspelling.
    zipf = {word: round(math.log10(made.frequencies[word]) + 9, 2) for word in ("the", "house", "abode")}
    assert zipf == {"the": 7.73, "house": 5.71, "abode": 3.13}
    assert "abbode" not in made.frequencies
    assert 0.5 < sum(made.frequencies.values()) < 1.2
