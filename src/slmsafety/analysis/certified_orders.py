"""Which orders of models hold under sampling and ambiguity together, and the ranks that are left.

A score is known up to how ambiguous replies are read. An order "i above j" is certified under a reading where it holds
for other groups of prompts too, with a probability that is simultaneous over all pairs of a suite: with at least
`confidence` no certified order is false. Suites are apart: over several suites nothing is claimed.

References
----------
Berger, R. L. (1982). Multiparameter hypothesis testing and acceptance sampling. Technometrics 24, 295-300.
Romano, J. P. and Wolf, M. (2005). Exact and approximate stepdown methods for multiple hypothesis testing. JASA 100,
94-108.
Mogstad, M., Romano, J. P., Shaikh, A. M. and Wilhelm, D. (2024). Inference for ranks with applications to mobility
across neighbourhoods and academic achievement across countries. Review of Economic Studies 91, 476-518.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm, t

from slmsafety.analysis.arrays import Flags, Floats
from slmsafety.analysis.label_matrix import LabelMatrix, label_matrix, values
from slmsafety.analysis.partial_order import height, width
from slmsafety.analysis.resampling import FEWEST_CLUSTERS
from slmsafety.errors import unknown

HARMFUL, HALF, SAFE = "harmful", "half", "safe"
READINGS: dict[str, tuple[tuple[str, str], ...]] = {
    HALF: ((HALF, HALF),),
    "common": ((HARMFUL, HARMFUL), (SAFE, SAFE)),
    "own": ((HARMFUL, SAFE),),
}
"""What an ambiguous reply of the higher and of the lower model is, in each contrast that must be above 0.

`half`: one half for all, the convention; sampling alone can turn the order. `common`: the same for all models, whatever
it is: the score is linear in it, so that both ends decide. `own`: each model's, even each reply's, its own.
"""
FEWEST_PROMPTS = 50


class Orders(NamedTuple):
    """The certified orders of a suite's models.

    Attributes
    ----------
    models : list of str, length K
        Sorted.
    above : array of bool, shape (K, K)
        Whether the row's model is certified above the column's.
    statistic : array of float, shape (K, K)
        The least of the contrasts, each over its error; nan where a pair has too few prompts or groups.
    critical : float
        What the statistic had to exceed in the last step; nan where no pair has a statistic.
    """

    models: list[str]
    above: Flags
    statistic: Floats
    critical: float


def certified_orders(
    matrix: LabelMatrix, rng: np.random.Generator, reading: str = "common", confidence: float = 0.95, draws: int = 1000
) -> Orders:
    """Return the orders of a suite's models that are certified under a reading of ambiguous replies.

    Parameters
    ----------
    matrix : LabelMatrix
        The suite's labels; a pair is compared on the prompts with a label of both.
    rng : numpy.random.Generator
        Draws the multipliers of the bootstrap.
    reading : str
        A key of `READINGS`.
    confidence : float
        The probability that no certified order of the suite is false, 0..1.
    draws : int
        Of the bootstrap.

    Returns
    -------
    Orders
        By an intersection-union test of the reading's contrasts (Berger 1982) with the largest of all pairs' statistics
        as the bar, stepped down (Romano and Wolf 2005) and closed transitively, which adds no error: where no order is
        false, none that follows is. Errors are over groups of prompts, of the differences by prompt, and at least one
        over the prompts. A pair with fewer than 50 prompts or ten groups is not certified.

    Raises
    ------
    InputError
        For an unknown reading.

    Notes
    -----
    The multiplier bootstrap draws one normal number a group. Few groups vary more: the bar is raised to where t with
    one degree less than the fewest groups of a pair has what the normal has above it.
    """
    if reading not in READINGS:
        raise unknown("reading", reading, READINGS)
    worth = _worth(matrix)
    multipliers = rng.standard_normal((draws, int(matrix.groups.max(initial=-1)) + 1), dtype=np.float32)
    parts = [_contrast(matrix, worth[one], worth[other], multipliers) for one, other in READINGS[reading]]
    statistics = np.stack([part.statistic for part in parts])
    statistic = np.min(statistics, axis=0) if len(matrix.models) else np.empty((0, 0))
    drawn = np.max(np.stack([part.drawn for part in parts]), axis=0)
    groups = np.where(np.isnan(statistic), np.inf, parts[0].groups).min(initial=np.inf)

    def bar(left: Flags) -> float:
        return float(t.isf(norm.sf(np.quantile(drawn[:, left].max(axis=1), confidence)), groups - 1))

    above, critical = _step_down(statistic, bar)
    return Orders(matrix.models, closed(above), statistic, critical)


class _Contrast(NamedTuple):
    """For each pair: statistic and groups (K, K), and the bootstrap's statistics (draws, K, K)."""

    statistic: Floats
    groups: Floats
    drawn: NDArray[np.float32]


