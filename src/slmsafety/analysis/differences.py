"""Differences of two models' mean scores, on the prompts that both answered, with intervals over groups of prompts."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd

from slmsafety.analysis import mean_intervals
from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.label_matrix import LabelMatrix, label_matrix, values
from slmsafety.analysis.rankings import ranks

COLUMNS = ("suite", "model", "other", "prompts", "groups", "difference", "difference_low", "difference_high")


def neighbour_differences(labels: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Return how far each model's mean score is above that of the next in its suite, on the prompts of both.

    Parameters
    ----------
    labels : DataFrame
        As for `label_matrix`; replies without a label are left out.
    confidence : float
        Of each single interval, 0..1: with many neighbours some hold no more than that by chance.

    Returns
    -------
    DataFrame
        A row for two neighbours in the ranking by mean score: suite, model (the higher by all of its prompts), other,
        prompts and groups (int: with a label of both), difference (of the means on these, -1..1; below 0 where these
        say otherwise) with difference_low and difference_high (`mean_intervals.difference_interval`: the models answer
        the same prompts, so that the error is of the differences). nan below ten groups. Order among equal means: by
        name.
    """
    rows = []
    for suite, matrix in label_matrix(labels).items():
        means = [_model_mean(matrix, place) for place in range(len(matrix.models))]
        order = _in_order(pd.DataFrame({"model": matrix.models, "mean": means}))
        rows += [(suite, *paired_difference(matrix, i, j, confidence)) for i, j in pairwise(order)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def paired_difference(
    matrix: LabelMatrix, first: int, second: int, confidence: float = 0.95
) -> tuple[str, str, int, int, float, float, float]:
    """Return both models' names, prompts, groups, and the difference of their means with its limits (nan for none)."""
    one, two = (values(matrix.labels[:, place], "mean")[0] for place in (first, second))
    both = ~np.isnan(one - two)
    apart, of = (one - two)[both], matrix.groups[both]
    limits = mean_intervals.difference_interval(apart, of, confidence)
    mean = float(apart.mean()) if len(apart) else math.nan
    return matrix.models[first], matrix.models[second], len(apart), len(set(of)), mean, *limits


def _model_mean(matrix: LabelMatrix, place: int) -> float:
    own: Floats = values(matrix.labels[:, place], "mean")[0]
    return float(np.nanmean(own)) if not np.isnan(own).all() else math.nan


def unpaired_differences(outcomes: pd.DataFrame, rounding: float = 0.0, confidence: float = 0.95) -> pd.DataFrame:
    """Return `neighbour_differences` where no more than rates and n are known.

    Parameters
    ----------
    outcomes : DataFrame
        suite, model, n, groups (of prompts), ar, srr and mean (0..1).
    rounding : float
        How far a printed mean can be from the mean, such as .005: both limits move out by twice that.
    confidence : float
        0..1.

    Returns
    -------
    DataFrame
        The columns of `neighbour_differences`; prompts and groups are the smaller of both. Nothing tells how far two
        models' replies to one prompt, and the replies to the prompts of a group, go together: the error is the sum of
        both errors, each as if all replies to a group were alike, which is the largest that it can be.
    """
    rows = []
    for suite, part in outcomes.dropna(subset=["mean", "ar", "srr"]).groupby("suite", sort=True):
        known = part.reset_index(drop=True)
        variance = known["srr"] + known["ar"] / 4 - known["mean"] ** 2
        errors = np.sqrt((variance / known["groups"].astype(float)).clip(lower=0))
        for i, j in pairwise(_in_order(known)):
            n, count = (int(min(known[name][i], known[name][j])) for name in ("n", "groups"))
            apart = float(known["mean"][i] - known["mean"][j])
            low, high = mean_intervals.around(apart, float(errors[i] + errors[j]), count, confidence)
            limits = (max(low - 2 * rounding, -1.0), min(high + 2 * rounding, 1.0))
            rows.append((suite, known["model"][i], known["model"][j], n, count, apart, *limits))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _in_order(means: pd.DataFrame) -> list[int]:
    """The row numbers of the models with a mean, the highest first, equal ones by name."""
    found = means.assign(rank=ranks(means["mean"])).dropna(subset="rank").sort_values(["rank", "model"])
    return [int(place) for place in found.index]
