"""The cluster bootstrap: how far a statistic would move if other clusters (prompts, categories, families) were drawn.

A cluster is a set of rows that depend on each other. A statistic that is a function of sums over rows needs only the
sums of each cluster: `cluster_sums` makes them, `resampled_totals` draws whole clusters with replacement, and
`percentile_interval` reads the limits off the statistics of the draws.

The rule for nan: a draw whose statistic is undefined (nan) is left out; where no draw has one, and below `fewest`
clusters, both limits are nan.

References
----------
Davison, A. C. and Hinkley, D. V. (1997). Bootstrap Methods and their Application, sections 3.8 and 5.3.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from slmsafety.analysis.arrays import Floats

FEWEST_CLUSTERS = 10
"""Below this many clusters, resampling them says little about clusters in general."""


def cluster_sums(values: ArrayLike, clusters: ArrayLike) -> Floats:
    """Sum the rows of each cluster.

    Parameters
    ----------
    values : array of float, shape (n, k)
        What is summed. No nan.
    clusters : array, shape (n,)
        Names each row's cluster; missing names are one cluster.

    Returns
    -------
    array of float, shape (clusters, k)
        In the order of each cluster's first row.
    """
    columns = np.asarray(values, float)
    codes, names = pd.factorize(pd.Series(clusters), use_na_sentinel=False)
    return np.column_stack([np.bincount(codes, column, minlength=len(names)) for column in columns.T])


def resampled_totals(sums: Floats, rng: np.random.Generator, resamples: int = 2000, fewest: int = 2) -> Floats:
    """Draw whole clusters with replacement, as many as there are, and add up their sums.

    Parameters
    ----------
    sums : array of float, shape (clusters, k)
        The sums of each cluster (`cluster_sums`).
    rng : numpy.random.Generator
        Makes the draws; the same state gives the same draws.
    resamples : int
        The number of draws.
    fewest : int
        Below this many clusters every total is nan, and nothing is drawn.

    Returns
    -------
    array of float, shape (resamples, k)
        The totals of each draw.
    """
    n = len(sums)
    if n < fewest:
        return np.full((resamples, sums.shape[1]), np.nan)
    return np.asarray(rng.multinomial(n, np.full(n, 1 / n), size=resamples) @ sums, float)


def percentile_interval(draws: Floats, confidence: float = 0.95) -> Floats:
    """Return the low and the high limit of each statistic over its draws.

    Parameters
    ----------
    draws : array of float, shape (resamples, ...)
        The statistics of each draw; nan where one is undefined.
    confidence : float
        The share of the draws between the limits, 0..1.

    Returns
    -------
    array of float, shape (2, ...)
        Low and high; nan where no draw is defined.
    """
    some = ~np.isnan(draws).all(axis=0)
    limits = np.full((2, *draws.shape[1:]), np.nan)
    limits[:, some] = np.nanquantile(draws[:, some], [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return limits
