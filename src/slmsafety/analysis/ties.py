"""Exact ties. Scores are ratios of counts; in binary floats equal ratios can differ in the last digit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

# With n up to 30,000 labels two different scores (a + t b) / n, t in quarters, differ by at least 1 / (4 n^2) = 3e-10,
# and two different shares a / (a + c) (ambiguous rows dropped) by at least 1 / n^2 = 1e-9; equal ones differ by float
# noise near 1e-16. An adjusted score has the denominator 2 n^2: at one n two differ by at least 1 / (2 n^2) = 6e-10,
# at two different n they can come closer than the tolerance and then count as tied.
TOLERANCE = 1e-11


def sign(difference: ArrayLike) -> NDArray[np.int_]:
    """Return -1, 0 or 1 for each difference of scores, where float noise counts as a tie (nan raises ValueError)."""
    values = np.asarray(difference, float)
    if np.isnan(values).any():
        raise ValueError("the sign of nan is undefined; leave undefined scores out and count them")
    return np.where(np.abs(values) <= TOLERANCE, 0, np.sign(values)).astype(int)


def snap(values: ArrayLike) -> NDArray[np.float64]:
    """Return the values with every run of ties replaced by its smallest member (nan stays nan)."""
    result = np.array(values, float)
    order = np.argsort(result, kind="stable")
    for before, after in pairwise(order):
        if result[after] - result[before] <= TOLERANCE:
            result[after] = result[before]
    return result
