"""A logistic model of ambiguous labels: metrics at equal model and suite, with errors over kinds of prompts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.discrete.discrete_model import Logit
from statsmodels.tools.sm_exceptions import ConvergenceWarning, HessianInversionWarning, PerfectSeparationWarning

from slmsafety.analysis.arrays import Floats, Rows
from slmsafety.analysis.drivers.associations import is_constant
from slmsafety.analysis.drivers.cluster_errors import jackknife_covariance
from slmsafety.analysis.drivers.metric_rows import metric_names, unmarked
from slmsafety.analysis.resampling import FEWEST_CLUSTERS

LOGGED = ("tokens", "perplexity")
"""Metrics with a long tail, which enter as log(1 + x)."""
LACKS = "no "
FEWEST = 10
"""A group of rows has an effect of its own only with as many ambiguous and as many decisive labels."""
LARGEST_ERROR = 10.0
"""A standard error above this many log odds for one SD, a model or a suite: the labels do not determine the effect."""


@dataclass(frozen=True)
class AmbiguityModel:
    """A fitted model: its rows as a matrix, what its columns mean, and why there is no fit where there is none.

    `rows` are the places of its rows among those that it was given, `clusters` the number of kinds of prompts.
    """

    rows: Rows
    columns: list[str]
    metrics: list[str]
    center: Floats
    scale: Floats
    x: Floats
    ambiguous: Floats
    models: pd.Categorical[str]
    prompts: int
    clusters: int
    left_out: dict[str, int]
    params: Floats
    covariance: Floats
    problem: str

    def about(self) -> dict[str, Any]:
        """Return what the fit was made of: n (labelled replies in it), prompts, kinds, left_out, problem, no_interval.

        The last is a sentence where an effect has no interval although there is a fit, else "".
        """
        counts = {"n": len(self.x), "prompts": self.prompts, "kinds": self.clusters}
        return {**counts, "left_out": self.left_out, "problem": self.problem, "no_interval": self._no_interval()}

    def _no_interval(self) -> str:
        unknown = np.isnan(np.diag(self.covariance))
        if self.problem or not unknown.any():
            return ""
        if self.clusters < FEWEST_CLUSTERS:
            return f"No effect has an interval: {self.clusters} kinds of prompts, and {FEWEST_CLUSTERS} are needed."
        alone = [name for name, gone in zip(self.columns, unknown, strict=True) if gone]
        return f"Rates and changes have no interval: one kind of prompts alone determines {', '.join(alone)}."

    def moved(self, metric: str, step: float) -> Floats:
        """Return a metric's column when the metric is `step` higher, in its own unit, in every row."""
        index = self.metrics.index(metric)
        center, scale = float(self.center[index]), float(self.scale[index])
        raw = _unscaled(metric, self.x[:, self.columns.index(metric)] * scale + center)
        return (unskewed(metric, raw + step) - center) / scale


def ambiguity_model(rows: pd.DataFrame, metrics: list[str] | None = None) -> AmbiguityModel:
    """Fit P(ambiguous) = expit(metrics + model + suite) to the labelled replies; errors by kind of prompt.

    Parameters
    ----------
    rows : DataFrame
        From `metric_rows.reply_rows`; `kind` says which prompts depend on each other.
    metrics : list of str, optional
        Columns of `rows`; all metrics by default, and can be none.

    Returns
    -------
    AmbiguityModel
        `left_out` counts the rows by reason. `problem` is a sentence, and params and covariance are nan, where the
        effects are undefined: too few labels, perfect separation, or metrics that determine each other. The covariance
        alone is nan below ten kinds, and in the row of an effect that one kind alone determines.

    Notes
    -----
    Metrics are standardised, token counts and perplexities after log(1 + x). Where a reply lacks a metric, the metric
    enters at its mean with an effect of its own for lacking it; rows that lack the same metrics are left out where they
    are too few (`FEWEST`). So are the rows of a model or a suite that is always or never ambiguous, which say nothing
    of metrics, and constant metrics.

    Errors leave out one kind of prompt in turn (`cluster_errors`). Each effect has its error also where there are more
    effects than kinds; what needs more prompts than effects are the effects themselves.
    """
    metrics = metric_names(rows) if metrics is None else metrics
    used, left = _usable(rows.reset_index(drop=True), metrics)
    places = used.index.to_numpy(np.intp)
    scaled = {
        name: unskewed(name, used[name].to_numpy(float))
        for name in metrics
        if len(used) and used[name].notna().any() and not is_constant(used[name].dropna())
    }
    center, scale = (np.array([of(values) for values in scaled.values()]) for of in (np.nanmean, np.nanstd))
    models, suites = (pd.Categorical(used[level].astype("str")) for level in ("model", "suite"))
    parts = _metric_columns(scaled, center, scale)
    for word, groups in (("model", models), ("suite", suites)):
        for code, group in enumerate(groups.categories[1:], start=1):
            parts[f"{word} {group}"] = (groups.codes == code).astype(float)
    columns, x = ["constant", *parts], np.column_stack([np.ones(len(used)), *parts.values()])
    if len(kept := _needed(columns, x)) < len(columns):
        columns, x = [columns[place] for place in kept], x[:, kept]
    y, kinds = used["ambiguous"].to_numpy(float), used["kind"].to_numpy(np.intp)
    prompts, clusters = used["prompt"].nunique(), used["kind"].nunique()
    fit = _fit(y, x, kinds, prompts)
    return AmbiguityModel(places, columns, list(scaled), center, scale, x, y, models, prompts, clusters, left, *fit)


