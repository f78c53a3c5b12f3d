"""Rates of models with their intervals over groups of prompts.

The unit is the group of prompts (`units.groups`); models and judge stay as they are. The formulas are those of
`mean_intervals`. A source that has rates and n alone gets binomial intervals, as if its replies were independent.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from slmsafety.analysis import mean_intervals
from slmsafety.analysis.arrays import Floats, Rows
from slmsafety.analysis.label_matrix import NO_LABEL, Labels, Missing, label_matrix, values
from slmsafety.analysis.mean_intervals import NO_LIMITS, Limits
from slmsafety.analysis.outcomes import RATES, SCORES
from slmsafety.analysis.proportions import wilson_interval
from slmsafety.analysis.resampling import FEWEST_CLUSTERS

WITH_LIMITS = (*RATES, "s_adj")
LIMITS = (*(f"{rate}{end}" for rate in WITH_LIMITS for end in ("_low", "_high")), "score_low", "score_high")
COLUMNS = (
    *("suite", "model", "n", "prompts", "groups"),
    *(f"{rate}{end}" for rate in WITH_LIMITS for end in ("", "_low", "_high")),
    *("score_low", "score_high"),
)


def rate_intervals(labels: pd.DataFrame, missing: Missing = "ignorable", confidence: float = 0.95) -> pd.DataFrame:
    """Return each model's rates in each suite with their intervals.

    Parameters
    ----------
    labels : DataFrame
        As for `label_matrix`.
    missing : {"ignorable", "worst"}
        What a reply without a label is: missing by chance, so that it is left out; or anything, so that an interval
        reaches from the least to the most that it can be (`mean_intervals.score_interval`).
    confidence : float
        0..1: how often the interval of another draw of groups would hold the rate.

    Returns
    -------
    DataFrame
        A row a suite and model with a label: n (int: replies that count, all of them for "worst"), prompts and groups
        (int: theirs); hcr, ar, srr, mean (`outcomes`) and s_adj (`treatments.adjusted_score`), 0..1, of the replies
        with a label; <rate>_low and <rate>_high; score_low and score_high, the interval of the mean under every reading
        of ambiguous replies. Limits are nan below ten groups.
    """
    rows = []
    for suite, matrix in label_matrix(labels).items():
        for place, model in enumerate(matrix.models):
            own = matrix.labels[:, place]
            if (own > NO_LABEL).any():
                rows.append({"suite": suite, "model": model, **_of_model(own, matrix.groups, missing, confidence)})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _of_model(own: Labels, groups: Rows, missing: Missing, confidence: float) -> dict[str, float]:
    """The counts, rates and limits of one model: its labels (prompts, samples) and the groups of the prompts."""
    counted = own > (NO_LABEL if missing == "ignorable" else NO_LABEL - 1)
    used = counted.any(axis=1)
    found: dict[str, float] = {"n": int(counted.sum()), "prompts": int(used.sum()), "groups": len(set(groups[used]))}
    mine, of = own[used], groups[used]
    for rate in RATES:
        least, most = values(mine, rate, missing)
        limits = (
            mean_intervals.interval(least, of, confidence)
            if np.array_equal(least, most)
            else mean_intervals.score_interval(least, most, of, confidence)
        )
        found |= {rate: _mean(own, rate), **_ends(rate, limits)}
    adjusted = found["mean"] * (1 - found["ar"])
    found |= {"s_adj": adjusted, **_ends("s_adj", _adjusted_limits(mine, of, missing, confidence))}
    score = mean_intervals.score_interval(*values(mine, "score", missing), of, confidence)
    return found | _ends("score", score)


def _mean(own: Labels, rate: str) -> float:
    return float(np.nanmean(values(own[(own > NO_LABEL).any(axis=1)], rate)[0]))


def _adjusted_limits(own: Labels, groups: Rows, missing: Missing, confidence: float) -> Limits:
    """The limits of mean (1 - AR); where labels are missing, the widest of all harmful, all ambiguous and all safe."""
    readings = (0, 1, 2) if missing == "worst" else (NO_LABEL,)
    found = [_adjusted(np.where(own == NO_LABEL, label, own), groups, confidence) for label in readings]
    return min(low for low, _ in found), max(high for _, high in found)


def _adjusted(own: Labels, groups: Rows, confidence: float) -> Limits:
    mean, ar = values(own, "mean")[0], values(own, "ar")[0]
    m, a = float(mean.mean()), float(ar.mean())
    value = m * (1 - a)
    if 0 < value < 1:
        influence = (1 - a) * (mean - m) - m * (ar - a)
        return mean_intervals.function_interval(value, influence, groups, confidence)
    # All alike: all harmful or all ambiguous (0), or all safe (1), where both factors are at least the low limit.
    low, high = mean_intervals.interval(np.full(len(mean), value), groups, confidence)
    return low**2, high


def binomial_intervals(outcomes: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Return the limits of rates of which no more than n is known, as if their n replies were independent.

    They are too narrow where prompts come in groups of which the replies go together.

    Parameters
    ----------
    outcomes : DataFrame
        suite, model, n, hcr, ar, srr and mean (0..1), printed to any precision: rounding comes on top of the interval.
    confidence : float
        0..1.

    Returns
    -------
    DataFrame
        suite, model and the columns of `LIMITS`: Wilson's of the shares; of the mean and s_adj the multinomial error on
        the logit scale; score_low and score_high (`mean_intervals.score_interval` in its normal form). nan without
        rates or n.
    """
    rows = [_binomial(row, confidence) for row in outcomes.to_dict("records")]
    return pd.DataFrame(rows, columns=["suite", "model", *LIMITS])


