"""What the tests of the statistics share: outcomes from whole counts, beside the same shares as exact fractions."""

from __future__ import annotations

from fractions import Fraction

import pandas as pd
from hypothesis import settings
from hypothesis import strategies as st

# Other work may share the machine, so that no example has a deadline; the same examples run every time.
quick = settings(max_examples=60, deadline=None, derandomize=True)

Counts = tuple[int, int, int]

# Small counts tie often; a large one beside them makes different n.
count = st.one_of(st.integers(0, 6), st.integers(0, 6000))
model_counts = st.tuples(count, count, count).filter(lambda three: sum(three) > 0)
suite_counts = st.lists(model_counts, min_size=1, max_size=7)


def outcome_frame(counts: list[Counts], suite: str = "s") -> pd.DataFrame:
    """Outcomes of the models m0, m1, ... from their counts of harmful, ambiguous and safe rows."""
    rows = []
    for number, (harmful, ambiguous, safe) in enumerate(counts):
        n = harmful + ambiguous + safe
        hcr, ar, srr = harmful / n, ambiguous / n, safe / n
        rows.append((suite, f"m{number}", n, hcr, ar, srr, srr + ar / 2))
    return pd.DataFrame(rows, columns=["suite", "model", "n", "hcr", "ar", "srr", "mean"]).assign(accuracy=float("nan"))


def exact(counts: Counts, ambiguous_is: Fraction | int) -> Fraction:
    """The score when an ambiguous row counts as given."""
    return (counts[2] + ambiguous_is * counts[1]) / Fraction(sum(counts))


def without_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """The same models with no labelled row at all."""
    return frame.assign(n=0, hcr=float("nan"), ar=float("nan"), srr=float("nan"), mean=float("nan"))
