from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cosine as scipy_distance

from slmsafety.metrics.similarity import cosine

_VECTORS = arrays(np.float64, (2, 4, 3), elements=st.floats(-100, 100).filter(lambda x: x == 0 or abs(x) > 1e-3))


@settings(deadline=None)
@given(_VECTORS)
def test_each_row_is_as_in_scipy(pair: np.ndarray) -> None:
    made = cosine(*pair)
    assert made.shape == (4,)
    for value, first, second in zip(made, *pair, strict=True):
        if not first.any() or not second.any():
            assert np.isnan(value)
        else:
            np.testing.assert_allclose(value, 1 - scipy_distance(first, second), atol=1e-12)


def test_known_angles() -> None:
    first = np.array([[1, 0], [1, 0], [1, 0], [3, 4], [0, 0]], np.float32)
    second = [[2, 0], [0, 5], [-1, 0], [4, 3], [1, 1]]
    np.testing.assert_allclose(cosine(first, second), [1, 0, -1, 0.96, np.nan], atol=1e-15)


def test_no_rows() -> None:
    assert cosine(np.empty((0, 3)), np.empty((0, 3))).shape == (0,)
