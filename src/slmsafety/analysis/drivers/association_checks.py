"""Whether the associations of metrics with ambiguity hold by suite, at equal length, and for other prompts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import t as student

from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.drivers.associations import correlations, is_constant, metric_points
from slmsafety.analysis.drivers.metric_rows import metric_names
from slmsafety.analysis.resampling import (
    FEWEST_CLUSTERS,
    cluster_sums,
    percentile_interval,
    resampled_totals,
    widened,
)

LENGTHS = ("prompt tokens", "reply tokens")


def association_checks(means: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return every check of this module, a row a metric, the largest r first.

    `means` come from `prompt_means`. Clusters are the kinds of prompts (`units.kinds`). Columns: metric, n, clusters,
    r, low, high, rho, partial and those of `simpson_check`.
    """
    points = metric_points(means).drop(columns="kind")  # no test of r is asked for, only r
    frame = correlations(points)[["metric", "n", "rho"]]
    for table in (
        clustered_intervals(means, means["kind"], rng),
        simpson_check(points),
        partial_correlations(means)[["metric", "partial"]],
    ):
        frame = frame.merge(table, on="metric", validate="one_to_one")
    first = ["metric", "n", "clusters", "r", "low", "high", "rho"]
    return frame[[*first, *frame.columns.drop(first)]]


def simpson_check(points: pd.DataFrame, target: str = "ar") -> pd.DataFrame:
    """Return for each metric whether the sign over all prompts is the sign within suites (Simpson's paradox).

    `points` holds suite, metric, value and the target. Columns: metric, r (all prompts), within (r after each suite's
    means are taken from both sides), lowest and highest (r of a single suite), suites (with an r), opposite (suites
    whose r has another sign than the r over all), turned (whether r and within differ in sign); nan where undefined.
    """
    known = points.dropna(subset=["value", target])
    sides = known[["value", target]].astype(float)
    means = sides.groupby([known["metric"], known["suite"]], observed=True).transform("mean")
    # What a constant side leaves is float noise.
    apart = (sides - means).where((sides - means).abs() > 1e-12 * means.abs(), 0.0)
    centred = known.assign(**{name: apart[name] for name in ("value", target)})
    pooled = correlations(points, target).set_index("metric")["r"]
    within = correlations(centred, target).set_index("metric")["r"].reindex(pooled.index)
    single = pd.DataFrame(
        {
            str(suite): correlations(part, target).set_index("metric")["r"]
            for suite, part in points.groupby("suite", observed=True)
        }
    ).reindex(pooled.index)
    frame = pd.DataFrame(
        {
            "r": pooled,
            "within": within,
            "lowest": single.min(axis=1),
            "highest": single.max(axis=1),
            "suites": single.notna().sum(axis=1),
            "opposite": single.mul(pooled, axis=0).lt(0).sum(axis=1),
            "turned": pooled * within < 0,
        }
    )
    return frame.reset_index()


def partial_correlations(means: pd.DataFrame, target: str = "ar", given: tuple[str, ...] = LENGTHS) -> pd.DataFrame:
    """Return the partial correlation of each metric with the target, given the lengths of prompt and reply.

    `means` come from `prompt_means`. Columns: metric, n (rows with all values), partial (-1..1: Pearson's r of what a
    least-squares line of the given metrics leaves on both sides) and p (of t with n - 2 - k degrees of freedom); nan
    where too few rows are left or a side is explained wholly. A given metric is not given itself.
    """
    found = []
    for metric in metric_names(means):
        others = [name for name in given if name in means and name != metric]
        values = means[[metric, target, *others]].dropna().to_numpy(float)
        freedom = len(values) - 2 - len(others)
        r = _partial(values) if freedom > 0 else np.nan
        p = 2 * student.sf(abs(r) * np.sqrt(freedom / max(1 - r * r, 1e-300)), freedom) if freedom > 0 else np.nan
        found.append((metric, len(values), r, p))
    return pd.DataFrame(found, columns=["metric", "n", "partial", "p"])


def _partial(values: Floats) -> float:
    """Return the correlation of the first two columns given the others."""
    pair, others = values[:, :2], values[:, 2:]
    spread = others.std(axis=0)
    scaled = (others - others.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    basis = np.column_stack([np.ones(len(values)), scaled])
    rest = pair - basis @ np.linalg.lstsq(basis, pair, rcond=None)[0]
    # What is left of a side that the others explain wholly is float noise.
    noise = rest.std(axis=0) <= 1e-9 * pair.std(axis=0)
    return np.nan if noise.any() or any(map(is_constant, pair.T)) else float(np.corrcoef(rest.T)[0, 1])


def clustered_intervals(
    means: pd.DataFrame, clusters: pd.Series, rng: np.random.Generator, target: str = "ar", resamples: int = 2000
) -> pd.DataFrame:
    """Return the 95 % interval of each metric's r with the target when whole clusters of prompts are resampled.

    `means` come from `prompt_means`; `clusters` names each row's cluster. Columns: metric, clusters (with a pair of
    values), low, high (`resampling.percentile_interval` at the `widened` confidence; nan below ten clusters, where a
    side is constant, or when r is undefined in every draw).
    """
    found = []
    for metric in metric_names(means):
        known = means[[metric, target]].notna().all(axis=1).to_numpy()
        pairs, used = means.loc[known, [metric, target]].to_numpy(float), clusters[known]
        limits = np.full(2, np.nan)
        if len(pairs) and not any(map(is_constant, pairs.T)):
            drawn = resampled_totals(cluster_sums(_products(pairs), used), rng, resamples, FEWEST_CLUSTERS)
            limits = percentile_interval(_r_of_sums(drawn), widened(used.nunique(dropna=False)))
        found.append((metric, used.nunique(dropna=False), *limits))
    return pd.DataFrame(found, columns=["metric", "clusters", "low", "high"])


def _products(pairs: Floats) -> Floats:
    """Return 1, x, y, xx, yy and xy of each pair, whose sums give r; x and y are standardised first, for precision."""
    x, y = ((pairs - pairs.mean(axis=0)) / pairs.std(axis=0)).T
    return np.column_stack([np.ones_like(x), x, y, x * x, y * y, x * y])


def _r_of_sums(sums: Floats) -> Floats:
    """Return Pearson's r of each row of sums; nan where a side is constant."""
    n, x, y, xx, yy, xy = sums.T
    across, along = n * xx - x * x, n * yy - y * y
    defined = (across > 1e-9 * n * n) & (along > 1e-9 * n * n)
    return np.where(defined, (n * xy - x * y) / np.sqrt(np.where(defined, across * along, 1)), np.nan)
