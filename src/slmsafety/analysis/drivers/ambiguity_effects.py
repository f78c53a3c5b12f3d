"""What the logistic model of ambiguity says: odds ratios, rates at a common quality, the change for a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.drivers.ambiguity_model import AmbiguityModel, ambiguity_model
from slmsafety.analysis.drivers.associations import benjamini_hochberg
from slmsafety.analysis.drivers.cluster_errors import two_sided
from slmsafety.analysis.drivers.metric_rows import unmarked
from slmsafety.analysis.rankings import ranks
from slmsafety.analysis.resampling import reach

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

    Columns: metric, odds_ratio, low, high (95 %, of the log odds, by t with one degree less than kinds of prompts), p
    and q (Benjamini-Hochberg). Limits and tests are nan below ten kinds, and for an effect that one kind determines.
    """
    places = [model.columns.index(metric) for metric in model.metrics]
    b, se = model.params[places], np.sqrt(np.diag(model.covariance))[places]
    half = reach(model.clusters) * se
    limits = {"odds_ratio": np.exp(b), "low": np.exp(b - half), "high": np.exp(b + half)}
    p = [two_sided(*pair, model.clusters) for pair in zip(b, se, strict=True)]
    frame = pd.DataFrame({"metric": model.metrics, **limits, "p": np.array(p, float)})
    return frame.assign(q=benjamini_hochberg(frame["p"]))


def standardized_rates(model: AmbiguityModel, rows: pd.DataFrame) -> pd.DataFrame:
    """Return each model's ambiguity rate at its own and at a common quality of the replies, with its rank by both.

    `rows` are those that `model` was fitted to. At common quality the fitted model gives every reply (of all models,
    with its own prompt and metrics) to each model in turn and averages the probabilities: standardisation, the
    g-formula of Robins (1986). A model of the same rows with no effect but those of models and suites does the same at
    each model's own quality, so that both rates are over the same mixture of suites, whichever a model has. Columns:
    model, n (labelled replies), ar (as observed: the mean over the prompts of whatever suites it has), own, common,
    common_low, common_high (delta method, over kinds of prompts), rank and rank_common (of own and common, 1 is the
    lowest, ties share), turned (models with which its order clearly turns: the 95 % intervals of both differences, at
    their own and at a common quality, leave 0 out on opposite sides). Own and all after it are nan for a model that the
    fit leaves out; common is for all where there is no fit, and then both ranks too; turned is where no pair of the
    model has both intervals.
    """
    n = rows.groupby("model", sort=True, observed=True)["ambiguous"].count()
    of_prompts = rows.groupby(["prompt", "model"], observed=True)["ambiguous"].mean()
    ar = of_prompts.groupby(level="model", sort=True, observed=True).mean()
    frame = pd.DataFrame({"n": n, "ar": ar}).set_axis([str(name) for name in n.index], axis=0)
    plain = ambiguity_model(rows.iloc[model.rows], [])
    own, common = _rates_of_all_replies(plain), _rates_of_all_replies(model)
    for name, (rate, _) in own.items():
        frame.loc[name, "own"] = rate
    for name, (rate, gradient) in common.items():
        frame.loc[name, ["common", "common_low", "common_high"]] = np.clip(_interval(rate, gradient, model), 0, 1)
    frame = frame.reindex(columns=["n", "ar", "own", "common", "common_low", "common_high"])
    both = frame.dropna(subset=["own", "common"])
    frame["rank"], frame["rank_common"] = ranks(-both["own"]), ranks(-both["common"])
    frame["turned"] = pd.Series(_turned(_orders(own, plain), _orders(common, model)), [*common], dtype="float64")
    return frame.rename_axis("model").reset_index()


def _orders(rates: dict[str, tuple[float, Floats]], model: AmbiguityModel) -> Floats:
    """Return for each pair of models 1 or -1 where the first has clearly more or less, else 0; nan without interval."""
    values, gradients = (np.array([rate[place] for rate in rates.values()]) for place in (0, 1))
    among = gradients @ model.covariance @ gradients.T if len(values) else np.empty((0, 0))
    variances = np.diag(among)[:, None] + np.diag(among) - 2 * among
    gaps = values[:, None] - values if len(values) else np.empty((0, 0))
    clear = np.abs(gaps) > reach(model.clusters) * np.sqrt(np.maximum(variances, 0))
    return np.where(np.isnan(variances), np.nan, np.sign(gaps) * clear)


def _turned(own: Floats, common: Floats) -> Floats:
    """Return for each model with how many others its order clearly turns; nan without a pair that has intervals."""
    products = own * common
    np.fill_diagonal(products, np.nan)
    known = ~np.isnan(products)
    return np.where(known.any(axis=1), (known & (products < 0)).sum(axis=1), np.nan)


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
        differences of average probabilities (-1..1; 0: nothing changes) with 95 % limits (delta method, over kinds of
        prompts); p is that of no change by the step (without one: by the SD), q Benjamini-Hochberg over the metrics.
        nan without a fit, and for the step of a metric that has none; limits and tests also below ten kinds.
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
    p = two_sided(change, _error(gradient, model.covariance), model.clusters)
    return _Change(*_interval(change, gradient, model), p)


def _interval(value: float, gradient: Floats, model: AmbiguityModel) -> tuple[float, float, float]:
    """Return the value with its 95 % limits by the delta method."""
    half = reach(model.clusters) * _error(gradient, model.covariance)
    return value, value - half, value + half


def _error(gradient: Floats, covariance: Floats) -> float:
    """Return the standard error of a value by the delta method."""
    return float(np.sqrt(gradient @ covariance @ gradient))