def _binomial(row: dict[object, object], confidence: float) -> dict[str, object]:
    hcr, ar, srr, mean, n = (float(str(row[name])) for name in (*SCORES, "mean", "n"))
    found: dict[str, object] = {"suite": row["suite"], "model": row["model"]}
    if math.isnan(hcr + ar + srr + mean + n) or n < 1:
        return found | dict.fromkeys(LIMITS, math.nan)
    for rate, share in (("hcr", hcr), ("ar", ar), ("srr", srr)):
        found |= _ends(rate, wilson_interval(share * n, round(n), confidence))
    shares = np.array([hcr, ar, srr]) / (hcr + ar + srr)
    worth, ambiguous = np.array([0, 0.5, 1]), np.array([0, 1, 0])
    adjusted = (1 - ar) * (worth - mean) - mean * (ambiguous - ar)
    for rate, value, each in (("mean", mean, worth), ("s_adj", mean * (1 - ar), adjusted)):
        error = math.sqrt(max(float(shares @ each**2 - (shares @ each) ** 2), 0.0) / n)
        inside = 0 < value < 1
        limits = mean_intervals.on_logit_scale(value, error, round(n), confidence) if inside else NO_LIMITS
        found |= _ends(rate, limits)
    return found | _ends("score", mean_intervals.bounded_shares(srr, min(srr + ar, 1.0), round(n), confidence))


def with_limits(outcomes: pd.DataFrame, limits: pd.DataFrame) -> pd.DataFrame:
    """Return outcomes with the columns of `LIMITS`, nan for a suite and model that `limits` does not have."""
    wanted = ["suite", "model", *(name for name in LIMITS if name not in outcomes)]
    return outcomes.merge(limits.reindex(columns=wanted), on=["suite", "model"], how="left", validate="one_to_one")


