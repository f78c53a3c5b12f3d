"""Sentences about ranks and orders of models: each function takes a frame of the analysis.

A number that is undefined is not told, and neither is what must be so.
"""

from __future__ import annotations

import pandas as pd

from slmsafety.report.text import counted

FAR = 3
"""A model that moves so many ranks moves far; a suite of as many models has no such move."""


def rank_ranges(ranges: pd.DataFrame) -> list[str]:
    """Say how far ranks move over the treatments.

    Parameters
    ----------
    ranges : DataFrame
        A row a suite and model: suite_title, model_name and range (in ranks).

    Returns
    -------
    list of str
        A sentence for each suite.
    """
    told = []
    for title, group in ranges.groupby("suite_title"):
        most = group["range"].max()
        if most > 0:
            first, *others = group.loc[group["range"] == most, "model_name"]
            more = f" and {counted(len(others), 'other')}" if others else ""
            mean = f"a model's rank moves by {group['range'].mean():.1f} places on average"
            told.append(f"{title}: {mean}, and by {most:.1f} at most ({first}{more}).")
        elif len(group) > 1:
            told.append(f"{title}: no model's rank moves.")
    return told


def pair_orders(orders: pd.DataFrame) -> list[str]:
    """Count the pairs of models whose order holds.

    Parameters
    ----------
    orders : DataFrame
        A row a suite: suite_title, pairs, strict and disjoint (int).

    Returns
    -------
    list of str
        A sentence for each suite, and what the counts leave out.
    """
    told = [
        f"{row.suite_title}: pairs of models that keep their order whatever common value an ambiguous label has:"
        f" {row.strict} of {row.pairs}; when each model may be read its own way: {row.disjoint}."
        for row in orders.itertuples()
    ]
    return [*told, "The counts are of these prompts: sampling error is not in them."] if told else []


def strict_pair_range(room: pd.DataFrame) -> list[str]:
    """Say how many pairs keep their order as far as printed decimals tell.

    Parameters
    ----------
    room : DataFrame
        A row a suite: suite_title, pairs, fewest and most (int).

    Returns
    -------
    list of str
        A sentence, or none.
    """
    each = ", ".join(f"{row.suite_title} {row.fewest} to {row.most} of {row.pairs}" for row in room.itertuples())
    why = "models with the same print can stand either way"
    return [f"Two printed decimals leave a range of pairs that keep their order: {each}; {why}."] if each else []


def rank_sets(sets: pd.DataFrame) -> list[str]:
    """Say what the worst case leaves open in each suite with rates of two models or more.

    Parameters
    ----------
    sets : DataFrame
        A row a suite and model: suite_title, lower, upper (0 to 1), best_rank and worst_rank.

    Returns
    -------
    list of str
        The sentences.
    """
    told = []
    for title, group in sets.groupby("suite_title"):
        width = (group["upper"] - group["lower"]).mean()
        places = (group["worst_rank"] - group["best_rank"] + 1).mean()
        if len(group) > 1:
            left = f"{places:.1f} of {len(group)} ranks open"
            told.append(f"{title}: the interval is {width:.2f} wide on average and leaves {left}.")
    return told


def certified(counts: pd.DataFrame) -> list[str]:
    """Say how many orders of two models hold for other prompts too, by the readings of ambiguous replies.

    Parameters
    ----------
    counts : DataFrame
        A row a suite: suite_title, pairs and tested (int), certified_half, certified_common and certified_own (int),
        height and width.

    Returns
    -------
    list of str
        A sentence for each suite with two models.
    """
    told = []
    for row in counts[counts["pairs"] > 0].to_dict("records"):
        if not row["tested"]:
            told.append(f"{row['suite_title']}: no order is certified, as no pair has 50 prompts in ten groups.")
            continue
        pairs, half, common = counted(row["pairs"], "pair"), row["certified_half"], row["certified_common"]
        told.append(
            f"{row['suite_title']}: of {pairs} of models {half} have an order that is certified for other prompts where"
            f" an ambiguous reply is worth one half, {common} whatever it is worth for all models, and"
            f" {row['certified_own']} however each reply is read; {row['width']} models cannot be told apart under a"
            " common value."
        )
    return told


def certified_ranks(sets: pd.DataFrame) -> list[str]:
    """Say how many ranks the certified orders leave to a model on average.

    Parameters
    ----------
    sets : DataFrame
        A row a suite and model: suite_title, best_half, worst_half, best_common and worst_common (ranks).

    Returns
    -------
    list of str
        A sentence for each suite of two models or more.
    """
    told = []
    for title, rows in sets.groupby("suite_title", sort=True, observed=True):
        left = {way: (rows[f"worst_{way}"] - rows[f"best_{way}"] + 1).mean() for way in ("half", "common")}
        if len(rows) > 1:
            told.append(
                f"{title}: with other prompts in mind a model has {left['half']:.1f} of {len(rows)} ranks open where an"
                f" ambiguous reply is worth one half, and {left['common']:.1f} where it may be worth anything."
            )
    return told


def turning(points: pd.DataFrame) -> list[str]:
    """Count the pairs of each suite whose order turns at some common value of an ambiguous reply.

    Parameters
    ----------
    points : DataFrame
        A row a pair: suite_title, order and distance (of the value from one half; nan where no value is).

    Returns
    -------
    list of str
        A sentence for each suite.
    """
    told = []
    for title, rows in points.groupby("suite_title", sort=True, observed=True):
        turns = rows[rows["order"] == "turns"]
        near = int(turns["distance"].le(0.25).sum())
        told.append(
            f"{title}: pairs whose order turns at some common value of an ambiguous reply: {len(turns)} of {len(rows)}"
            f" on these prompts; between 1/4 and 3/4: {near}."
        )
    return told


def neighbours(apart: pd.DataFrame) -> list[str]:
    """Count the neighbours in each suite's ranking whose difference is more than the draw of prompts.

    Parameters
    ----------
    apart : DataFrame
        A row for two neighbours: suite_title, difference, difference_low and difference_high (-1 to 1; nan without an
        interval).

    Returns
    -------
    list of str
        A sentence for each suite with an interval.
    """
    told = []
    for title, rows in apart.dropna(subset="difference_low").groupby("suite_title", sort=True, observed=True):
        clear, turned = int(rows["difference_low"].gt(0).sum()), int(rows["difference_high"].lt(0).sum())
        pairs = counted(len(rows), "pair")
        other = f"; {turned} more differ the other way on the prompts that both answered" if turned else ""
        told.append(
            f"{title}: of {pairs} of neighbours in the ranking, {clear} differ beyond the draw of prompts{other}."
        )
    return told


def far_moves(scores: pd.DataFrame) -> list[str]:
    """Count the models that move far when the mean is discounted, in suites where one can.

    Parameters
    ----------
    scores : DataFrame
        A row a suite and model: suite_title and rank_change (in ranks).

    Returns
    -------
    list of str
        The sentences.
    """
    return [
        f"{title}: models that move {FAR} ranks or more when the mean is discounted:"
        f" {int((group['rank_change'].abs() >= FAR).sum())} of {len(group)}."
        for title, group in scores.groupby("suite_title")
        if len(group) > FAR
    ]
