"""Intervals of means over prompts, where prompts of one group depend on each other.

The unit is the group (`units.groups`): another draw of prompts would draw other groups; models and judge stay as they
are. Below ten groups there is no interval. All limits of means are between 0 and 1. Where fewer than about five groups
hold the rarer label they cover less than they should (`benchmarks/interval_coverage.py`).

References
----------
Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference. JASA 22, 209-212.
Clopper, C. J. and Pearson, E. S. (1934). The use of confidence or fiducial limits. Biometrika 26, 404-413.
Korn, E. L. and Graubard, B. I. (1998). Confidence intervals for proportions with small expected number of positive
counts estimated from survey data. Survey Methodology 24, 193-201.
Liang, K.-Y. and Zeger, S. L. (1986). Longitudinal data analysis using generalized linear models. Biometrika 73, 13-22.
Imbens, G. W. and Manski, C. F. (2004). Confidence intervals for partially identified parameters. Econometrica 72,
1845-1857.
Stoye, J. (2009). More on confidence intervals for partially identified parameters. Econometrica 77, 1299-1315.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.stats import norm, t
from statsmodels.stats.proportion import proportion_confint

from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.proportions import wilson_interval
from slmsafety.analysis.resampling import FEWEST_CLUSTERS, cluster_sums, reach

Limits = tuple[float, float]
NO_LIMITS = (math.nan, math.nan)
_NOISE = 1e-9
"""An error or a distance from 0 or 1 below this is float noise: a reply in 500,000 makes more."""


def interval(values: ArrayLike, groups: ArrayLike, confidence: float = 0.95) -> Limits:
    """Return the limits of a mean over prompts.

    Parameters
    ----------
    values : array of float, shape (n,)
        One value a prompt, 0..1. No nan.
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
    sums = _sums(numbers, groups)
    count, mean = len(sums), _mean(numbers)
    if count < FEWEST_CLUSTERS:
        return NO_LIMITS
    if mean in (0.0, 1.0):
        return _all_alike(mean, count, confidence)
    if count == len(numbers) and np.isin(numbers, (0, 1)).all():
        return wilson_interval(float(numbers.sum()), count, confidence)
    return on_logit_scale(mean, _error(sums), count, confidence)


def score_interval(least: ArrayLike, most: ArrayLike, groups: ArrayLike, confidence: float = 0.95) -> Limits:
    """Return the limits of a score that is known up to how some replies are read.

    Parameters
    ----------
    least, most : array of float, shape (n,)
        What each prompt adds at least and at most, 0..1; least <= most.
    groups : array, shape (n,)
        Names each prompt's group.
    confidence : float
        How often, over draws of groups, the interval holds the score at least, whichever way each reply is read.

    Returns
    -------
    tuple of float
        The low limit of the mean of `least` and the high limit of that of `most`, at a level between 2 confidence - 1
        and confidence: the wider the means are apart, the less can both limits fail at once (Imbens and Manski). Since
        least <= most in every reply, the level is valid wherever the truth lies (Stoye, Lemma 3). Each limit is Clopper
        and Pearson's with the number of prompts that would have the same error if they were independent (Korn and
        Graubard): a limit of one side alone must hold near 0 and 1 too. nan below ten groups.
    """
    low, high = np.asarray(least, float), np.asarray(most, float)
    sums = cluster_sums(np.column_stack([low, high, np.ones(len(low))]), groups)
    count = len(sums)
    if count < FEWEST_CLUSTERS:
        return NO_LIMITS
    ends = (_mean(low), _mean(high))
    errors = (_error(sums[:, [0, 2]]), _error(sums[:, [1, 2]]))
    level = _level(ends[1] - ends[0], max(errors), count, confidence)
    (lowest, _), (_, highest) = (_exact(end, error, count, level) for end, error in zip(ends, errors, strict=True))
    return lowest, highest


def function_interval(value: float, influence: ArrayLike, groups: ArrayLike, confidence: float = 0.95) -> Limits:
    """Return the limits of a smooth function of means over prompts, such as the ambiguity-adjusted score.

    Parameters
    ----------
    value : float
        The function's value, strictly between 0 and 1; at 0, 1 and nan there are no limits (nan).
    influence : array of float, shape (n,)
        How far each prompt moves the function if its weight grows from 1 / n: the derivative; its mean is 0.
    groups : array, shape (n,)
        Names each prompt's group.
    confidence : float
        0..1.

    Returns
    -------
    tuple of float
        Low and high on the logit scale, as in `interval`; nan below ten groups.
    """
    sums = _sums(influence, groups)
    if len(sums) < FEWEST_CLUSTERS or not 0 < value < 1:
        return NO_LIMITS
    return on_logit_scale(value, _error(sums), len(sums), confidence)


def influence_error(influence: ArrayLike, groups: ArrayLike) -> float:
    """Return the standard error of a function of means (`function_interval`) over two groups or more."""
    return _error(_sums(influence, groups))


