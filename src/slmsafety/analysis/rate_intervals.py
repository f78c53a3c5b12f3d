"""Intervals of rates over prompts, where prompts of one group depend on each other.

The unit is the group (`group` of the prompts table): prompts of one group are variants of one question. Another draw of
prompts would draw other groups; models and judge stay as they are.

References
----------
Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference. JASA 22, 209-212.
Clopper, C. J. and Pearson, E. S. (1934). The use of confidence or fiducial limits. Biometrika 26, 404-413.
Liang, K.-Y. and Zeger, S. L. (1986). Longitudinal data analysis using generalized linear models. Biometrika 73, 13-22.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import t
from statsmodels.stats.proportion import proportion_confint

from slmsafety.analysis import units
from slmsafety.analysis.outcomes import RATES, SCORES, by_prompt
from slmsafety.analysis.proportions import wilson_interval
from slmsafety.analysis.resampling import FEWEST_CLUSTERS, cluster_sums

COLUMNS = (
    "suite",
    "model",
    "n",
    "prompts",
    "groups",
    *(f"{rate}{end}" for rate in RATES for end in ("", "_low", "_high")),
)


def rate_intervals(labels: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Return each model's rates in each suite with their intervals.

    Parameters
    ----------
    labels : DataFrame
        suite, instance_id, model, expected, label (0 harmful, 1 ambiguous, 2 safe, missing), a row a reply; a prompt
        can have several. `group` (text) names the prompts that belong together; without it each prompt is a group.
        Prompts to answer are left out, and so are rows without a label: where these are not missing at random, no
        interval covers.
    confidence : float
        0..1: how often the interval of another draw of groups would hold the rate.

    Returns
    -------
    DataFrame
        A row a suite and model: n (int: replies with a label), prompts and groups (int: theirs), and hcr, ar, srr and
        mean (0..1, as in `outcomes`) with <rate>_low and <rate>_high (`interval`; nan below ten groups).
    """
    harm = labels[(labels["expected"] == "refuse") & labels["label"].notna()]
    rows = []
    for (suite, model), known in harm.groupby(["suite", "model"], sort=True):
        score = known["label"].astype("float64") / 2
        values = pd.DataFrame({rate: score == value for rate, value in SCORES.items()}).assign(mean=score)
        per_prompt = by_prompt(values, known)
        groups = units.groups(known.drop_duplicates("instance_id"))
        found: dict[str, object] = {"suite": suite, "model": model, "n": len(known), "prompts": len(per_prompt)}
        found["groups"] = len(np.unique(groups))
        for rate in RATES:
            low, high = interval(per_prompt[rate].to_numpy(), groups, confidence)
            found |= {rate: float(per_prompt[rate].mean()), f"{rate}_low": low, f"{rate}_high": high}
        rows.append(found)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def interval(values: ArrayLike, groups: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Return the limits of a mean over prompts.

    Parameters
    ----------
    values : array of float, shape (n,)
        One value a prompt, 0..1.
    groups : array, shape (n,)
        Names each prompt's group.
    confidence : float
        0..1.

    Returns
    -------
    tuple of float
        Low and high, 0..1. Wilson's where every value is 0 or 1 and every prompt a group of its own; Clopper and
        Pearson's with the number of groups as n where all values are 0 or all 1; else the mean on the logit scale with
        the standard error of the groups' sums and the quantile of t with one degree less than groups. Where all values
        are the same number between, two prompts of 0 and two of 1 are added for the error alone. nan below ten groups.
    """
    numbers = np.asarray(values, float)
    sums = cluster_sums(np.column_stack([numbers, np.ones(len(numbers))]), groups)
    count, mean = len(sums), float(numbers.mean()) if len(numbers) else math.nan
    if count < FEWEST_CLUSTERS:
        return math.nan, math.nan
    if mean in (0.0, 1.0):
        low, high = proportion_confint(round(mean * count), count, alpha=1 - confidence, method="beta")
        return (0.0 if mean == 0 else float(low)), (1.0 if mean == 1 else float(high))
    if count == len(numbers) and np.isin(numbers, (0, 1)).all():
        return wilson_interval(float(numbers.sum()), count, confidence)
    error = _error(sums)
    if error == 0:
        pseudo = np.array([[0.0, 1.0]] * 2 + [[1.0, 1.0]] * 2)
        error = _error(np.vstack([sums, pseudo]))
    wide = float(t.ppf((1 + confidence) / 2, count - 1)) * error / (mean * (1 - mean))
    middle = math.log(mean / (1 - mean))
    low, high = (1 / (1 + math.exp(-(middle + side * wide))) for side in (-1, 1))
    return float(low), float(high)


def _error(sums: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """The standard error of a mean from the sum and the number of values of each group (n, 2)."""
    count, total = len(sums), sums[:, 1].sum()
    residual = sums[:, 0] - sums[:, 0].sum() / total * sums[:, 1]
    return float(math.sqrt(count / (count - 1) * (residual**2).sum()) / total)
