"""The cluster bootstrap: how far a statistic would move if other clusters (prompts, categories, families) were drawn.

A cluster is a set of rows that depend on each other. A statistic that is a function of sums over rows needs only the
sums of each cluster: `cluster_sums` makes them, `resampled_totals` draws whole clusters with replacement, and
`percentile_interval` reads the limits off the statistics of the draws.

The rule for nan: a draw whose statistic is undefined (nan) is left out; where no draw has one, and below `fewest`
clusters, both limits are nan.

References
----------
Davison, A. C. and Hinkley, D. V. (1997). Bootstrap Methods and their Application, sections 3.8 and 5.3. Hesterberg, T.
C. (2015). What teachers should know about the bootstrap. The American Statistician 69, 371-386 (`widened`).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm, t

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


def reach(clusters: int, confidence: float = 0.95) -> float:
    """Return how many standard errors an interval reaches to each side; nan below two clusters."""
    return float(t.ppf((1 + confidence) / 2, clusters - 1)) if clusters > 1 else np.nan


def widened(clusters: int, confidence: float = 0.95) -> float:
    """Return the confidence to take percentiles at, so that few clusters are no narrower than Student's t has them.

    The draws of n clusters vary less than other clusters do, by (n - 1) / n, and their percentiles lie where those of a
    normal would; what is returned puts them where t with n - 1 degrees of freedom does. It goes to `confidence` (0..1)
    as n grows: .983 for ten clusters, .963 for thirty; 1 below two.
    """
    if clusters < 2:
        return 1.0
    return float(2 * norm.cdf(np.sqrt(clusters / (clusters - 1)) * reach(clusters, confidence)) - 1)
