"""How much more often one of two judges calls the same replies ambiguous."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.mean_intervals import difference_interval

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
        ar_difference_low and ar_difference_high of its 95 % interval over groups (nan below ten,
        `mean_intervals.difference_interval`). Both judges read the same replies: the interval is of the paired
        difference.
    """
    rows = []
    for suite, part in both.groupby("suite", sort=True):
        moved: Floats = part["second"].eq(1).to_numpy(float) - part["first"].eq(1).to_numpy(float)
        rows.append((suite, float(moved.mean()), *difference_interval(moved, part["group"])))
    return pd.DataFrame(rows, columns=["suite", *DIFFERENCE])


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