def _usable(rows: pd.DataFrame, metrics: list[str]) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the rows that can be fitted, and how many are left out for which reason."""
    used = rows[rows["ambiguous"].notna()]
    left = {"no label": len(rows) - len(used)}
    for level in ("suite", "model"):
        share = used.groupby(level, observed=True)["ambiguous"].transform("mean")
        left[f"a {level} that is always or never ambiguous"] = int((share.eq(0) | share.eq(1)).sum())
        used = used[share.gt(0) & share.lt(1)]
    known = [name for name in metrics if used[name].notna().any()]
    gaps, ambiguous = used[known].isna().to_numpy(bool), used["ambiguous"].to_numpy(float)
    pattern, kept = gaps @ 2 ** np.arange(len(known)), np.ones(len(used), bool)
    for code in np.unique(pattern[pattern > 0]):
        alike = pattern == code
        if not FEWEST <= ambiguous[alike].sum() <= alike.sum() - FEWEST:
            lacking = [name for place, name in enumerate(known) if code >> place & 1]
            left[f"no {' and '.join(lacking)}"] = int(alike.sum())
            kept &= ~alike
    used = used[kept]
    return used, {reason: count for reason, count in left.items() if count}


def _metric_columns(scaled: dict[str, Floats], center: Floats, scale: Floats) -> dict[str, Floats]:
    """Return the standardised metrics, 0 where they are nan, and the columns that say where they are."""
    parts = {
        name: np.where(np.isnan(values), 0.0, (values - middle) / spread)
        for (name, values), middle, spread in zip(scaled.items(), center, scale, strict=True)
    }
    lacks = {f"{LACKS}{name}": np.isnan(values).astype(float) for name, values in scaled.items()}
    return parts | {name: column for name, column in lacks.items() if column.any()}


def _needed(columns: list[str], x: Floats) -> list[int]:
    """Return the places of the columns, without those for lacking a metric that other columns say already.

    Replies can lack two metrics at once, or a whole suite or model can lack one.
    """
    gram = x.T @ x / max(len(x), 1)
    kept = list(range(len(columns)))
    for place in reversed([place for place, name in enumerate(columns) if name.startswith(LACKS)]):
        fewer = [other for other in kept if other != place]
        if _rank(gram[np.ix_(fewer, fewer)]) == _rank(gram[np.ix_(kept, kept)]):
            kept = fewer
    return kept


def _rank(gram: Floats) -> int:
    return int(np.linalg.matrix_rank(gram, tol=1e-9, hermitian=True))


def unskewed(metric: str, values: Floats) -> Floats:
    """Return a metric's values as a linear model takes them: log1p of token counts and perplexities."""
    return np.log1p(values) if unmarked(metric).split(" ", 1)[1] in LOGGED else values


def _unscaled(metric: str, values: Floats) -> Floats:
    return np.expm1(values) if unmarked(metric).split(" ", 1)[1] in LOGGED else values


def _fit(y: Floats, x: Floats, kinds: Rows, prompts: int) -> tuple[Floats, Floats, str]:
    """Return the coefficients, their covariance over kinds, and why they are undefined ("" where they are not)."""
    size = x.shape[1]
    undefined = np.full(size, np.nan), np.full((size, size), np.nan)
    if not prompts:
        return *undefined, "no reply is left to fit them to"
    if prompts <= size:
        return *undefined, f"{size} effects cannot be told from the labels of {prompts} prompts"
    if _rank(x.T @ x / len(x)) < size:
        return *undefined, "some metrics, models and suites determine each other"
    separated = "the metrics separate ambiguous from decisive replies perfectly, or nearly so"
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, HessianInversionWarning, PerfectSeparationWarning, RuntimeWarning):
            warnings.simplefilter("ignore", kind)
        try:
            fit = Logit(y, x, check_rank=False).fit(disp=0, maxiter=50)
        except np.linalg.LinAlgError:
            return *undefined, separated
        errors = np.sqrt(np.diag(fit.normalized_cov_params))
    if not fit.mle_retvals["converged"]:
        return *undefined, separated
    if not np.all(errors < LARGEST_ERROR):
        return *undefined, "some metrics nearly determine each other, or the label"
    chance = fit.predict()
    return fit.params, jackknife_covariance(x, chance * (1 - chance), y - chance, kinds), ""
