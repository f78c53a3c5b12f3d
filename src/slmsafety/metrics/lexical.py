"""Lexical sophistication: how rare the vocabulary is (paper section 3.3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping


def lexical_sophistication(content_words: Iterable[str], frequencies: Mapping[str, float]) -> float:
    """Return the mean of -log10 of the frequency of a text's content words, from about 2 (common) to 8 (rare).

    `content_words` are in lower case, each occurrence counts. A word that the list does not have is left out, since a
    misspelt word is not a rare one; nan when none is left. Kyle and Crossley 2015 (word frequency, content words, log),
    with the sign turned so that a rarer vocabulary has a higher value.
    """
    known = [frequencies[word] for word in content_words if word in frequencies]
    return -math.fsum(map(math.log10, known)) / len(known) if known else float("nan")
