"""Sentences about what drives ambiguity: each function takes a frame of the analysis.

A number that is undefined is not told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from slmsafety.report.score_findings import systems
from slmsafety.report.text import counted

LEVEL, APART = 0.05, 0.2


def undefined_metrics(summary: pd.DataFrame) -> list[str]:
    """Count the texts that lack each metric.

    Parameters
    ----------
    summary : DataFrame
        One row a metric and suite: metric (text), n and missing (int, texts with and without a value).

    Returns
    -------
    list of str
        The sentences.
    """
    totals = summary.groupby("metric", sort=False)[["n", "missing"]].sum()
    lacking = [(name, m, n + m) for name, n, m in totals.itertuples() if m]
    told = ", ".join(f"{name} of {missing:,} in {total:,}" for name, missing, total in lacking)
    if not told:
        return ["Undefined: no metric of any text."]
    return [f"Undefined: {told}.", "A text without the metric is left out of means and correlations, and counted."]


def no_correlation(fits: pd.DataFrame) -> str:
    """Return why no metric has a correlation with AR; "" where one has.

    Parameters
    ----------
    fits : DataFrame
        r (Pearson, -1 to 1; nan where undefined), a row a metric.

    Returns
    -------
    str
        The reason.
    """
    return "" if fits["r"].notna().any() else "no metric differs between three prompts with an ambiguity rate"


def associations(fits: pd.DataFrame) -> list[str]:
    """Give each metric's correlation with AR, and whether it passes q < 0.05.

    Parameters
    ----------
    fits : DataFrame
        One row a metric: metric, n (prompts), r (Pearson, -1 to 1; nan where undefined), q (0 to 1) and rho (Spearman).

    Returns
    -------
    list of str
        The sentences.
    """
    told, known = [], fits.dropna(subset="r")
    for metric, n, r, q, rho in known[["metric", "n", "r", "q", "rho"]].itertuples(index=False):
        passes = "passes" if q < LEVEL else "does not pass"
        told.append(
            f"{metric}: r = {r:.2f} with AR over {n:,} prompts (q = {q:.2g}, which {passes} q < {LEVEL}); "
            f"Spearman's rho = {rho:.2f}."
        )
    others = fits.loc[fits["r"].isna(), "metric"]
    return [*told, f"No correlation with AR is defined for {_list(others)}."] if len(others) else told


def checks(checked: pd.DataFrame) -> list[str]:
    """Name the correlations that change by rank, within suites or at equal length, and those whose interval excludes 0.

    Parameters
    ----------
    checked : DataFrame
        One row a metric: metric, r, rho, within and partial (float, -1 to 1), turned (bool: the sign turns within
        suites), opposite (suites with the other sign), suites (their number), low and high (the 95 % interval of r).

    Returns
    -------
    list of str
        The sentences.
    """
    known = checked.dropna(subset=["r"])
    if known.empty:
        return []
    turned = [f"{row.metric} ({row.r:.2f}, within suites {row.within:.2f})" for row in known.itertuples() if row.turned]
    ranked = known[(known["r"] * known["rho"] < 0) | ((known["r"] - known["rho"]).abs() > APART)]
    apart = [f"{row.metric} ({row.r:.2f}, by rank {row.rho:.2f})" for row in ranked.itertuples()]
    mixed = known.loc[known["opposite"] > 0, "metric"]
    length = known.loc[known["r"] * known["partial"] < 0, "metric"]
    clear = known.loc[(known["low"] > 0) | (known["high"] < 0), "metric"]
    return [
        f"Metrics whose rank correlation has another sign, or lies over {APART} away: {_list(apart)}.",
        f"Metrics whose sign turns within suites: {_list(turned)}.",
        f"Metrics with another sign in some suite than over all prompts: {_list(mixed)}.",
        f"Metrics whose sign turns when the lengths of prompt and reply are held: {_list(length)}.",
        f"Metrics whose interval over finest categories leaves 0 out: {_list(clear)}"
        f" (no interval for {int(known['low'].isna().sum())} of {len(known)}).",
    ]


def fitted(rows: int, about: Mapping[str, Any], model: str = "The model") -> list[str]:
    """Count what a logistic model was fitted to and what it leaves out.

    Parameters
    ----------
    rows : int
        All replies.
    about : mapping
        n and prompts (int: the replies in the model, and the prompts that these answer) and left_out (replies left out,
        by reason).
    model : str
        What the model is called.

    Returns
    -------
    list of str
        The sentences.
    """
    gone = ", ".join(f"{count:,} ({reason})" for reason, count in about["left_out"].items())
    taken = f"{about['n']:,} of {rows:,} replies, to {counted(about['prompts'], 'prompt')}"
    return [f"{model} takes {taken}; left out: {gone or 'none'}."]


def odds(ratios: pd.DataFrame) -> list[str]:
    """Name the odds ratios that pass q < 0.05, the strongest first.

    Parameters
    ----------
    ratios : DataFrame
        One row a metric: metric, odds_ratio (for one standard deviation; 1 is no effect), low, high and q.

    Returns
    -------
    list of str
        The sentences.
    """
    size = np.abs(np.log(ratios["odds_ratio"].to_numpy(float)))
    clear = ratios.assign(size=size)[ratios["q"] < LEVEL].sort_values("size", ascending=False)
    told = [f"{row.metric} {row.odds_ratio:.2f} ({row.low:.2f} to {row.high:.2f})" for row in clear.itertuples()]
    return [f"Odds ratios for one SD that pass q < {LEVEL}, the strongest first: {_list(told)}."]


def nothing_explained(shares: pd.DataFrame) -> str:
    """Return why no set of predictors explains anything of the variance; "" where one has a share.

    Parameters
    ----------
    shares : DataFrame
        r2 (0 to 1; nan where undefined), a row a set.

    Returns
    -------
    str
        The reason.
    """
    none = "there are too few of them for its metrics, or their rates do not differ"
    return "" if shares["r2"].notna().any() else none


def explained_prompts(shares: pd.DataFrame) -> list[str]:
    """Give the share of the variance of the prompts' AR that each set of predictors explains.

    Parameters
    ----------
    shares : DataFrame
        One row a set: by (text), n, missing (prompts with and without all values) and unseen (R2 of left-out prompts,
        at most 1; 0 or less is no better than the mean).

    Returns
    -------
    list of str
        The sentences.
    """
    known, first = shares.dropna(subset="unseen"), shares.iloc[0]
    if known.empty:
        return []
    told = "; ".join(f"{by}: {_percent(unseen)}" for by, unseen in zip(known["by"], known["unseen"], strict=True))
    return [
        f"Share of the variance of a prompt's AR explained, of prompts that the fit has not seen: {told}",
        f"({first['n']:,} prompts; {first['missing']:,} lack AR or a metric).",
    ]


def explained_models(shares: pd.DataFrame) -> list[str]:
    """Give the share of the variance of the models' AR and rank movement that the quality of replies explains.

    Parameters
    ----------
    shares : DataFrame
        One row a suite and quantity: suite, of (the quantity), n (rows), r2, adjusted and unseen (R2 of left-out rows).
        Only suite "all" is told.

    Returns
    -------
    list of str
        The sentences.
    """
    told, known = [], shares[shares["suite"].eq("all") & shares["r2"].notna()]
    for of, n, r2, adjusted, unseen in known[["of", "n", "r2", "adjusted", "unseen"]].to_numpy():
        new = "" if pd.isna(unseen) else f"; {_percent(unseen)} of rows that the fit has not seen"
        told.append(
            f"Within suites, the mean quality of replies explains {_percent(r2)} of the variance of models' {of}"
            f" ({_percent(adjusted)} adjusted{new}; {n} rows of a model in a suite)."
        )
    return told


def common_quality(rates: pd.DataFrame) -> list[str]:
    """Compare how far apart the models are at their own quality of replies and at a common one.

    Parameters
    ----------
    rates : DataFrame
        One row a model: model, card where it may be a system of one, own and common (AR, 0 to 1; nan where undefined),
        rank and rank_common.

    Returns
    -------
    list of str
        The sentences.
    """
    both = rates.dropna(subset=["own", "common"])
    if len(both) < 2:
        return []
    spans = [both[name].max() - both[name].min() for name in ("own", "common")]
    moved = (both["rank"] - both["rank_common"]).abs()
    return [
        f"AR spans {spans[0]:.2f} over {systems(both)} at their own quality, and {spans[1]:.2f} at a common one.",
        f"Those whose rank by AR changes: {int((moved > 0).sum())} (by {moved.max():g} at most).",
    ]


def prompt_steps(changes: pd.DataFrame) -> list[str]:
    """Name the steps of a metric that lower AR and those that raise it, among those with q < 0.05.

    Parameters
    ----------
    changes : DataFrame
        One row a metric: metric, step (in its unit), change, low, high (of AR) and q.

    Returns
    -------
    list of str
        The sentences.
    """
    clear = changes[changes["q"] < LEVEL]
    told = {
        way: [
            f"{row.metric} {row.step:+g}: {row.change:+.3f} ({row.low:+.3f} to {row.high:+.3f})"
            for row in clear[clear["change"] * sign > 0].itertuples()
        ]
        for way, sign in (("lower", -1), ("raise", 1))
    }
    return [f"Steps that {way} AR and pass q < {LEVEL}: {_list(found)}." for way, found in told.items()]


def strongest_features(found: pd.DataFrame) -> list[str]:
    """Name the four strongest correlations of a model's features with AR.

    Parameters
    ----------
    found : DataFrame
        One row a feature: feature (text) and r_ar (float, -1 to 1).

    Returns
    -------
    list of str
        The sentences.
    """
    order = found["r_ar"].dropna().abs().nlargest(4).index
    if not len(order):
        return []
    strongest = "; ".join(f"{row.feature} {row.r_ar:.2f}" for row in found.loc[order].itertuples())
    return [f"With the true architecture, the strongest correlations with AR: {strongest}."]


def table4_gaps(gap: pd.DataFrame) -> list[str]:
    """Say how far the recomputed correlations of Table 4 are from the printed ones.

    Parameters
    ----------
    gap : DataFrame
        r_ar and r_score: recomputed minus printed, a row a feature.

    Returns
    -------
    list of str
        The sentence.
    """
    worst = gap[["r_ar", "r_score"]].abs().max()
    return [
        "Printed correlations come from unrounded rates and cannot be reached exactly: recomputed from the printed"
        f" rates they differ by at most {worst['r_ar']:.3f} (AR) and {worst['r_score']:.3f} (score)."
    ]


def no_range(ranges: pd.DataFrame) -> str:
    """Return why no correlation has a range; "" where one has.

    Parameters
    ----------
    ranges : DataFrame
        low_ar and low_score (nan where undefined), a row a feature.

    Returns
    -------
    str
        The reason.
    """
    known = ranges[["low_ar", "low_score"]].notna().any(axis=None)
    return "" if known else "without one family its models have no correlation left"


def family_ranges(ranges: pd.DataFrame) -> list[str]:
    """Count the correlations that keep their sign whichever model family is left out.

    Parameters
    ----------
    ranges : DataFrame
        One row an encoding and feature: encoding, feature, r_ar, low_ar, high_ar (float, -1 to 1) and without_ar (the
        family whose absence moves it most).

    Returns
    -------
    list of str
        The sentences.
    """
    told = []
    for encoding, group in ranges.dropna(subset=["r_ar", "low_ar"]).groupby("encoding", sort=False):
        firm = (group["low_ar"] > 0) | (group["high_ar"] < 0)
        row = group.iloc[int((group["high_ar"] - group["low_ar"]).to_numpy().argmax())]
        told.append(
            f"Features, {encoding}: {int(firm.sum())} of {len(group)} correlations with AR keep their sign"
            f" whichever family is left out; {row['feature']} moves most ({row['low_ar']:.2f} to {row['high_ar']:.2f}, "
            f"most without {row['without_ar']})."
        )
    return told


def model_groups(value: float, low: float, high: float, families: int, year: pd.Series) -> list[str]:
    """Compare tuned with base models, and give the correlations with the year of release.

    Parameters
    ----------
    value, low, high : float
        The difference of mean AR and its 95 % interval; nan where undefined.
    families : int
        The families that the interval resamples.
    year : Series
        n (models), r_ar and r_score (-1 to 1, or nan).

    Returns
    -------
    list of str
        The sentences.
    """
    interval = "no interval" if np.isnan(low) else f"{low:+.2f} to {high:+.2f}, families resampled"
    tuned = f"Tuned against base: AR {value:+.2f} ({interval}; {counted(families, 'family', 'families')})."
    sides = {"AR": year["r_ar"], "the score": year["r_score"]}
    known = ", ".join(f"r = {r:.2f} with {name}" for name, r in sides.items() if not np.isnan(r))
    years = f"Year of release: {known} ({counted(year['n'], 'model')})."
    return [sentence for sentence, told in ((tuned, not np.isnan(value)), (years, known)) if told]


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _percent(share: float) -> str:
    return "undefined" if np.isnan(share) else f"{round(share, 2) + 0:.0%}"
