"""Rankings (1 is best) and how far they agree."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import kendalltau, rankdata

from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.resampling import FEWEST_CLUSTERS, percentile_interval, widened
from slmsafety.analysis.ties import sign, snap


def ranks(scores: pd.Series) -> pd.Series:
    """Return the rank of each score, 1 for the highest; ties share the mean of their ranks, nan has rank nan."""
    values = snap(scores.to_numpy(float))
    return pd.Series(rankdata(-values, method="average", nan_policy="omit"), index=scores.index)


def rank_within_suites(scores: pd.DataFrame, column: str = "score") -> pd.Series:
    """Return each row's rank among the models of its suite and, where there is one, its treatment."""
    by = [name for name in ("suite", "treatment") if name in scores.columns]
    return scores.groupby(by, sort=False)[column].transform(ranks)


def rank_change(scores: pd.DataFrame, before: str, after: str) -> pd.Series:
    """Return how many places each row moves up among the models of its suite from one score to another.

    Parameters
    ----------
    scores : DataFrame
        suite and the columns `before` and `after` (scores; higher is better).
    before, after : str
        The two scores.

    Returns
    -------
    Series
        The rank by `before` minus the rank by `after`, in places: positive is up; nan where a score is.
    """
    return rank_within_suites(scores, before) - rank_within_suites(scores, after)


def rank_ranges(trajectories: pd.DataFrame) -> pd.DataFrame:
    """Return suite, model, best, worst and range of a model's rank over the treatments, nan ranks left out."""
    grouped = trajectories.groupby(["suite", "model"], sort=False)["rank"]
    frame = grouped.agg(best="min", worst="max").reset_index()
    return frame.assign(range=frame["worst"] - frame["best"])


