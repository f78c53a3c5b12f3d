"""How much more often one of two judges calls the same replies ambiguous."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import t

from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.resampling import FEWEST_CLUSTERS, cluster_sums

DIFFERENCE = ["ar_difference", "ar_difference_low", "ar_difference_high"]


def ar_difference(both: pd.DataFrame) -> pd.DataFrame:
    """Return the difference of the ambiguity rates of two judges in each suite.

    Parameters
    ----------
    both : DataFrame
        suite, group (the unit of independence within a suite), first and second (labels 0, 1, 2), a row a reply.

    Returns
    -------
    DataFrame
        A row a suite: suite, ar_difference = AR by the second judge minus AR by the first (-1 to 1), and the limits
        ar_difference_low and ar_difference_high of its 95 % interval over groups: the standard error of the groups'
        sums and the quantile of t with one degree less than groups. They are nan below ten groups, and where all groups
        differ alike, whose error of 0 says nothing. Both judges read the same replies: the interval is of the paired
        difference.

    References
    ----------
    Liang, K.-Y. and Zeger, S. L. (1986). Longitudinal data analysis using generalized linear models. Biometrika 73,
    13-22.
    """
    rows = []
    for suite, part in both.groupby("suite", sort=True):
        moved: Floats = part["second"].eq(1).to_numpy(float) - part["first"].eq(1).to_numpy(float)
        rows.append((suite, float(moved.mean()), *_limits(moved, part["group"])))
    return pd.DataFrame(rows, columns=["suite", *DIFFERENCE])


def _limits(values: Floats, groups: pd.Series) -> tuple[float, float]:
    sums = cluster_sums(np.column_stack([values, np.ones(len(values))]), groups)
    mean, count = float(values.mean()), len(sums)
    residual = sums[:, 0] - mean * sums[:, 1]
    error = float(np.sqrt(count / max(count - 1, 1) * (residual**2).sum())) / len(values)
    if count < FEWEST_CLUSTERS or error < _NO_ERROR:
        return np.nan, np.nan
    wide = float(t.ppf(0.975, count - 1)) * error
    return max(mean - wide, -1.0), min(mean + wide, 1.0)


# Above float noise, and below the error that one reply in 500,000 makes.
_NO_ERROR = 1e-9


def no_interval(robustness: pd.DataFrame) -> pd.DataFrame:
    """Return the same from rates alone (suite, ar_first and ar_second): the limits are nan."""
    found = robustness[["suite"]].assign(ar_difference=robustness["ar_second"] - robustness["ar_first"])
    return found.assign(ar_difference_low=np.nan, ar_difference_high=np.nan)


def with_difference(robustness: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """Return Table 5's rows with the difference and its limits after `ar_second`."""
    columns = list(robustness.columns)
    place = columns.index("ar_second") + 1
    order = [*columns[:place], *DIFFERENCE, *columns[place:]]
    return robustness.merge(differences, on="suite", how="left", validate="one_to_one")[order]
