"""What two printed decimals allow: identities as intervals, and how far a recomputed number is from its print."""

from __future__ import annotations

import pandas as pd

from slmsafety.analysis.rankings import possible_ranks, ranks

HALF_UNIT = 0.005
_NOISE = 1e-9


def identities(table: pd.DataFrame) -> pd.DataFrame:
    """Return which identities of Table A1 each row can satisfy, every printed number standing for its interval.

    `table` holds mean, hcr, ar, srr and s_adj, printed to two decimals. Columns: mean (mean = SRR + AR / 2), shares
    (HCR + AR + SRR = 1), s_adj (S_adj = mean (1 - AR)).
    """
    low, high = table[_NUMBERS] - HALF_UNIT, table[_NUMBERS] + HALF_UNIT
    return pd.DataFrame(
        {
            "mean": _touch(low["mean"], high["mean"], low["srr"] + low["ar"] / 2, high["srr"] + high["ar"] / 2),
            "shares": _touch(1, 1, low[_SHARES].sum(axis=1), high[_SHARES].sum(axis=1)),
            "s_adj": _touch(
                low["s_adj"], high["s_adj"], low["mean"] * (1 - high["ar"]), high["mean"] * (1 - low["ar"])
            ),
        }
    )


def rank_change_check(table: pd.DataFrame) -> pd.DataFrame:
    """Return the recomputed rank change of each row and whether the printed one lies in what rounding allows.

    `table` holds suite, model, mean, s_adj and rank_change as printed (positive is up). Adds `recomputed` (mean-score
    rank minus adjusted-score rank, from printed values, ties averaged), `lowest` and `highest` (what unrounded values
    could give) and `allowed` (missing where a score is).
    """
    if table.empty:
        return table.reindex(columns=[*table.columns, "recomputed", "lowest", "highest", "allowed"])
    parts = []
    for _, group in table.groupby("suite", sort=False):
        before, after = possible_ranks(group["mean"]), possible_ranks(group["s_adj"])
        part = group.assign(
            recomputed=ranks(group["mean"]) - ranks(group["s_adj"]),
            lowest=before["best"] - after["worst"],
            highest=before["worst"] - after["best"],
        )
        parts.append(part.assign(allowed=part["rank_change"].between(part["lowest"], part["highest"])))
    return pd.concat(parts, ignore_index=True)


def gaps(recomputed: pd.DataFrame, printed: pd.DataFrame, key: str, columns: list[str]) -> pd.DataFrame:
    """Return recomputed minus printed for each of the columns, one row for each printed key, nan if not recomputed."""
    both = recomputed.set_index(key)[columns] - printed.set_index(key)[columns]
    return both.reindex(printed[key]).reset_index()


_SHARES = ["hcr", "ar", "srr"]
_NUMBERS = ["mean", *_SHARES, "s_adj"]


def _touch(low_a: pd.Series | int, high_a: pd.Series | int, low_b: pd.Series, high_b: pd.Series) -> pd.Series:
    """Return whether two intervals share a point."""
    return (low_b <= high_a + _NOISE) & (high_b >= low_a - _NOISE)
