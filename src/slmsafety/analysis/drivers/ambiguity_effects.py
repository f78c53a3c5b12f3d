"""What the logistic model of ambiguity says: odds ratios, rates at a common quality, the change for a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm

from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.drivers.ambiguity_model import AmbiguityModel, ambiguity_model
from slmsafety.analysis.drivers.associations import benjamini_hochberg
from slmsafety.analysis.drivers.metric_rows import unmarked
from slmsafety.analysis.rankings import ranks

PROMPT_STEPS = {
    "prompt tokens": 10.0,
    "prompt flesch_kincaid": 1.0,
    "prompt gunning_fog": 1.0,
    "prompt perplexity": 10.0,
    "prompt instruction_verbs": 1.0,
    "prompt dependency_distance": 0.5,
}
"""A step that someone who writes prompts can take, in each metric's own unit."""


def odds_ratios(model: AmbiguityModel) -> pd.DataFrame:
    """Return by how much one SD more of each metric multiplies the odds of an ambiguous label, the others held.

    Columns: metric, odds_ratio, low, high (normal interval of the log odds), p and q (Benjamini-Hochberg).
    """
    places = [model.columns.index(metric) for metric in model.metrics]
    b, se = model.params[places], np.sqrt(np.diag(model.covariance))[places]
    half = norm.ppf(0.975) * se
    limits = {"odds_ratio": np.exp(b), "low": np.exp(b - half), "high": np.exp(b + half)}
    frame = pd.DataFrame({"metric": model.metrics, **limits, "p": 2 * norm.sf(np.abs(b / se))})
    return frame.assign(q=benjamini_hochberg(frame["p"]))


def standardized_rates(model: AmbiguityModel, rows: pd.DataFrame) -> pd.DataFrame:
    """Return each model's ambiguity rate at its own and at a common quality of the replies, with its rank by both.

    `rows` are those that `model` was fitted to. At common quality the fitted model gives every reply (of all models,
    with its own prompt and metrics) to each model in turn and averages the probabilities: standardisation, the
    g-formula of Robins (1986). A model of the same rows with no effect but those of models and suites does the same at
    each model's own quality, so that both rates are over the same mixture of suites, whichever a model has. Columns:
    model, n (labelled replies), ar (as observed: the mean over the prompts of whatever suites it has), own, common,
    low, high (of common; delta method, for these replies), rank and rank_common (of own and common, 1 is the lowest,
    ties share). Own and all after it are nan for a model that the fit leaves out; common is for all where there is no
    fit, and then both ranks too.
    """
    n = rows.groupby("model", sort=True, observed=True)["ambiguous"].count()
    of_prompts = rows.groupby(["prompt", "model"], observed=True)["ambiguous"].mean()
    ar = of_prompts.groupby(level="model", sort=True, observed=True).mean()
    frame = pd.DataFrame({"n": n, "ar": ar}).set_axis([str(name) for name in n.index], axis=0)
    for name, (rate, _) in _rates_of_all_replies(ambiguity_model(rows.iloc[model.rows], [])).items():
        frame.loc[name, "own"] = rate
    for name, (rate, gradient) in _rates_of_all_replies(model).items():
        limits = np.clip(_interval(rate, gradient, model.covariance), 0, 1)
        frame.loc[name, ["common", "low", "high"]] = limits
    frame = frame.reindex(columns=["n", "ar", "own", "common", "low", "high"])
    both = frame.dropna(subset=["own", "common"])
    frame["rank"], frame["rank_common"] = ranks(-both["own"]), ranks(-both["common"])
    return frame.rename_axis("model").reset_index()


def _rates_of_all_replies(model: AmbiguityModel) -> dict[str, tuple[float, Floats]]:
    """Return each model's mean probability when it is given every reply, and its gradient in the effects."""
    names = [str(name) for name in model.models.categories]
    places = [model.columns.index(f"model {name}") for name in names[1:]]
    base = model.x.copy()
    base[:, places] = 0
    linear, found = base @ model.params, {}
    for code, name in enumerate(names):
        p = expit(linear + (model.params[places[code - 1]] if code else 0.0))
        gradient = (p * (1 - p)) @ base / len(base)
        if code:
            gradient[places[code - 1]] = (p * (1 - p)).mean()
        found[name] = float(p.mean()), gradient
    return found


def metric_changes(model: AmbiguityModel, steps: Mapping[str, float] = PROMPT_STEPS) -> pd.DataFrame:
    """Return how the ambiguity rate changes when a metric is one SD, or one step, higher in every reply.

    Parameters
    ----------
    model : AmbiguityModel
        All of its metrics are moved, each by itself, while the others stay as they are.
    steps : mapping of str to float
        A step for each metric, in the metric's own unit; a metric without one is moved by its SD only.

    Returns
    -------
    DataFrame
        A row a metric: metric, change_sd, low_sd, high_sd, step, change, low, high, p, q (float64). Changes are
        differences of average probabilities (-1..1; 0: nothing changes) with 95 % limits (delta method, clustered by
        prompt); p is that of no change by the step (without one: by the SD), q Benjamini-Hochberg over the metrics. nan
        without a fit, and for the step of a metric that has none.
    """
    found = []
    for metric in model.metrics:
        step = steps.get(unmarked(metric), np.nan)
        by_sd = _change(model, metric, model.x[:, model.columns.index(metric)] + 1)
        by_step = by_sd._replace(value=np.nan, low=np.nan, high=np.nan)
        if unmarked(metric) in steps:
            by_step = _change(model, metric, model.moved(metric, step))
        found.append((metric, *by_sd[:3], step, *by_step))
    columns = ["metric", "change_sd", "low_sd", "high_sd", "step", "change", "low", "high", "p"]
    frame = pd.DataFrame(found, columns=columns)
    return frame.assign(q=benjamini_hochberg(frame["p"]))


class _Change(NamedTuple):
    value: float
    low: float
    high: float
    p: float


def _change(model: AmbiguityModel, metric: str, moved: Floats) -> _Change:
    """Return the change of the average probability when a metric's column is the moved one."""
    before = expit(model.x @ model.params)
    column = model.columns.index(metric)
    old = model.x[:, column]
    after = expit(model.x @ model.params + (moved - old) * model.params[column])
    weights_before, weights = before * (1 - before), after * (1 - after)
    gradient = (weights - weights_before) @ model.x / len(model.x)
    gradient[column] = (weights @ moved - weights_before @ old) / len(model.x)
    change = float((after - before).mean())
    p = float(2 * norm.sf(abs(change) / _error(gradient, model.covariance)))
    return _Change(*_interval(change, gradient, model.covariance), p)


def _interval(value: float, gradient: Floats, covariance: Floats) -> tuple[float, float, float]:
    """Return the value with its normal 95 % limits by the delta method."""
    half = norm.ppf(0.975) * _error(gradient, covariance)
    return value, value - half, value + half


def _error(gradient: Floats, covariance: Floats) -> float:
    """Return the standard error of a value by the delta method."""
    return float(np.sqrt(gradient @ covariance @ gradient))
