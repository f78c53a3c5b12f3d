"""Which rows train and which test a prediction of ambiguity: within a suite, across suites, for unseen models.

A split is named after its unit, what no two sides of it share. Prompts that are variants of one question are one group
(`analysis.units`): a split by prompts, the paper's, can have one variant train and another test; a split by groups
cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit

from slmsafety.analysis.arrays import Rows

PROMPTS, GROUPS, SUITES, MODELS, FAMILIES = UNITS = ("prompts", "groups", "suites", "models", "families")
"""What no two sides of a split share."""
TRAIN_ROWS = 50_000
"""The most rows of a sample that a classifier is chosen on, or is fitted to for each family that is left out."""


class Split(NamedTuple):
    """Row numbers: those that train, which are of suite `source`, and those that test, by their suite (or card).

    `unit` is one of `UNITS`: what no two sides share.
    """

    source: str
    train: Rows
    tests: dict[str, Rows]
    unit: str = PROMPTS


def paper_splits(
    rows: pd.DataFrame, held_out: Collection[str], without: Collection[str], seed: int
) -> dict[str, list[Split]]:
    """Return the splits of the paper's Tables 1, 2 and 3; the suites `without` take part in Table 1 only."""
    return {
        "table1_within_suite": within_suite(rows, seed),
        "table2_cross_suite": across_suites(rows, without),
        "table3_unseen_slm": unseen_models(rows, held_out, without),
    }


def within_suite(rows: pd.DataFrame, seed: int, repeats: int = 1, unit: str = PROMPTS) -> list[Split]:
    """Return, for each suite, `repeats` random splits with a fifth of the units (rounded up) in the test part.

    `rows` come from `features.labelled_replies`. All rows of a unit are on one side: of a prompt (`PROMPTS`; paper,
    Table 1) or of a group of prompts (`GROUPS`). Where each prompt is a group of its own, both give the same splits. A
    suite of one unit trains on nothing.
    """
    draw = GroupShuffleSplit(repeats, test_size=0.2, random_state=seed)
    names, splits = rows["prompt"], []
    if unit == GROUPS:  # a group goes by its first prompt, so that a group of one prompt is drawn as that prompt
        names = names.groupby(rows["group"]).transform("min")
    for suite, place in _by_suite(rows).items():
        units = names.to_numpy()[place]
        alone = [(np.arange(0), np.arange(len(place)))] * repeats
        parts = draw.split(place, groups=units) if np.ptp(units) else alone
        splits += [Split(suite, place[train], {suite: place[test]}, unit) for train, test in parts]
    return splits


def across_suites(rows: pd.DataFrame, without: Collection[str] = ()) -> list[Split]:
    """Return a split for each suite: all its rows train, all rows of each other suite test (paper, Table 2).

    The suites `without` take no part: the paper leaves Simple Safety Tests out of every transfer. With fewer than two
    others there is no split.
    """
    parts = _by_suite(rows, without)
    splits = []
    for source, train in parts.items():
        splits.append(Split(source, train, {other: test for other, test in parts.items() if other != source}, SUITES))
    return splits if len(parts) > 1 else []


def unseen_models(rows: pd.DataFrame, held_out: Collection[str], without: Collection[str] = ()) -> list[Split]:
    """Return a split for each suite: the held-out models' rows test, the others' train (paper, Table 3).

    The suites `without` take no part. There is no split when all models are held out, or none.
    """
    unseen = rows["model"].isin(list(held_out)).to_numpy()
    if unseen.all() or not unseen.any():
        return []
    parts = _by_suite(rows, without)
    return [Split(suite, part[~unseen[part]], {suite: part[unseen[part]]}, MODELS) for suite, part in parts.items()]


