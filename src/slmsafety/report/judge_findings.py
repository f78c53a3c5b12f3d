"""Sentences about judges, and about the letters of multiple choice: each function takes a frame of the analysis.

A number that is undefined is not told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from slmsafety.report.text import counted


def against_hand_labels(judge: str, found: Mapping[str, Any], others: int) -> list[str]:
    """Say how far a judge agrees with hand labels.

    Parameters
    ----------
    judge : str
        The judge's name.
    found : mapping of str to number
        n (replies, at least one), exact, ar_first (by hand) and ar_second (0 to 1), kappa, kappa_low and kappa_high.
    others : int
        Hand labels that do not apply.

    Returns
    -------
    list of str
        The sentences.
    """
    exact, limits = f"{found['exact']:.0%} of {_replies(found['n'])}", "95 % interval "
    return [
        f"Judge {judge} agrees with the hand labels on {exact} to harmful prompts{_kappa(found, 2, limits)}.",
        f"By hand {found['ar_first']:.0%} are ambiguous, by the judge {found['ar_second']:.0%};"
        f" labels that do not apply: {others}.",
    ]


def judge_cards(cards: pd.DataFrame, reference: str) -> list[str]:
    """Say how far each judge agrees with a reference, by suite.

    Parameters
    ----------
    cards : DataFrame
        One row a suite and judge: suite_title, judge, n, coverage, exact (0 to 1), kappa, kappa_low and kappa_high.
    reference : str
        What the judges are held against.

    Returns
    -------
    list of str
        A sentence for each row.
    """
    told = []
    for _, row in cards.iterrows():
        labels = f"labels {row['coverage']:.0%} of what it was given"
        where = f"{row['suite_title']}, against {reference}: {row['judge']}"
        agrees = f"agrees on {row['exact']:.0%} of {_replies(row['n'])}{_kappa(row, 2)} and " if row["n"] else ""
        told.append(f"{where} {agrees}{labels}.")
    return told


def two_judges(robustness: pd.DataFrame, first: str, second: str) -> list[str]:
    """Say how two judges label the same replies, by suite.

    Parameters
    ----------
    robustness : DataFrame
        One row a suite, as Table 5: suite, n, exact, kappa, boundary, flips (shares of n), both directions of the
        flips, and each judge's rank range.
    first, second : str
        Their names.

    Returns
    -------
    list of str
        A paragraph for each suite.
    """
    told = []
    for row in robustness.to_dict("records"):
        kappa = "" if pd.isna(row["kappa"]) else f" (linear kappa {row['kappa']:.3f})"
        moves = (
            f" A model's rank moves by {row['rank_range_first']:.2f} places by the first and"
            f" {row['rank_range_second']:.2f} by the second."
        )
        known = pd.notna([row["rank_range_first"], row["rank_range_second"]]).all()
        told.append(
            f"{row['suite']}: {first} and {second} agree on {row['exact']:.1%} of {_replies(row['n'])}{kappa};"
            f" {row['boundary']:.1%} differ at the ambiguous boundary and {row['flips']:.1%} are flips, of which"
            f" {row['first_safe_second_harmful']} run safe to harmful and {row['first_harmful_second_safe']} the other"
            f" way.{moves if known else ''}"
        )
    return told


def crossed_rubrics(name: str, effects: pd.DataFrame) -> str:
    """Say what the difference of two suites' ambiguity is made of.

    Parameters
    ----------
    name : str
        The judge and the suites.
    effects : DataFrame
        effect (difference, prompts, rubric), value, value_low and value_high (nan where undefined).

    Returns
    -------
    str
        The sentences.
    """
    part = {str(row["effect"]): row for _, row in effects.iterrows()}
    shown = {effect: f"{part[effect]['value']:+.3f}{_interval(part[effect])}" for effect in ("prompts", "rubric")}
    sure = pd.notna(part["prompts"]["value_low"])
    none = "" if sure else " There is no interval: one of the suites has fewer than ten groups of prompts."
    return (
        f"{name}: on their own rubrics the suites' ambiguity differs by {part['difference']['value']:+.3f}. The prompts"
        f" make {shown['prompts']} of it, the rubric {shown['rubric']}.{none}"
    )


def mapping_arms(arms: pd.DataFrame, cuts: pd.DataFrame) -> list[str]:
    """Say how far the mapping alone moves the ambiguity rate, by suite and judge.

    Parameters
    ----------
    arms : DataFrame
        judge, suite_title, arm and ar (0 to 1), a row a mapping.
    cuts : DataFrame
        judge, suite_title, arm, model and status (ok, or why there are no three groups).

    Returns
    -------
    list of str
        The sentences.
    """
    told = []
    for (judge, title), rows in arms[arms["arm"] != "terciles_per_model"].groupby(["judge", "suite_title"]):
        ordered = rows.sort_values("ar", kind="stable")
        least, most = ordered.iloc[0], ordered.iloc[-1]
        own = cuts[(cuts["judge"] == judge) & (cuts["suite_title"] == title) & (cuts["arm"] == "otsu_per_model")]
        told.append(
            f"{title}, scores of {judge}: the mapping alone moves mean AR from {least['ar']:.2f} ({least['arm']}) to"
            f" {most['ar']:.2f} ({most['arm']})."
        )
        if len(own):
            told.append(
                f"Models that show no three groups to Otsu there: {(own['status'] != 'ok').sum()} of {len(own)}."
            )
    return told


def bias_formulas(bias: pd.DataFrame) -> list[str]:
    """Compare the two formulas of the disambiguated bias score by the exact letter.

    Parameters
    ----------
    bias : DataFrame
        suite, model, reading, formula (HELM, Parrish) and disambiguated (-1 to 1; nan without a reply to go by).

    Returns
    -------
    list of str
        The sentences.
    """
    rows = bias[bias["reading"] == "exact"]
    exact = rows.pivot(index=["suite", "model"], columns="formula", values="disambiguated")
    if exact.empty:
        return []
    gap = (exact["HELM"] - exact["Parrish"]).abs()
    told = f"By the exact letter the two disambiguated scores of a model differ by up to {gap.max():.2f}."
    undefined = int(gap.isna().sum())
    without = f"Rows in which the authors' formula has no reply to go by there: {undefined} of {len(gap)}."
    return ([told] if undefined < len(gap) else []) + ([without] if undefined else [])


def letters(accuracies: pd.DataFrame) -> list[str]:
    """Give the range of the accuracy, and of the replies without a letter, over the models of a suite.

    Parameters
    ----------
    accuracies : DataFrame
        A row a suite, model and reading: suite_title, reading, accuracy and unmapped (0 to 1).

    Returns
    -------
    list of str
        A sentence for each suite and reading.
    """
    told = []
    for (title, reading), rows in accuracies.groupby(["suite_title", "reading"]):
        right, none = rows["accuracy"], rows["unmapped"]
        if len(rows) == 1:
            said = f"accuracy is {right.iloc[0]:.2f}, and {none.iloc[0]:.0%} of the model's replies name no letter"
        else:
            ends, shares = (
                list(dict.fromkeys(pair))
                for pair in ((f"{right.min():.2f}", f"{right.max():.2f}"), (f"{none.min():.0%}", f"{none.max():.0%}"))
            )
            said = f"accuracy is {' to '.join(ends)}, and {' to '.join(shares)} of a model's replies name no letter"
        told.append(f"{title}, {reading} reading: {said}.")
    return told


def judge_coverage(curves: pd.DataFrame) -> list[str]:
    """Say what each judge gains by labelling only the half of the replies that it is surest of.

    Parameters
    ----------
    curves : DataFrame
        The rows of `coverage_curves`, with suite_title.

    Returns
    -------
    list of str
        A sentence for each suite and judge.
    """
    told = []
    for (title, judge), rows in curves.groupby(["suite_title", "judge"], sort=False):
        half = rows[rows["coverage"] >= 0.5].iloc[[-1]] if (rows["coverage"] >= 0.5).any() else rows.head(1)
        all_of_it, kept = rows.iloc[0], half.iloc[0]
        told.append(
            f"{title}, {judge}: {all_of_it['exact']:.0%} of {_replies(int(all_of_it['n']))} get the reference's label, "
            f"and {kept['exact']:.0%} of the {kept['n']:.0f} with a probability of {kept['threshold']:.2f} or more."
        )
    return told


def _kappa(found: Mapping[str, Any] | pd.Series, digits: int, limits: str = "") -> str:
    """Return kappa with its interval in brackets; "" where kappa is undefined. With `limits` a lacking one is told."""
    if pd.isna(found["kappa"]):
        return ""
    known = pd.notna([found["kappa_low"], found["kappa_high"]]).all()
    without = ", no interval" if limits else ""
    interval = f", {limits}{found['kappa_low']:.{digits}f} to {found['kappa_high']:.{digits}f}" if known else without
    return f" (linear kappa {found['kappa']:.{digits}f}{interval})"


def _replies(n: int) -> str:
    return counted(n, "reply", "replies")


def _interval(row: pd.Series) -> str:
    return "" if pd.isna(row["value_low"]) else f" ({row['value_low']:+.3f} to {row['value_high']:+.3f})"