def difference_interval(differences: ArrayLike, groups: ArrayLike, confidence: float = 0.95) -> Limits:
    """Return the limits of a mean of differences over prompts.

    Parameters
    ----------
    differences : array of float, shape (n,)
        One a prompt, -1..1. No nan.
    groups : array, shape (n,)
        Names each prompt's group.
    confidence : float
        0..1.

    Returns
    -------
    tuple of float
        The mean and t with one degree less than groups times the error of the groups' sums, which is at least 1 / n;
        -1..1, nan below ten groups.
    """
    numbers = np.asarray(differences, float)
    sums = _sums(numbers, groups)
    if len(sums) < FEWEST_CLUSTERS:
        return NO_LIMITS
    return around(float(numbers.mean()), max(_error(sums), 1 / len(numbers)), len(sums), confidence)


def around(difference: float, error: float, count: int, confidence: float = 0.95) -> Limits:
    """Return the limits (-1..1) of a difference whose error over `count` groups is known; nan below ten groups."""
    if count < FEWEST_CLUSTERS:
        return NO_LIMITS
    wide = reach(count, confidence) * error
    return max(difference - wide, -1.0), min(difference + wide, 1.0)


def bounded_shares(least: float, most: float, n: int, confidence: float = 0.95) -> Limits:
    """Return `score_interval` of a score between two shares of n independent replies (0..1); nan below ten replies."""
    if n < FEWEST_CLUSTERS:
        return NO_LIMITS
    errors = [math.sqrt(share * (1 - share) / n) for share in (least, most)]
    level = _level(most - least, max(errors), n, confidence)
    return _exact(least, errors[0], n, level)[0], _exact(most, errors[1], n, level)[1]


def on_logit_scale(value: float, error: float, count: int, confidence: float = 0.95) -> Limits:
    """Return the limits of a value between 0 and 1 whose standard error over `count` groups is known (0: none seen)."""
    error = error or unseen_error(value, count)
    wide = reach(count, confidence) * error / (value * (1 - value))
    middle = math.log(value / (1 - value))
    low, high = (0.5 * (1 + math.tanh((middle + side * wide) / 2)) for side in (-1, 1))
    return low, high


def _exact(mean: float, error: float, count: int, level: float) -> Limits:
    """Clopper and Pearson's limits of a mean whose error over `count` groups is known (Korn and Graubard)."""
    if mean in (0.0, 1.0):
        return _all_alike(mean, count, level)
    if error == 0:
        return on_logit_scale(mean, error, count, level)
    normal = float(norm.ppf((1 + level) / 2))
    n = mean * (1 - mean) / error**2 * (normal / reach(count, level)) ** 2
    low, high = proportion_confint(mean * n, n, alpha=1 - level, method="beta")
    return float(low), float(high)


def unseen_error(value: float, count: int) -> float:
    """Return the error of a mean whose `count` groups are all alike: that with two groups of 0 and two of 1 more."""
    return _error(np.array([[0.0, 1.0]] * 2 + [[1.0, 1.0]] * 2 + [[value, 1.0]] * count))


def _mean(values: Floats) -> float:
    """The mean, exactly 0 or 1 where only float noise tells it from that; nan of nothing."""
    mean = float(values.mean()) if len(values) else math.nan
    return float(round(mean)) if not math.isnan(mean) and abs(mean - round(mean)) < _NOISE else mean


def _all_alike(mean: float, count: int, confidence: float) -> Limits:
    low, high = proportion_confint(round(mean * count), count, alpha=1 - confidence, method="beta")
    return (0.0 if mean == 0 else float(low)), (1.0 if mean == 1 else float(high))


def _level(apart: float, error: float, count: int, confidence: float) -> float:
    """The two-sided level of Imbens and Manski's critical value c: P(-c < T < c + apart / error) = confidence."""
    if error == 0:
        return 2 * confidence - 1 if apart > 0 else confidence
    law = t(count - 1)
    most = reach(count, confidence)
    c = brentq(lambda c: law.cdf(c + apart / error) - law.cdf(-c) - confidence, 0.0, most + 1e-9)
    return float(2 * law.cdf(c) - 1)


def _sums(values: ArrayLike, groups: ArrayLike) -> Floats:
    """The sum and the number of values of each group (n, 2)."""
    numbers = np.asarray(values, float)
    return cluster_sums(np.column_stack([numbers, np.ones(len(numbers))]), groups)


def _error(sums: Floats) -> float:
    """The standard error of a mean from the sum and the number of values of each group (n, 2)."""
    count, total = len(sums), sums[:, 1].sum()
    residual = sums[:, 0] - sums[:, 0].sum() / total * sums[:, 1]
    error = float(math.sqrt(count / (count - 1) * (residual**2).sum()) / total)
    return error if error > _NOISE else 0.0
