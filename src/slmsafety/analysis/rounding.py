"""What two printed decimals allow: identities as intervals, and how far a recomputed number is from its print."""

from __future__ import annotations

import pandas as pd

from slmsafety.analysis.bounds import pair_orders
from slmsafety.analysis.rankings import possible_ranks, rank_change

HALF_UNIT = 0.005
_NOISE = 1e-9


def identities(table: pd.DataFrame) -> pd.DataFrame:
    """Return which identities of Table A1 each row can satisfy, every printed number standing for its interval.

    `table` holds mean, hcr, ar, srr and s_adj, printed to two decimals. Columns (bool): mean_can_hold (mean = SRR +
    AR / 2), shares_can_hold (HCR + AR + SRR = 1), s_adj_can_hold (S_adj = mean (1 - AR)).
    """
    low, high = table[_NUMBERS] - HALF_UNIT, table[_NUMBERS] + HALF_UNIT
    return pd.DataFrame(
        {
            "mean_can_hold": _touch(
                low["mean"], high["mean"], low["srr"] + low["ar"] / 2, high["srr"] + high["ar"] / 2
            ),
            "shares_can_hold": _touch(1, 1, low[_SHARES].sum(axis=1), high[_SHARES].sum(axis=1)),
            "s_adj_can_hold": _touch(
                low["s_adj"], high["s_adj"], low["mean"] * (1 - high["ar"]), high["mean"] * (1 - low["ar"])
            ),
        }
    )


def rank_change_check(table: pd.DataFrame) -> pd.DataFrame:
    """Return the recomputed rank change of each row and whether the printed one lies in what rounding allows.

    Parameters
    ----------
    table : DataFrame
        suite, model, mean, s_adj (0 to 1) and rank_change as printed (positive is up).

    Returns
    -------
    DataFrame
        The table with the printed change as `rank_change_printed`, and `rank_change` (recomputed from printed scores,
        ties averaged: `rankings.rank_change`), `lowest` and `highest` (what unrounded scores could give), `allowed`
        (bool; missing where a score is).
    """
    named = table.rename(columns={"rank_change": "rank_change_printed"})
    if named.empty:
        return named.reindex(columns=[*named.columns, "rank_change", "lowest", "highest", "allowed"])
    parts = []
    for _, group in named.groupby("suite", sort=False):
        before, after = possible_ranks(group["mean"]), possible_ranks(group["s_adj"])
        part = group.assign(
            rank_change=rank_change(group, "mean", "s_adj"),
            lowest=before["best"] - after["worst"],
            highest=before["worst"] - after["best"],
        )
        parts.append(part.assign(allowed=part["rank_change_printed"].between(part["lowest"], part["highest"])))
    return pd.concat(parts, ignore_index=True)


def strict_pair_range(table: pd.DataFrame) -> pd.DataFrame:
    """Return how many pairs of models may keep their order for every common value of an ambiguous label.

    Parameters
    ----------
    table : DataFrame
        suite, model, srr and hcr, printed to two decimals.

    Returns
    -------
    DataFrame
        A row a suite: suite, pairs (int), fewest (pairs that keep their order whatever was rounded away) and most
        (those that may). Different prints keep their order before rounding, equal ones may stand either way; the score
        at the two ends of the common value is SRR and 1 - HCR, each of one rounding.
    """
    orders = pair_orders(table.assign(ar=1 - table["hcr"] - table["srr"]))
    return orders.rename(columns={"strict": "fewest", "ties_allowed": "most"})[["suite", "pairs", "fewest", "most"]]


def gaps(recomputed: pd.DataFrame, printed: pd.DataFrame, key: str, columns: list[str]) -> pd.DataFrame:
    """Return recomputed minus printed for each of the columns, one row for each printed key, nan if not recomputed."""
    both = recomputed.set_index(key)[columns] - printed.set_index(key)[columns]
    return both.reindex(printed[key]).reset_index()


_SHARES = ["hcr", "ar", "srr"]
_NUMBERS = ["mean", *_SHARES, "s_adj"]


def _touch(low_a: pd.Series | int, high_a: pd.Series | int, low_b: pd.Series, high_b: pd.Series) -> pd.Series:
    """Return whether two intervals share a point."""
    return (low_b <= high_a + _NOISE) & (high_b >= low_a - _NOISE)
