"""How far two judges agree on ternary labels, from their confusion counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import binomtest
from statsmodels.stats.inter_rater import cohens_kappa

from slmsafety.analysis.arrays import Counts
from slmsafety.analysis.judges.kappa import kappa_intervals, kappas
from slmsafety.errors import InputError
from slmsafety.records.schema import LABELS


class Agreement(NamedTuple):
    """Agreement of a first and a second judge; every share is of n, and nan when n is 0.

    n: replies that both labelled. ar_first, ar_second: shares that each calls ambiguous. exact: share with the same
    label. kappa: Cohen's kappa with linear weights (1: always the same label; 0: as by chance; below 0: less), with the
    95 % limits kappa_low and kappa_high. boundary: share with exactly one judge at ambiguous. flips: share of harmful
    against safe; first_safe_second_harmful and first_harmful_second_safe count them by direction, and flip_symmetry_p
    is the exact two-sided binomial test that both directions are alike (nan without a flip).

    kappa is also nan when both judges use one and the same label throughout, its interval also when the standard error
    is 0 and says nothing (the judges agree on every row, one of them uses a single label, and the like).
    """

    n: int
    ar_first: float
    ar_second: float
    exact: float
    kappa: float
    kappa_low: float
    kappa_high: float
    boundary: float
    flips: float
    first_safe_second_harmful: int
    first_harmful_second_safe: int
    flip_symmetry_p: float


def confusion(first: ArrayLike, second: ArrayLike) -> Counts:
    """Return the 3 x 3 counts of labels 0, 1, 2: rows are the first judge's, columns the second's.

    Raises InputError for anything else, such as the scores 0, 0.5, 1 or a missing label.
    """
    a, b = (_labels(values) for values in (first, second))
    counts = np.zeros((3, 3), np.int64)
    np.add.at(counts, (a, b), 1)
    return counts


def agreement(counts: ArrayLike) -> Agreement:
    """Return the agreement of two judges (paper, Table 5).

    Parameters
    ----------
    counts : array of int, shape (3, 3)
        Confusion counts of the labels 0, 1, 2: rows are the first judge's, columns the second's (`confusion`).

    Returns
    -------
    Agreement
        The interval of kappa takes replies as independent.

    References
    ----------
    Cohen, J. (1968). Weighted kappa. Psychological Bulletin 70, 213-220. Fleiss, J. L., Cohen, J. and Everitt, B. S.
    (1969). Large sample standard errors of kappa and weighted kappa. Psychological Bulletin 72, 323-327.
    """
    table = np.asarray(counts, np.int64)
    n = int(table.sum())
    down, up = int(table[2, 0]), int(table[0, 2])
    if n == 0:
        return Agreement(0, *(np.nan,) * 8, down, up, np.nan)
    low, high = _kappa_interval(table)
    return Agreement(
        n=n,
        ar_first=table[1].sum() / n,
        ar_second=table[:, 1].sum() / n,
        exact=np.trace(table) / n,
        kappa=float(kappas(table)["kappa"]),
        kappa_low=low,
        kappa_high=high,
        boundary=(table[1, [0, 2]].sum() + table[[0, 2], 1].sum()) / n,
        flips=(down + up) / n,
        first_safe_second_harmful=down,
        first_harmful_second_safe=up,
        flip_symmetry_p=float(binomtest(down, down + up).pvalue) if down + up else np.nan,
    )


# Above float noise, and below the standard error of kappa with one disagreement in 500,000 rows.
_NO_ERROR = 1e-6


def agreement_over_groups(
    first: ArrayLike, second: ArrayLike, groups: ArrayLike, resamples: int = 2000, seed: int = 0
) -> Agreement:
    """Return the agreement of two judges' labels (0, 1, 2), with the interval of kappa over groups of prompts.

    `first`, `second` and `groups` (`units.groups`) have a value a reply; see `kappa_intervals` for the rest. The test
    of symmetry still takes replies as independent.
    """
    low, high = kappa_intervals(first, second, groups, resamples, seed)["kappa"]
    return agreement(confusion(first, second))._replace(kappa_low=low, kappa_high=high)


def _labels(values: ArrayLike) -> Counts:
    found = np.asarray(pd.Series(values).astype("float64"), dtype=np.float64)
    bad = ~np.isin(found, list(LABELS))
    if bad.any():
        raise InputError(
            f"row {bad.argmax()} has label {found[bad.argmax()]:g}; valid: 0 (harmful), 1 (ambiguous), 2 (safe)"
        )
    return np.asarray(found, dtype=np.int64)


def _kappa_interval(table: Counts) -> tuple[float, float]:
    """Return the 95 % limits of kappa with linear weights, nan where `Agreement` says so."""
    # One label throughout makes kappa 0 / 0, which is nan; float noise can put a variance of 0 below 0, and statsmodels
    # also divides by the standard error under kappa = 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        result = cohens_kappa(table, wt="linear")
    if not result.std_kappa > _NO_ERROR:
        return np.nan, np.nan
    return float(result.kappa_low), float(result.kappa_upp)


def confusion_from_long(table: pd.DataFrame) -> Counts:
    """Return the 3 x 3 counts from a frame of the columns first, second (scores 0, 0.5, 1) and count."""
    counts = np.zeros((3, 3), np.int64)
    rows, columns = (np.rint(table[name].to_numpy(float) * 2).astype(int) for name in ("first", "second"))
    np.add.at(counts, (rows, columns), table["count"].to_numpy(np.int64))
    return counts


def confusion_frame(counts: ArrayLike, first: str, second: str) -> pd.DataFrame:
    """Return the nine cells as rows: the labels by `first` and `second`, count, and percent of all (nan when empty)."""
    table = np.asarray(counts, np.int64)
    total = table.sum()
    rows = [
        (LABELS[a], LABELS[b], int(table[a, b]), 100 * table[a, b] / total if total else np.nan)
        for a in LABELS
        for b in LABELS
    ]
    return pd.DataFrame(rows, columns=[first, second, "count", "percent"])
