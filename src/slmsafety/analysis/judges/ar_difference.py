"""How much more often one of two judges calls the same replies ambiguous."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.analysis import units
from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.mean_intervals import difference_interval, interval
from slmsafety.analysis.proportions import wilson_interval

LIMITS = ["ar_first_low", "ar_first_high", "ar_second_low", "ar_second_high"]
DIFFERENCE = ["ar_difference", "ar_difference_low", "ar_difference_high"]


def ar_difference(both: pd.DataFrame) -> pd.DataFrame:
    """Return the difference of the ambiguity rates of two judges in each suite.

    Parameters
    ----------
    both : DataFrame
        suite, instance_id, group (optional, `units.groups`), first and second (labels 0, 1, 2), a row a reply.

    Returns
    -------
    DataFrame
        A row a suite: suite, the limits of both judges' AR (`LIMITS`, `mean_intervals.interval`), ar_difference = AR by
        the second judge minus AR by the first (-1 to 1) and its limits ar_difference_low and ar_difference_high
        (`mean_intervals.difference_interval`: both judges read the same replies). All are over groups, nan below ten.
    """
    rows = []
    for suite, part in both.groupby("suite", sort=True):
        moved: Floats = part["second"].eq(1).to_numpy(float) - part["first"].eq(1).to_numpy(float)
        group = units.groups(part)
        each = [limit for name in ("first", "second") for limit in interval(part[name].eq(1), group)]
        rows.append((suite, *each, float(moved.mean()), *difference_interval(moved, group)))
    return pd.DataFrame(rows, columns=["suite", *LIMITS, *DIFFERENCE])


def no_interval(robustness: pd.DataFrame) -> pd.DataFrame:
    """Return the same from rates and n alone (suite, n, models, ar_first and ar_second).

    Each of `models` answered every prompt. The rates' limits are Wilson's of the prompts, as if all models' replies to
    one were alike: the widest there can be. Those of the difference are nan.
    """
    found = robustness[["suite"]].copy()
    for name in ("ar_first", "ar_second"):
        prompts = robustness["n"] / robustness["models"]
        pairs = zip(robustness[name] * prompts, prompts, strict=True)
        limits = [wilson_interval(float(count), int(n)) for count, n in pairs]
        found[[f"{name}_low", f"{name}_high"]] = limits
    found["ar_difference"] = robustness["ar_second"] - robustness["ar_first"]
    return found.assign(ar_difference_low=np.nan, ar_difference_high=np.nan)


def with_difference(robustness: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """Return Table 5's rows with the rates' limits beside them, and the difference with its limits after."""
    columns = list(robustness.columns)
    first, second = columns.index("ar_first") + 1, columns.index("ar_second") + 1
    order = [*columns[:first], *LIMITS[:2], *columns[first:second], *LIMITS[2:], *DIFFERENCE, *columns[second:]]
    return robustness.merge(differences, on="suite", how="left", validate="one_to_one")[order]
