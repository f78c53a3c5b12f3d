"""Which rows train and which test a prediction of ambiguity: within a suite, across suites, for unseen models."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit

from slmsafety.analysis.arrays import Rows


class Split(NamedTuple):
    """Row numbers: those that train, which are of suite `source`, and those that test, by their suite."""

    source: str
    train: Rows
    tests: dict[str, Rows]


def paper_splits(
    rows: pd.DataFrame, held_out: Collection[str], without: Collection[str], seed: int
) -> dict[str, list[Split]]:
    """Return the splits of the paper's Tables 1, 2 and 3; the suites `without` take part in Table 1 only."""
    return {
        "table1_within_suite": within_suite(rows, seed),
        "table2_cross_suite": across_suites(rows, without),
        "table3_unseen_slm": unseen_models(rows, held_out, without),
    }


def within_suite(rows: pd.DataFrame, seed: int, repeats: int = 1) -> list[Split]:
    """Return, for each suite, `repeats` random splits with a fifth of the prompts (rounded up) in the test part.

    `rows` come from `features.labelled_replies`. All rows of a prompt are on one side (paper, Table 1). A suite of
    one prompt trains on nothing.
    """
    draw = GroupShuffleSplit(repeats, test_size=0.2, random_state=seed)
    splits = []
    for suite, place in _by_suite(rows).items():
        prompts = rows["prompt"].to_numpy()[place]
        alone = [(np.arange(0), np.arange(len(place)))] * repeats
        parts = draw.split(place, groups=prompts) if np.ptp(prompts) else alone
        splits += [Split(suite, place[train], {suite: place[test]}) for train, test in parts]
    return splits


def across_suites(rows: pd.DataFrame, without: Collection[str] = ()) -> list[Split]:
    """Return a split for each suite: all its rows train, all rows of each other suite test (paper, Table 2).

    The suites `without` take no part: the paper leaves Simple Safety Tests out of every transfer. With fewer than two
    others there is no split.
    """
    parts = _by_suite(rows, without)
    splits = []
    for source, train in parts.items():
        splits.append(Split(source, train, {other: test for other, test in parts.items() if other != source}))
    return splits if len(parts) > 1 else []


def unseen_models(rows: pd.DataFrame, held_out: Collection[str], without: Collection[str] = ()) -> list[Split]:
    """Return a split for each suite: the held-out models' rows test, the others' train (paper, Table 3).

    The suites `without` take no part. There is no split when all models are held out, or none.
    """
    unseen = rows["model"].isin(list(held_out)).to_numpy()
    if unseen.all() or not unseen.any():
        return []
    parts = _by_suite(rows, without)
    return [Split(suite, part[~unseen[part]], {suite: part[unseen[part]]}) for suite, part in parts.items()]


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