def of_models(outcomes: pd.DataFrame, limits: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return outcomes with one row a suite and model: the systems of one card are one model, whose mean is theirs.

    A system is a model and a way of asking it. Where `outcomes` has a column `card` (whose model a system's is),
    `model` becomes the card, `mean` the mean over its systems with a score (nan without one), mean_low and mean_high
    those of `limits` (suite, model; nan where it has none), and the first system's other columns stand. Without that
    column, or with one system a card, every row stays as it is.
    """
    if "card" not in outcomes or not outcomes.duplicated(["suite", "card"]).any():
        return outcomes
    means = outcomes.groupby(["suite", "card"])["mean"].transform("mean")
    several = outcomes.duplicated(["suite", "card"], keep=False)
    merged = outcomes.assign(mean=means, model=outcomes["card"])
    for name in ("mean_low", "mean_high"):
        if name in outcomes:
            merged[name] = outcomes[name].mask(several)
        if limits is not None:
            known = merged[["suite", "model"]].merge(limits, how="left", on=["suite", "model"])[name].to_numpy()
            merged[name] = np.where(several, known, merged[name])
    return merged.drop_duplicates(["suite", "card"], ignore_index=True)


def rank_agreement(outcomes: pd.DataFrame, rng: np.random.Generator, resamples: int = 2000) -> pd.DataFrame:
    """Compare the rankings of every two suites by Kendall's tau-b of their mean scores.

    Parameters
    ----------
    outcomes : DataFrame
        suite, model and mean, a row a suite and model; and card, where several of them are systems of one model.
    rng : numpy.random.Generator
        Draws the models.
    resamples : int
        The number of draws.

    Returns
    -------
    DataFrame
        suite_a, suite_b, tau, low, high, n (int: models that both suites scored) and, where some of those are systems
        of one card, `models` (int: their different cards). tau is 1 where both suites order all
        models alike, 0 where as many pairs agree as disagree, -1 where one order is the other reversed; nan below two
        models. low and high are the 95 % percentile interval over models drawn with replacement, each with all its
        systems; a draw in which a suite is constant is left out; nan below ten models, and where every draw is left
        out.

    References
    ----------
    Kendall, M. G. (1945). The treatment of ties in ranking problems. Biometrika 33, 239-251.
    """
    table = outcomes.pivot(index="model", columns="suite", values="mean")
    suites = list(dict.fromkeys(outcomes["suite"]))
    named = outcomes if "card" in outcomes else outcomes.assign(card=outcomes["model"])
    cards = named.drop_duplicates("model").set_index("model")["card"]
    rows = []
    for number, first in enumerate(suites):
        for second in suites[number + 1 :]:
            common = table[[first, second]].dropna()
            both, own = common.to_numpy(), cards.loc[common.index].to_numpy()
            limits = _tau_interval(both, own, rng, resamples) if len(set(own)) >= FEWEST_CLUSTERS else (np.nan, np.nan)
            rows.append((first, second, tau(both[:, 0], both[:, 1]), *limits, len(both), len(set(own))))
    found = pd.DataFrame(rows, columns=["suite_a", "suite_b", "tau", "low", "high", "n", "models"])
    return found if cards.duplicated().any() else found.drop(columns="models")


def size_steps(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Return the change of the mean score from each size to the next larger one of the same family and suite.

    Columns: suite, family, smaller, larger (models), change (of the mean score, nan where one has no score). Models
    of equal size are ordered by name and have no step between them; families with one model, and models without a size,
    have none.
    """
    rows = []
    for (suite, family), group in outcomes.groupby(["suite", "family"], sort=True):
        ordered = group.dropna(subset=["params_m"]).sort_values(["params_m", "model"])
        listed = zip(*(ordered[name].tolist() for name in ("model", "mean", "params_m")), strict=True)
        for (smaller, before, small), (larger, after, large) in pairwise(listed):
            if large > small:
                rows.append((suite, family, smaller, larger, after - before))
    return pd.DataFrame(rows, columns=["suite", "family", "smaller", "larger", "change"])


def size_trend(outcomes: pd.DataFrame, rng: np.random.Generator, resamples: int = 2000) -> pd.DataFrame:
    """Say how the mean score of each suite goes with the size of the model: within families, and over all models.

    Parameters
    ----------
    outcomes : DataFrame
        suite, model, family, params_m (millions of parameters) and mean (0 to 1), a row a suite and model
        (`of_models`).
    rng : numpy.random.Generator
        Draws the families.
    resamples : int
        The number of draws.

    Returns
    -------
    DataFrame
        A row a suite with a model that has a score and a size: suite; steps (int, to the next larger model of a
        family that has a score, `size_steps`); rises, falls and level (int, the steps by the change of
        the mean score; two decimals that are alike in print are level); mean_change (mean of the changes, -1 to 1,
        nan without a step); models and families (int, with a size and a score); tau (Kendall's tau-b of size and mean
        score over those models, -1 to 1, nan below two or where either is constant) with tau_low and tau_high, the 95 %
        percentile interval over families drawn with replacement (nan below ten).

    References
    ----------
    Kendall, M. G. (1945). The treatment of ties in ranking problems. Biometrika 33, 239-251.
    """
    known = outcomes.dropna(subset=["params_m", "mean"])
    steps = size_steps(known)
    rows = []
    for suite, group in known.groupby("suite", sort=False):
        changes = steps.loc[steps["suite"] == suite, "change"].to_numpy(float)
        ways = sign(changes)
        both, families = group[["params_m", "mean"]].to_numpy(float), group["family"].to_numpy()
        found = len(set(families))
        limits = _tau_interval(both, families, rng, resamples) if found >= FEWEST_CLUSTERS else (np.nan, np.nan)
        counts = (len(changes), *(int((ways == way).sum()) for way in (1, -1, 0)))
        mean = float(changes.mean()) if len(changes) else np.nan
        rows.append((suite, *counts, mean, len(group), found, tau(both[:, 0], both[:, 1]), *limits))
    return pd.DataFrame(rows, columns=_TREND)


_TREND = [
    "suite",
    "steps",
    "rises",
    "falls",
    "level",
    "mean_change",
    "models",
    "families",
    "tau",
    "tau_low",
    "tau_high",
]


def tau(a: Floats, b: Floats) -> float:
    """Return Kendall's tau-b (-1..1) with float noise read as ties; nan below two values or when one is constant."""
    if len(a) < 2:
        return float("nan")
    return float(kendalltau(snap(a), snap(b)).statistic)


def possible_ranks(printed: pd.Series) -> pd.DataFrame:
    """Return the best and worst rank that each rounded score leaves open.

    Different prints keep their order before rounding; equal prints can stand in any order. Columns: best and worst,
    missing where the print is.
    """
    values = -snap(printed.to_numpy(float))
    best, worst = (rankdata(values, method=method, nan_policy="omit") for method in ("min", "max"))
    return pd.DataFrame({"best": best, "worst": worst}, index=printed.index).astype("Int64")


def _tau_interval(pairs: Floats, clusters: NDArray[Any], rng: np.random.Generator, resamples: int) -> Floats:
    # Tau is no function of sums over models, so that every draw is computed by itself.
    rows_of = [np.flatnonzero(clusters == cluster) for cluster in dict.fromkeys(clusters)]
    drawn = rng.integers(len(rows_of), size=(resamples, len(rows_of)))
    draws = [np.concatenate([rows_of[place] for place in draw]) for draw in drawn]
    a, b = snap(pairs[:, 0]), snap(pairs[:, 1])
    taus = np.array([kendalltau(a[draw], b[draw]).statistic for draw in draws], float)
    return percentile_interval(taus, widened(len(rows_of)))