def _worth(matrix: LabelMatrix) -> dict[str, Floats]:
    """The score of each prompt and model (prompts, models) with ambiguous replies harmful, worth one half, and safe."""
    harmful, safe = values(matrix.labels, "score")
    return {HARMFUL: harmful, HALF: (harmful + safe) / 2, SAFE: safe}


def _contrast(matrix: LabelMatrix, one: Floats, other: Floats, multipliers: NDArray[np.float32]) -> _Contrast:
    """Compare each model's scores in `one` with every model's in `other`; a model at a time, as K x K sums are many."""
    models, order = len(matrix.models), np.argsort(matrix.groups, kind="stable")
    codes = matrix.groups[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    kept = multipliers[:, codes[starts]] if len(starts) else multipliers[:, :0]
    statistic, groups = np.full((2, models, models), np.nan)
    drawn = np.full((len(multipliers), models, models), -np.inf, np.float32)
    for place in range(models):
        apart = one[order, place, None] - other[order]
        both = ~np.isnan(apart)
        both[:, place] = False
        n = both.sum(axis=0)
        mean = np.where(both, apart, 0.0).sum(axis=0) / np.maximum(n, 1)
        sums = np.add.reduceat(np.where(both, apart - mean, 0.0), starts) if len(starts) else np.empty((0, models))
        count = np.add.reduceat(both, starts).astype(bool).sum(axis=0) if len(starts) else np.zeros(models, int)
        enough = (n >= FEWEST_PROMPTS) & (count >= FEWEST_CLUSTERS)
        spread = np.sqrt(count / np.maximum(count - 1, 1) * (sums**2).sum(axis=0)) / np.maximum(n, 1)
        error = np.maximum(spread, 1 / np.maximum(n, 1))
        groups[place] = count
        statistic[place] = np.where(enough, mean / error, np.nan)
        scaled = np.asarray(sums / (np.maximum(n, 1) * error), np.float32)[:, enough]
        drawn[:, place, enough] = kept @ scaled
    return _Contrast(statistic, groups, drawn)


def _step_down(statistic: Floats, bar: Callable[[Flags], float]) -> tuple[Flags, float]:
    """Reject the pairs above the bar of those that are left, until none is; return them and the last bar."""
    rejected, left, critical = np.zeros(statistic.shape, bool), ~np.isnan(statistic), np.nan
    while left.any():
        critical = bar(left)
        further = left & (np.where(left, statistic, -np.inf) > critical)
        if not further.any():
            break
        rejected |= further
        left &= ~further
    return rejected, critical


def closed(above: Flags) -> Flags:
    """Return the transitive closure of an order.

    Raises
    ------
    ValueError
        For orders that contradict each other, which no test of this module makes.
    """
    reached = above.copy()
    for middle in range(len(above)):
        reached |= reached[:, middle, None] & reached[None, middle]
    if (reached & reached.T).any():
        raise ValueError("the certified orders contradict each other")
    return reached


def rank_sets(orders: Orders) -> pd.DataFrame:
    """Return the ranks that the certified orders leave to each model, simultaneously over models.

    Columns: model, best (1 + the models certified above it) and worst (the number of models without those certified
    below it). With the orders' confidence every model's rank lies in its set.
    """
    models = len(orders.models)
    best, worst = 1 + orders.above.sum(axis=0), models - orders.above.sum(axis=1)
    return pd.DataFrame({"model": orders.models, "best": best, "worst": worst})


Certified = dict[str, dict[str, Orders]]
"""Orders by suite and reading."""


def certified(labels: pd.DataFrame, rng: np.random.Generator, confidence: float = 0.95, draws: int = 1000) -> Certified:
    """Return `certified_orders` of every suite under every reading; `labels` as for `label_matrix`."""
    return {
        suite: {reading: certified_orders(matrix, rng, reading, confidence, draws) for reading in READINGS}
        for suite, matrix in label_matrix(labels).items()
    }


def certified_from_rates(outcomes: pd.DataFrame, rounding: float = 0.0, confidence: float = 0.95) -> Certified:
    """Return the orders that are certified where no more than rates and n are known.

    Parameters
    ----------
    outcomes : DataFrame
        suite, model, groups (of prompts), hcr, ar, srr and mean (0..1); rows without rates are left out.
    rounding : float
        How far a printed rate can be from the rate, such as .005: every difference is taken twice that nearer to 0.
    confidence : float
        The probability that no certified order of a suite is false, 0..1.

    Returns
    -------
    Certified
        As `certified`, too careful and never too bold: the error of a difference is the sum of both errors, the largest
        that any pairing gives, each as if all replies to a group were alike; the bar is Bonferroni's over all ordered
        pairs, stepped down (Holm).
    """
    found: Certified = {}
    for suite, part in outcomes.dropna(subset=["hcr", "ar", "srr", "mean"]).groupby("suite", sort=True):
        known = part.sort_values("model")
        groups, models = known["groups"].to_numpy(float), [str(model) for model in known["model"]]
        middle = known["srr"] + known["ar"] / 4 - known["mean"] ** 2
        scores = {HARMFUL: known["srr"], HALF: known["mean"], SAFE: 1 - known["hcr"]}
        spread = {HARMFUL: known["srr"] * (1 - known["srr"]), HALF: middle, SAFE: known["hcr"] * (1 - known["hcr"])}
        errors = {end: np.sqrt(variance.clip(lower=0) / groups) for end, variance in spread.items()}
        enough = (groups[:, None] >= FEWEST_PROMPTS) & (groups >= FEWEST_PROMPTS) & ~np.eye(len(models), dtype=bool)
        least = np.maximum(1 / groups[:, None], 1 / groups)
        found[str(suite)] = {}
        bonferroni = partial(_bonferroni, confidence, float(groups.min(initial=np.inf)))
        for reading, contrasts in READINGS.items():
            parts = [
                (scores[one].to_numpy()[:, None] - scores[other].to_numpy() - 2 * rounding)
                / np.maximum(errors[one].to_numpy()[:, None] + errors[other].to_numpy(), least)
                for one, other in contrasts
            ]
            statistic = np.where(enough, np.min(np.stack(parts), axis=0), np.nan)
            above, critical = _step_down(statistic, bonferroni)
            found[str(suite)][reading] = Orders(models, closed(above), statistic, critical)
    return found


def _bonferroni(confidence: float, groups: float, left: Flags) -> float:
    """The bar for all pairs that are left: by t, each with its share of the error."""
    return float(t.isf((1 - confidence) / left.sum(), groups - 1))


def order_counts(found: Certified) -> pd.DataFrame:
    """Return how many pairs of each suite are certified under each reading, and the shape of what is.

    Columns: suite, models, pairs (int: of models), tested (of these, with enough prompts and groups), certified_half,
    certified_common and certified_own (int: pairs), height and width (int: of the order under a common reading: the
    longest chain, and the most models of which none is above another).
    """
    rows = []
    for suite, readings in found.items():
        models, common = len(readings["common"].models), readings["common"].above
        tested = int(np.isfinite(readings["common"].statistic).sum()) // 2
        counts = (int(readings[reading].above.sum()) for reading in READINGS)
        rows.append((suite, models, models * (models - 1) // 2, tested, *counts, height(common), width(common)))
    certified_by = [f"certified_{reading}" for reading in READINGS]
    columns = ["suite", "models", "pairs", "tested", *certified_by, "height", "width"]
    return pd.DataFrame(rows, columns=columns)


def certified_ranks(found: Certified) -> pd.DataFrame:
    """Return `rank_sets` of every suite: suite, model, and best_<reading> and worst_<reading> for each reading."""
    parts = []
    for suite, readings in found.items():
        table = pd.DataFrame({"suite": suite, "model": readings["common"].models})
        for reading, orders in readings.items():
            table[[f"best_{reading}", f"worst_{reading}"]] = rank_sets(orders)[["best", "worst"]].to_numpy()
        parts.append(table)
    columns = ["suite", "model", *(f"{end}_{reading}" for reading in READINGS for end in ("best", "worst"))]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
