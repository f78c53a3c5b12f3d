from __future__ import annotations

import math

import numpy as np
import pytest
from analysis_frames import quick
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.analysis.calibration import expected_calibration_error


@pytest.mark.parametrize(
    ("probability", "event", "error"),
    [
        ([1, 1, 1, 1], [1, 1, 1, 1], 0),
        ([1, 1, 1, 1], [1, 1, 1, 0], 0.25),
        ([0.1, 0.1, 0.1, 1.0], [1, 0, 0, 1], 3 * abs(0.1 - 1 / 3) / 4),
        # Bin of 0.5: one of two, no gap; bin of 0.8: none, a gap of 0.8 over half of the rows.
        ([0.5, 0.5, 0.8, 0.8], [1, 0, 0, 0], 0.4),
    ],
)
def test_by_hand(probability, event, error):
    assert expected_calibration_error(probability, event) == pytest.approx(error)


def test_no_row_has_no_error():
    assert math.isnan(expected_calibration_error([], []))


@quick
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50))
def test_one_bin_compares_the_means_and_more_bins_never_find_less(rows):
    probability, event = map(np.array, zip(*rows, strict=True))
    coarse = expected_calibration_error(probability, event, bins=1)
    assert coarse == pytest.approx(abs(probability.mean() - event.mean()), abs=1e-12)
    assert coarse - 1e-12 <= expected_calibration_error(probability, event) <= 1