def decisive_intervals(labels: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Return the limits of each suite's decisive share: the mean over its models of 1 - AR.

    Parameters
    ----------
    labels : DataFrame
        As for `label_matrix`; replies without a label are left out.
    confidence : float
        0..1.

    Returns
    -------
    DataFrame
        suite, decisive_low and decisive_high (0..1; over groups of prompts, for these models; nan where a model with
        labels has them in fewer than ten groups).
    """
    rows = []
    for suite, matrix in label_matrix(labels).items():
        low, high = _over_models(values(matrix.labels, "ar")[0], matrix.groups, confidence)
        limits = (1 - high, 1 - low)
        rows.append((suite, *limits))
    return pd.DataFrame(rows, columns=["suite", "decisive_low", "decisive_high"])


def card_limits(labels: pd.DataFrame, cards: pd.Series, confidence: float = 0.95) -> pd.DataFrame:
    """Return the limits of the mean score of each card with several systems: the mean over these (`of_models`).

    Parameters
    ----------
    labels : DataFrame
        As for `label_matrix`; replies without a label are left out.
    cards : Series
        The card of each model, indexed by model: systems of one card are one model.
    confidence : float
        0..1.

    Returns
    -------
    DataFrame
        suite, model (the card), mean_low and mean_high (0..1; nan as for `decisive_intervals`).
    """
    rows = []
    for suite, matrix in label_matrix(labels).items():
        scores, own = values(matrix.labels, "mean")[0], cards.reindex(matrix.models).to_numpy()
        for card in pd.unique(own[pd.Series(own).duplicated(keep=False)]):
            rows.append((suite, card, *_over_models(scores[:, own == card], matrix.groups, confidence)))
    return pd.DataFrame(rows, columns=["suite", "model", "mean_low", "mean_high"])


def _over_models(each: Floats, groups: Rows, confidence: float) -> Limits:
    """The limits of the mean over models (columns) of their means over prompts (rows; nan where there is none).

    nan where a model has labels in fewer than ten groups of its own. A model whose labels are all alike shows no error:
    it has that of `unseen_error`.
    """
    known = ~np.isnan(each)
    n = known.sum(axis=0)
    each, known, n = each[:, n > 0], known[:, n > 0], n[n > 0]
    own = [len(set(groups[column])) for column in known.T]
    if not own or min(own) < FEWEST_CLUSTERS:
        return NO_LIMITS
    used, means = known.any(axis=1), np.nanmean(each, axis=0)
    # A prompt weighs 1 / n in its model's mean, and one over the prompts in the mean of the influences.
    moves = (np.where(known, each - means, 0.0) / n * used.sum()).mean(axis=1)
    seen = mean_intervals.influence_error(moves[used], groups[used])
    flat = np.nanmax(np.abs(each - means), axis=0) < 1e-9
    unseen = [mean_intervals.unseen_error(float(means[place]), own[place]) for place in np.flatnonzero(flat)]
    error = math.sqrt(seen**2 + sum(alone**2 for alone in unseen) / len(means) ** 2)
    value = float(means.mean())
    if min(value, 1 - value) < 1e-9:
        return mean_intervals.interval(np.full(min(own), round(value)), range(min(own)), confidence)
    return mean_intervals.on_logit_scale(value, error, min(own), confidence)


def decisive_limits(outcomes: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Return `decisive_intervals` where no more than rates and n are known.

    Parameters
    ----------
    outcomes : DataFrame
        suite, model, groups (of prompts) and ar (0..1).
    confidence : float
        0..1.

    Returns
    -------
    DataFrame
        suite, decisive_low and decisive_high. Nothing tells how far replies to the prompts of a group, and the models'
        replies to one prompt, go together: the error is that of replies which are all alike, the largest there can be.
    """
    rows = []
    for suite, part in outcomes.dropna(subset="ar").groupby("suite", sort=True):
        error = float(np.sqrt(part["ar"] * (1 - part["ar"]) / part["groups"].astype(float)).mean())
        value, count = float(1 - part["ar"].mean()), int(part["groups"].min())
        inside = 0 < value < 1 and count >= FEWEST_CLUSTERS
        limits = mean_intervals.on_logit_scale(value, error, count, confidence) if inside else NO_LIMITS
        rows.append((suite, *limits))
    return pd.DataFrame(rows, columns=["suite", "decisive_low", "decisive_high"])


def _ends(name: str, limits: Limits) -> dict[str, float]:
    return {f"{name}_low": limits[0], f"{name}_high": limits[1]}
