"""At what value of an ambiguous reply an order turns, and the ranks over every value.

A model's score is s + t (u - s) where an ambiguous reply is worth t: s is its share of safe replies, u that of safe or
ambiguous ones. Two such lines meet once at most.

References
----------
Horowitz, J. L. and Manski, C. F. (1995). Identification and robustness with contaminated and corrupted data.
Econometrica 63, 281-302.
Masten, M. A. and Poirier, A. (2020). Inference on breakdown frontiers. Quantitative Economics 11, 41-111.
Fieller, E. C. (1954). Some problems in interval estimation. JRSS B 16, 175-185.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import t as student

from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.label_matrix import LabelMatrix, values
from slmsafety.analysis.rankings import ranks
from slmsafety.analysis.resampling import FEWEST_CLUSTERS, cluster_sums
from slmsafety.analysis.ties import sign

TURNS, NEVER, LEVEL = "turns", "never turns", "level"
PAIR_COLUMNS = ("suite", "model", "other", "at_harmful", "at_safe", "order", "turns_at", "distance", "own_distance")
EVERYWHERE, NOWHERE, WITHIN, OUTSIDE = "everywhere", "nowhere", "between", "outside"


def turning_points(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Return for each pair of models at what common value of an ambiguous reply its order turns.

    Parameters
    ----------
    outcomes : DataFrame
        suite, model, srr and ar (0..1); rows without rates are left out.

    Returns
    -------
    DataFrame
        A row a pair: suite, model (the higher at t = .5, by name where they are level there), other, at_harmful and
        at_safe (the difference of the scores at t = 0 and 1, -1..1), order ("turns", "never turns", or "level" at every
        t), turns_at (t*, where both are level, in 0..1; nan where no t is), distance (|t* - .5|, 0: level at one half),
        own_distance (how far from .5 the two models' own values must move apart for the order to turn; above .5: no
        reading turns it; nan where neither has an ambiguous reply).
    """
    rows = []
    for suite, part in outcomes.dropna(subset=["srr", "ar"]).groupby("suite", sort=True):
        known = part.sort_values("model")
        lines = list(zip(known["model"], known["srr"].astype(float), known["ar"].astype(float), strict=True))
        rows += [(suite, *_turning(one, other)) for one, other in combinations(lines, 2)]
    return pd.DataFrame(rows, columns=list(PAIR_COLUMNS))


def _turning(one: tuple[str, float, float], other: tuple[str, float, float]) -> tuple[object, ...]:
    """One row of `turning_points`."""
    if sign(one[1] + one[2] / 2 - other[1] - other[2] / 2) < 0:
        one, other = other, one
    (model, s1, a1), (low, s2, a2) = one, other
    first, last = s1 - s2, s1 + a1 - s2 - a2
    ends = int(sign(first)), int(sign(last))
    place = first / (first - last) if ends[0] != ends[1] else np.nan
    if not np.isnan(place):
        place = 0.5 if int(sign(place - 0.5)) == 0 else min(max(place, 0.0), 1.0)
    order = LEVEL if ends == (0, 0) else TURNS if ends[0] * ends[1] < 0 else NEVER
    middle = 0.0 if int(sign(first + last)) == 0 else (first + last) / 2
    own = middle / (a1 + a2) if int(sign(a1 + a2)) else np.nan
    return model, low, first, last, order, place, abs(place - 0.5), own


def ranks_over_all_values(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Return the best and the worst rank of each model over every common value of an ambiguous reply, exactly.

    Parameters
    ----------
    outcomes : DataFrame
        suite, model, srr and ar (0..1).

    Returns
    -------
    DataFrame
        suite, model, best, worst and range (worst - best): ranks change only where two lines meet, so that they are
        looked at there (ties share their mean rank), between, and at both ends. A row without rates has nan.
    """
    parts = []
    for _, part in outcomes.groupby("suite", sort=False):
        safe, ambiguous = part["srr"].to_numpy(float), part["ar"].to_numpy(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            meet = (safe[:, None] - safe) / (ambiguous - ambiguous[:, None])
        points = np.unique(np.concatenate([[0.0, 1.0], meet[(meet > 0) & (meet < 1)]]))
        looked = np.concatenate([points, (points[1:] + points[:-1]) / 2])
        placed = np.array([ranks(pd.Series(safe + value * ambiguous)).to_numpy() for value in looked])
        found = part[["suite", "model"]].assign(best=placed.min(axis=0), worst=placed.max(axis=0))
        parts.append(found.assign(range=found["worst"] - found["best"]))
    columns = ["suite", "model", "best", "worst", "range"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def turning_set(matrix: LabelMatrix, first: int, second: int, confidence: float = 0.95) -> tuple[str, float, float]:
    """Return which values of an ambiguous reply may be where two models are level, over other groups of prompts.

    Parameters
    ----------
    matrix : LabelMatrix
        The suite's labels; `first` and `second` are places of its models, compared on the prompts with labels of both.
    confidence : float
        How often the set holds t*, 0..1.

    Returns
    -------
    tuple
        The shape and two values in 0..1 (Fieller): "between" low and high, "outside" of them (below low or above high),
        "everywhere" (nothing is known of t*) or "nowhere" (the order turns at no value), both with nan; ("", nan, nan)
        below ten groups.

    Notes
    -----
    The set holds each t at which a test does not tell the scores apart, so that it needs no division by a difference
    that may be 0.
    """
    least, most = values(matrix.labels, "score")
    both = ~np.isnan(least[:, first] - least[:, second])
    at = np.column_stack([each[both, first] - each[both, second] for each in (least, most)])
    pairs = np.column_stack([at[:, 0], at[:, 1] - at[:, 0]])
    sums = cluster_sums(np.column_stack([pairs - pairs.mean(axis=0), np.ones(len(pairs))]), matrix.groups[both])
    count = len(sums)
    if count < FEWEST_CLUSTERS:
        return "", np.nan, np.nan
    among = count / (count - 1) * (sums[:, :2].T @ sums[:, :2]) / len(pairs) ** 2
    bar = float(student.ppf((1 + confidence) / 2, count - 1)) ** 2
    d, slope = pairs.mean(axis=0)
    quadratic = np.array([slope**2 - bar * among[1, 1], 2 * (d * slope - bar * among[0, 1]), d**2 - bar * among[0, 0]])
    return _where_not_positive(quadratic)


def _where_not_positive(quadratic: Floats) -> tuple[str, float, float]:
    """Where in 0..1 a quadratic (highest power first) is 0 or below."""
    roots = np.roots(np.trim_zeros(np.where(np.abs(quadratic) < 1e-15, 0.0, quadratic), "f"))
    real = np.sort(roots[np.abs(roots.imag) < 1e-12].real) if len(roots) else np.empty(0)
    cuts = np.concatenate([[0.0], real[(real > 0) & (real < 1)], [1.0]])
    inside = np.polyval(quadratic, (cuts[1:] + cuts[:-1]) / 2) <= 0
    if inside.all():
        return EVERYWHERE, np.nan, np.nan
    if not inside.any():
        return NOWHERE, np.nan, np.nan
    held = [(low, high) for low, high, kept in zip(cuts[:-1], cuts[1:], inside, strict=True) if kept]
    if len(held) == 2:
        return OUTSIDE, float(held[0][1]), float(held[1][0])
    return WITHIN, float(held[0][0]), float(held[0][1])
