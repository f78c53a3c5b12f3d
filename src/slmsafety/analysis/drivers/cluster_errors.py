"""How sure an effect is where rows of one cluster (a kind of prompt, a family of models) depend on each other.

The errors come from leaving out one cluster in turn: with few or unequal clusters the common "sandwich" is too small,
since the fit follows a large cluster and leaves too little of it. Intervals and tests take Student's t with one degree
of freedom less than there are clusters.

References
----------
MacKinnon, J. G., Nielsen, M. O. and Webb, M. D. (2023). Fast and reliable jackknife and bootstrap methods for
cluster-robust inference. Journal of Applied Econometrics 38, 671-694 (CV3; of a logistic model, linearised).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular
from scipy.stats import t as student

from slmsafety.analysis.arrays import Floats, Rows
from slmsafety.analysis.resampling import FEWEST_CLUSTERS

_WHOLE = 1 - 1e-9
"""A cluster with this share of what is known of a direction alone determines it."""


def jackknife_covariance(x: Floats, weights: Floats, residuals: Floats, clusters: Rows) -> Floats:
    """Return the covariance of the effects of a fit when other clusters are drawn.

    Parameters
    ----------
    x : array of float, shape (n, k)
        The columns of the fit, of full rank.
    weights : array of float, shape (n,)
        Above 0: 1 for least squares, p (1 - p) for a logistic model.
    residuals : array of float, shape (n,)
        What the fit leaves of the target, on the scale of the target.
    clusters : array of int, shape (n,)
        Numbers each row's cluster.

    Returns
    -------
    array of float, shape (k, k)
        The sum over clusters of the squared change of the effects without it (one step of Newton's method, which least
        squares needs no second of), times (clusters - 1) / clusters. Wholly nan below ten clusters; the row and column
        of an effect that one cluster alone determines are nan.
    """
    size = x.shape[1]
    codes, names = pd.factorize(np.asarray(clusters))
    if len(names) < FEWEST_CLUSTERS:
        return np.full((size, size), np.nan)
    factor = np.linalg.cholesky(x.T @ (x * weights[:, None]))
    order = np.argsort(codes, kind="stable")
    # In these coordinates what all rows know of the effects is the unit matrix.
    apart = solve_triangular(factor, (x * np.sqrt(weights)[:, None])[order].T, lower=True).T
    scores = solve_triangular(factor, (x * residuals[:, None])[order].T, lower=True).T
    ends = np.cumsum(np.bincount(codes))
    moves, lost = np.empty((len(names), size)), np.zeros(size, bool)
    single = np.diff(ends, prepend=0) == 1  # many suites have a cluster for each row: no system to solve
    shares = (apart[ends - 1] ** 2).sum(axis=1)
    single &= shares < _WHOLE
    moves[single] = scores[ends - 1][single] / (1 - shares[single, None])
    for number in np.flatnonzero(~single):
        start, end = ends[number - 1] if number else 0, ends[number]
        known, score = apart[start:end].T @ apart[start:end], scores[start:end].sum(axis=0)
        if np.trace(known) < _WHOLE:
            moves[number] = np.linalg.solve(np.eye(size) - known, score)
            continue
        parts, directions = np.linalg.eigh(known)
        free = parts < _WHOLE
        moves[number] = directions[:, free] @ (directions[:, free].T @ score / (1 - parts[free]))
        gone = np.abs(solve_triangular(factor, directions[:, ~free], lower=True, trans="T"))
        lost |= (gone > 1e-6 * gone.max(axis=0, initial=0)).any(axis=1)
    changes = solve_triangular(factor, moves.T, lower=True, trans="T")
    covariance = (len(names) - 1) / len(names) * changes @ changes.T
    covariance[lost], covariance[:, lost] = np.nan, np.nan
    return np.asarray(covariance, float)


def slope_p(x: Floats, y: Floats, clusters: Rows) -> float:
    """Return the p value (0..1) that y does not change with x in a straight line.

    x, y and clusters have shape (n,), without nan; neither side is constant. nan below ten clusters, and where one
    cluster alone holds what differs in x.
    """
    centred, target = (side - side.mean() for side in (x, y))
    scaled, target = centred / centred.std(), target / target.std()
    slope = float((scaled * target).mean())
    design = np.column_stack([np.ones_like(scaled), scaled])
    variance = jackknife_covariance(design, np.ones_like(scaled), target - slope * scaled, clusters)[1, 1]
    return two_sided(slope, float(np.sqrt(variance)), len(np.unique(clusters)))


def two_sided(value: float, error: float, clusters: int) -> float:
    """Return the p value of a value with its standard error (t with clusters - 1); nan where the error is."""
    return np.nan if np.isnan(error) or clusters < 2 else float(2 * student.sf(abs(value) / error, clusters - 1))


def difference_interval(values: Floats, on: Rows, clusters: Rows, confidence: float = 0.95) -> tuple[float, float]:
    """Return the limits of the mean where `on` is 1 minus the mean where it is 0, for other clusters.

    Parameters
    ----------
    values : array of float, shape (n,)
        No nan.
    on : array of int or bool, shape (n,)
        1 or 0.
    clusters : array of int, shape (n,)
        Numbers each row's cluster.
    confidence : float
        0..1.

    Returns
    -------
    tuple of float
        Low and high; nan below ten clusters, and where a side has rows of one cluster only.

    Notes
    -----
    The bias-reduced errors (CR2) of Bell and McCaffrey with their degrees of freedom: few clusters on one
    side make few of these. `benchmarks/interval_coverage.py` prints how often they cover with 15 families of 1 to 5.

    References
    ----------
    Bell, R. M. and McCaffrey, D. F. (2002). Bias reduction in standard errors for linear regression with multi-stage
    samples. Survey Methodology 28, 169-181. Imbens, G. W. and Kolesar, M. (2016). Robust standard errors in small
    samples. Review of Economics and Statistics 98, 701-712.
    """
    with_it = np.asarray(on, bool)
    sides = [len(np.unique(clusters[side])) for side in (with_it, ~with_it)]
    if len(np.unique(clusters)) < FEWEST_CLUSTERS or min(sides) < 2:
        return np.nan, np.nan
    # The difference is a weighted sum of the values; `rest` takes each side's mean away.
    weights = np.where(with_it, 1 / with_it.sum(), -1 / (~with_it).sum())
    rest = np.eye(len(values)) - np.where(with_it[:, None] == with_it, np.abs(weights), 0.0)
    variance, spread = 0.0, []
    for name in np.unique(clusters):
        own = clusters == name
        shares, directions = np.linalg.eigh(rest[np.ix_(own, own)])
        kept = directions[:, shares > 1e-9]
        adjusted = kept @ (kept.T @ weights[own] / np.sqrt(shares[shares > 1e-9]))
        variance += float(adjusted @ rest[own] @ values) ** 2
        spread.append(rest[:, own] @ adjusted)
    sizes = np.linalg.eigvalsh(np.array(spread) @ np.array(spread).T)
    freedom = sizes.sum() ** 2 / (sizes**2).sum()
    half = float(student.ppf((1 + confidence) / 2, freedom)) * np.sqrt(variance)
    middle = float(weights @ values)
    return middle - half, middle + half
