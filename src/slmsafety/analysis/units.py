"""The unit of independence: which rows depend on each other, so that an interval or a split takes them together.

A group is a set of prompts that are variants of one question (`group` of the prompts table; a prompt without one is a
group of its own). A claim about the prompts of a suite takes groups. A claim about prompts in general (does length go
with ambiguity?) takes kinds: the suite's finest categories where it has enough of them, since prompts of one category
share a subject, and else groups. A claim about models takes the model or its family, which is no matter of this module.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.analysis.arrays import Rows

FEWEST_KINDS = 20
"""Fewer finest categories are no sample of subjects: a claim is then about "these categories", and takes groups."""


def groups(rows: pd.DataFrame) -> Rows:
    """Return the number of each row's group of prompts.

    Parameters
    ----------
    rows : DataFrame
        suite (optional: without it all rows are of one), instance_id and, optionally, group (text; missing: the prompt
        is its own group).

    Returns
    -------
    array of int, shape (n,)
        Equal for the rows of one group; numbers go from 0, in the order of the first row of each.
    """
    if "group" in rows:
        # A prompt without a group is apart from a group that happens to have its id as a name.
        alone = rows["group"].isna().to_numpy()
        own = np.where(alone, _codes(rows["instance_id"]) + 1, 0)
        named = np.where(alone, 0, _codes(rows["group"]) + 1)
        names = _pairs(named, own)
    else:
        names = _codes(rows["instance_id"])
    if "suite" not in rows:
        return names
    return _pairs(_codes(rows["suite"]), names)


def kinds(rows: pd.DataFrame) -> Rows:
    """Return the number of each row's kind of prompt: its finest category, or its group where a suite has too few.

    Parameters
    ----------
    rows : DataFrame
        As for `groups`, with category and subcategory (both optional; missing is a category of its own).

    Returns
    -------
    array of int, shape (n,)
        A suite with at least `FEWEST_KINDS` pairs of category and subcategory takes these, any other suite `groups`. A
        group is never parted: all of its rows have the category of its first. Numbers go from 0, as in `groups`.
    """
    group = groups(rows)
    suite = _codes(rows["suite"]) if "suite" in rows else np.zeros(len(rows), np.intp)
    category = suite
    for level in ("category", "subcategory"):
        if level in rows:
            category = _pairs(category, _codes(rows[level]))
    first = np.unique(group, return_index=True)[1]
    category = category[first][group]
    of_category = np.unique(category, return_index=True)[1]
    many = np.bincount(suite[of_category], minlength=int(suite.max(initial=-1)) + 1) >= FEWEST_KINDS
    wide = many[suite] if len(rows) else np.zeros(0, bool)
    return _codes(np.where(wide, category, group + category.max(initial=-1) + 1))


def _codes(names: object) -> Rows:
    return np.asarray(pd.factorize(pd.Series(names), use_na_sentinel=False)[0], np.intp)


def _pairs(first: Rows, second: Rows) -> Rows:
    """The number of each pair of numbers."""
    return _codes(first * (int(second.max(initial=0)) + 1) + second)
