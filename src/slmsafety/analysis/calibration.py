"""Whether events happen as often as their probabilities say."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def expected_calibration_error(probability: ArrayLike, event: ArrayLike, bins: int = 10) -> float:
    """Return the mean gap between probability and frequency over bins of equal width, weighted by rows.

    Parameters
    ----------
    probability : array of float, shape (n,)
        The probability of each row's event, 0..1. For labels of several classes take the highest probability.
    event : array of bool, shape (n,)
        Whether it happened. For labels of several classes: whether that class is the right one.
    bins : int
        The number of bins.

    Returns
    -------
    float
        0 (in every bin the event happens as often as predicted) to 1 (always predicted and never there, or the
        reverse); nan without rows.

    References
    ----------
    Naeini, M. P., Cooper, G. F. and Hauskrecht, M. (2015). Obtaining well calibrated probabilities using Bayesian
    binning. AAAI. Guo, C. et al. (2017). On calibration of modern neural networks. ICML.
    """
    chance, happened = np.asarray(probability, float), np.asarray(event, bool)
    if not len(chance):
        return float("nan")
    bin_of_row = np.minimum((chance * bins).astype(int), bins - 1)
    return float(np.abs(np.bincount(bin_of_row, chance - happened)).sum() / len(chance))
