"""Exact ties. Scores are ratios of counts; in binary floats equal ratios can differ in the last digit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Two different scores (a + t b) / n with n up to 30,000 and t in quarters differ by more than 1 / (4 n)^2 = 7e-11,
# while equal ones differ by float noise near 1e-16.
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
