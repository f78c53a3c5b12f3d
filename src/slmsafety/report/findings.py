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
    """Give each metric's correlation with AR, and whether it passes q < 0.05, as the paper tests and over kinds.

    Parameters
    ----------
    fits : DataFrame
        One row a metric: metric, n (prompts), r (Pearson, -1 to 1; nan where undefined), q (0 to 1; prompts taken as
        independent), kinds (of prompts), q_kinds (0 to 1, over these; nan where undefined) and rho (Spearman).

    Returns
    -------
    list of str
        The sentences.
    """
    told, known = [], fits.dropna(subset="r")
    for metric, n, r, q, q_kinds, rho in known[["metric", "n", "r", "q", "q_kinds", "rho"]].itertuples(index=False):
        passes = "passes" if q < LEVEL else "does not pass"
        tested = "no test over kinds" if np.isnan(q_kinds) else f"over kinds q = {q_kinds:.2g}"
        told.append(
            f"{metric}: r = {r:.2f} with AR over {n:,} prompts (q = {q:.2g}, which {passes} q < {LEVEL}; {tested});"
            f" Spearman's rho = {rho:.2f}."
        )
    if len(known):
        told.append(_by_kinds(known))
    others = fits.loc[fits["r"].isna(), "metric"]
    return [*told, f"No correlation with AR is defined for {_list(others)}."] if len(others) else told


def _by_kinds(known: pd.DataFrame) -> str:
    """Return what is left of the correlations that pass as the paper tests, when other kinds of prompts are drawn."""
    passed, firm = known["q"] < LEVEL, known["q_kinds"] < LEVEL
    kinds = f"{counted(known['kinds'].max(), 'kind')} of prompts"
    if known["q_kinds"].isna().all():
        return f"{kinds}: too few to say whether other kinds would show the same."
    return (
        f"With prompts as independent draws {int(passed.sum())} of {len(known)} pass, and over {kinds}"
        f" {int(firm.sum())}; passed by the first alone: {_list(known.loc[passed & ~firm, 'metric'])}."
    )


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
        f"Metrics whose own 95% interval over kinds of prompts leaves 0 out (by chance one in 20 does): {_list(clear)}"
        f" (no interval for {int(known['low'].isna().sum())} of {len(known)}).",
    ]


def fitted(rows: int, about: Mapping[str, Any], model: str = "The model") -> list[str]:
    """Count what a logistic model was fitted to and what it leaves out.

    Parameters
    ----------
    rows : int
        All replies.
    about : mapping
        n, prompts and kinds (int: the replies in the model, the prompts that these answer, and the kinds of these),
        left_out (replies left out, by reason) and no_interval (a sentence where an effect has none, or "").
    model : str
        What the model is called.

    Returns
    -------
    list of str
        The sentences.
    """
    gone = ", ".join(f"{count:,} ({reason})" for reason, count in about["left_out"].items())
    taken = f"{about['n']:,} of {rows:,} replies, to {_prompts(about['prompts'], about['kinds'])}"
    said = [f"{model} takes {taken}; left out: {gone or 'none'}."]
    return [*said, about["no_interval"]] if about["no_interval"] else said


def odds(ratios: pd.DataFrame) -> list[str]:
    """Name the odds ratios that pass q < 0.05, the strongest first.

    Parameters
    ----------
    ratios : DataFrame
        One row a metric: metric, odds_ratio (for one standard deviation; 1 is no effect), low, high and q. Without any
        q nothing is told.

    Returns
    -------
    list of str
        The sentences.
    """
    if ratios["q"].isna().all():
        return []
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
        One row a set: by (text), n, missing (prompts with and without all values), kinds (of these prompts) and unseen
        (R2 of left-out kinds, at most 1; 0 or less is no better than the mean).

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
        f"Share of the variance of a prompt's AR explained, of kinds of prompts that the fit has not seen: {told}",
        f"({_prompts(first['n'], first['kinds'])}; {first['missing']:,} lack AR or a metric).",
    ]


def explained_models(shares: pd.DataFrame) -> list[str]:
    """Give the share of the variance of the models' AR and rank movement that the quality of replies explains.

    Parameters
    ----------
    shares : DataFrame
        One row a suite and quantity: suite, of (the quantity), n (rows), models, r2, adjusted and unseen (R2 of models
        that are left out with all their rows). Only suite "all" is told.

    Returns
    -------
    list of str
        The sentences.
    """
    told, known = [], shares[shares["suite"].eq("all") & shares["r2"].notna()]
    for of, n, models, r2, adjusted, unseen in known[["of", "n", "models", "r2", "adjusted", "unseen"]].to_numpy():
        new = f"; of models that the fit has not seen: {_percent(unseen)}"
        told.append(
            f"Within suites, the mean quality of replies explains {_percent(r2)} of the variance of models' {of}"
            f" ({_percent(adjusted)} adjusted{new}; {n} rows of {counted(models, 'model')})."
        )
    return told


def common_quality(rates: pd.DataFrame) -> list[str]:
    """Compare how far apart the models are at their own quality of replies and at a common one.

    Parameters
    ----------
    rates : DataFrame
        One row a model: model, card where it may be a system of one, own and common (AR, 0 to 1; nan where undefined),
        rank, rank_common and turned (models with which its order clearly turns; nan without intervals).

    Returns
    -------
    list of str
        The sentences.
    """
    both = rates.dropna(subset=["own", "common"])
    if len(both) < 2:
        return []
    spans = [both[name].max() - both[name].min() for name in ("own", "common")]
    said = f"AR spans {spans[0]:.2f} over {systems(both)} at their own quality, and {spans[1]:.2f} at a common one."
    turned, moved = both["turned"].dropna(), (both["rank"] - both["rank_common"]).abs()
    chance = f"by the estimates alone {int((moved > 0).sum())} change rank (by {moved.max():g} at most)"
    if turned.empty:
        return [said, f"Whether any order clearly turns is unknown: there are no intervals; {chance}."]
    pairs, every = int(turned.sum()) // 2, len(turned) * (len(turned) - 1) // 2
    clear = f"Pairs whose order clearly turns (both intervals leave 0 out, on opposite sides): {pairs} of {every}"
    return [said, f"{clear}; {chance}, which other prompts could undo."]


def prompt_steps(changes: pd.DataFrame) -> list[str]:
    """Name the steps of a metric that lower AR and those that raise it, among those with q < 0.05; none without a q.

    Parameters
    ----------
    changes : DataFrame
        One row a metric: metric, step (in its unit), change, low, high (of AR) and q.

    Returns
    -------
    list of str
        The sentences.
    """
    if changes["q"].isna().all():
        return []
    clear = changes[changes["q"] < LEVEL]
    told = {
        way: [
            f"{row.metric} {row.step:+g}: {row.change:+.3f} ({row.low:+.3f} to {row.high:+.3f})"
            for row in clear[clear["change"] * sign > 0].itertuples()
        ]
        for way, sign in (("lower", -1), ("raise", 1))
    }
    return [f"Steps that {way} AR and pass q < {LEVEL}: {_list(found)}." for way, found in told.items()]


def _prompts(prompts: int, kinds: int) -> str:
    """Count prompts and, where several are of one kind, their kinds."""
    return counted(prompts, "prompt") + (f" of {counted(kinds, 'kind')}" if kinds < prompts else "")


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _percent(share: float) -> str:
    return "undefined" if np.isnan(share) else f"{round(share, 2) + 0:.0%}"