def unseen_families(rows: pd.DataFrame, without: Collection[str], seed: int, most: int = TRAIN_ROWS) -> list[Split]:
    """Return a split for each suite and family: the family's rows test, by their card, and those of the others train.

    Parameters
    ----------
    rows : DataFrame
        From `features.labelled_replies`, with card and family (text): systems of one card are one model, and a card is
        of the family of its first row.
    without : collection of str
        Suites that take no part.
    seed : int
        Draws the groups that train.
    most : int
        At most so many rows train, whole groups of prompts drawn at random (`sampled_groups`).

    Returns
    -------
    list of Split
        In the order of suites and families; the keys of `tests` are cards. None for a suite of one family.
    """
    family, card = rows.groupby("card")["family"].transform("first").to_numpy(), rows["card"].to_numpy()
    group, splits = rows["group"].to_numpy(), []
    for suite, part in _by_suite(rows, without).items():
        names = sorted(set(family[part]))
        for name in names if len(names) > 1 else ():
            out = family[part] == name
            tests = {str(one): part[out & (card[part] == one)] for one in sorted(set(card[part][out]))}
            splits.append(Split(suite, sampled_groups(part[~out], group, seed, most), tests, FAMILIES))
    return splits


def distinct(splits: Iterable[Split]) -> list[Split]:
    """Return the splits without those that have the very rows of an earlier one."""
    found: list[Split] = []
    for split in splits:
        if not any(same_rows(split, other) for other in found):
            found.append(split)
    return found


def same_rows(one: Split, other: Split) -> bool:
    """Return whether two splits train and test on the same rows, whatever their units."""
    if (one.source, one.tests.keys()) != (other.source, other.tests.keys()):
        return False
    tests = all(np.array_equal(test, other.tests[name]) for name, test in one.tests.items())
    return tests and np.array_equal(one.train, other.train)


def sampled_groups(place: Rows, group: Rows, seed: int, most: int = TRAIN_ROWS) -> Rows:
    """Return the rows of whole groups drawn at random, in their order: all where there are no more than `most`.

    Parameters
    ----------
    place : array of int
        Row numbers to draw from.
    group : array of int
        The group of every row, also of those not drawn from.
    seed : int
        The same seed and groups give the same rows.
    most : int
        Groups are taken in random order until the next would exceed so many rows; the first is taken in any case.

    Returns
    -------
    array of int
        Row numbers.
    """
    if len(place) <= most:
        return place
    names, code, sizes = np.unique(group[place], return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(names))
    taken = order[np.cumsum(sizes[order]) <= most]
    return place[np.isin(code, taken if len(taken) else order[:1])]


def held_out_models(models: pd.DataFrame) -> list[str]:
    """Return a fifth of the models, rounded up (6 of 26), that balance size, family and tuning; none of a single one.

    `models` is indexed by model and holds params_m, family and tuned (0 or 1; nan where unknown). In order of size the
    models are cut into as many runs of equal length as there are to choose, and each run gives one: of a family not
    chosen yet, then the one that keeps the share of tuned models nearest to that of all, then the one nearest to the
    run's middle, then the first by name. The paper names neither its six nor its rule (section 4.2).

    Where `models` has a column `card`, the systems of one card are one model, seen or unseen together.
    """
    if "card" not in models:
        return _held_out(models)
    chosen = _held_out(models.drop_duplicates("card").set_index("card"))
    return [str(model) for card in chosen for model in models.index[models["card"] == card]]


def _held_out(models: pd.DataFrame) -> list[str]:
    if len(models) < 2:
        return []
    ordered = models.rename_axis("model").reset_index().sort_values(["params_m", "model"], ignore_index=True)
    tuned = ordered["tuned"].astype(float)
    share = 0.5 if tuned.isna().all() else float(tuned.mean())
    tuned = tuned.fillna(share)
    chosen: list[int] = []
    for number, run in enumerate(np.array_split(np.arange(len(ordered)), -(-len(ordered) // 5)), start=1):
        gap = (tuned[chosen].sum() + tuned[run] - share * number).abs().round(9)
        wishes = pd.DataFrame(
            {
                "again": ordered.loc[run, "family"].isin(ordered.loc[chosen, "family"]),
                "gap": gap,
                "off": np.abs(run - run.mean()),
                "model": ordered.loc[run, "model"],
            }
        )
        chosen.append(int(wishes.sort_values(["again", "gap", "off", "model"]).index[0]))
    return [str(ordered.at[place, "model"]) for place in chosen]


def _by_suite(rows: pd.DataFrame, without: Collection[str] = ()) -> dict[str, Rows]:
    """The row numbers of each suite, suites by name."""
    parts = sorted(rows.groupby("suite", observed=True).indices.items())
    return {str(suite): np.asarray(part, np.intp) for suite, part in parts if suite not in without}
