"""Cohen's kappa of two judges' ternary labels, with linear weights and without, and its interval over groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.resampling import (
    FEWEST_CLUSTERS,
    cluster_sums,
    percentile_interval,
    resampled_totals,
    widened,
)

_DISAGREEMENT = {
    "kappa": np.abs(np.subtract.outer(np.arange(3), np.arange(3))) / 2,
    "kappa_unweighted": 1.0 - np.eye(3),
}


def kappas(counts: ArrayLike) -> dict[str, Floats]:
    """Return Cohen's kappa with linear weights (`kappa`) and without weights (`kappa_unweighted`).

    Parameters
    ----------
    counts : array, shape (..., 3, 3)
        Confusion counts of the labels 0, 1, 2: rows are the first judge's, columns the second's.

    Returns
    -------
    dict of arrays of float, shape (...)
        1 minus the observed over the expected weighted disagreement. 1: the judges agree on every row; 0: as often as
        judges with these shares of labels agree by chance; below 0: less often. nan where both use one and the same
        label throughout, so that no disagreement is expected.

    References
    ----------
    Cohen, J. (1968). Weighted kappa: nominal scale agreement with provision for scaled disagreement or partial credit.
    Psychological Bulletin 70, 213-220.
    """
    table = np.asarray(counts, np.float64)
    total = table.sum(axis=(-2, -1))
    expected = table.sum(axis=-1)[..., :, None] * table.sum(axis=-2)[..., None, :]
    result = {}
    for name, weights in _DISAGREEMENT.items():
        seen, chance = (table * weights).sum(axis=(-2, -1)) * total, (expected * weights).sum(axis=(-2, -1))
        result[name] = 1 - np.divide(seen, chance, out=np.full_like(chance, np.nan), where=chance > 0)
    return result


def kappa_intervals(
    reference: ArrayLike, label: ArrayLike, groups: ArrayLike, resamples: int = 2000, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Return the 95 % limits of both kappas when whole groups of prompts are drawn with replacement.

    Parameters
    ----------
    reference, label : array of int, shape (n,)
        The labels 0, 1, 2 of each row.
    groups : array, shape (n,)
        Names each row's group of prompts (`units.groups`).
    resamples, seed : int
        Of the bootstrap.

    Returns
    -------
    dict of (low, high)
        By the names of `kappas`: percentiles, as far out as few groups ask for (`resampling.widened`). nan below ten
        groups, and for a kappa that no draw defines.
    """
    cells = np.eye(9)[3 * np.asarray(reference, int) + np.asarray(label, int)]
    sums = cluster_sums(cells, groups)
    drawn = resampled_totals(sums, np.random.default_rng(seed), resamples, FEWEST_CLUSTERS)
    found, confidence = kappas(drawn.reshape(-1, 3, 3)), widened(len(sums))
    limits = {name: percentile_interval(values, confidence) for name, values in found.items()}
    return {name: (float(low), float(high)) for name, (low, high) in limits.items()}
