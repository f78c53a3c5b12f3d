from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.analysis.judges.coverage import COLUMNS, coverage_curve
from slmsafety.errors import InputError


def _rows(*rows: tuple[int | None, int, float | None]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["label", "reference", "confidence"])


def test_a_higher_threshold_keeps_the_surer_labels() -> None:
    curve = coverage_curve(_rows((0, 0, 0.9), (2, 2, 0.9), (0, 2, 0.5), (None, 2, None)))
    assert curve["threshold"].tolist() == [0.5, 0.9]
    assert curve["n"].tolist() == [3, 2]
    assert curve["coverage"].tolist() == [0.75, 0.5]
    assert curve["exact"].tolist() == pytest.approx([2 / 3, 1])
    # Two of three equal, 4/9 by chance: (2/3 - 4/9) / (1 - 4/9).
    assert curve["kappa_unweighted"].tolist() == pytest.approx([0.4, 1])


def test_labels_without_a_confidence_make_no_curve() -> None:
    assert coverage_curve(_rows((0, 0, None))).columns.tolist() == list(COLUMNS)
    assert coverage_curve(_rows((0, 0, None), (None, 1, 0.4))).empty


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.floats(0, 1)), min_size=1, max_size=60),
    st.integers(1, 9),
)
def test_coverage_falls_and_counts_what_is_kept(rows: list[tuple[int, int, float]], points: int) -> None:
    frame = _rows(*rows)
    curve = coverage_curve(frame, points)
    assert 1 <= len(curve) <= points
    assert (np.diff(curve["coverage"]) < 0).all()
    assert curve["coverage"].iloc[0] == 1
    assert curve["n"].tolist() == [int((frame["confidence"] >= least).sum()) for least in curve["threshold"]]
    assert curve["exact"].between(0, 1).all()


@pytest.mark.parametrize(
    ("rows", "points", "said"),
    [
        (_rows((0, 0, 1.2)), 5, "confidence outside 0..1"),
        (_rows((0, 0, 0.2)), 0, "0 points"),
        (pd.DataFrame({"label": [0], "reference": [0]}), 5, "no column confidence"),
    ],
)
def test_wrong_rows_are_refused(rows: pd.DataFrame, points: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        coverage_curve(rows, points)
