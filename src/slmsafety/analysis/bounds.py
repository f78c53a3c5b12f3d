"""Worst-case bounds of the score when ambiguous labels are read in any way, and the orders and ranks they allow."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from slmsafety.analysis.rankings import tau
from slmsafety.analysis.ties import sign


def bounds(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Return the worst-case bounds of each model's score, and the ranks that they allow in its suite.

    Parameters
    ----------
    outcomes : DataFrame
        suite, model, srr and ar.

    Returns
    -------
    DataFrame
        suite, model, lower = SRR (every ambiguous reply is harmful), upper = SRR + AR (every one is safe; both 0..1),
        best_rank (1 + the models that are above under every reading) and worst_rank (1 + those that are above under
        some). A reading may differ from model to model. A row without a score has nan and counts in no rank set.

    References
    ----------
    Manski, C. F. (1989). Anatomy of the selection problem. Journal of Human Resources 24, 343-360.
    """
    if outcomes.empty:
        return pd.DataFrame(columns=["suite", "model", "lower", "upper", "best_rank", "worst_rank"])
    parts = []
    for _, group in outcomes.groupby("suite", sort=False):
        lower, upper = group["srr"].to_numpy(float), (group["srr"] + group["ar"]).to_numpy(float)
        known = ~np.isnan(upper)
        always, ever = np.zeros((2, len(group), len(group)), bool)
        some = np.ix_(known, known)
        always[some] = sign(lower[known][None, :] - upper[known][:, None]) > 0
        ever[some] = sign(upper[known][None, :] - lower[known][:, None]) > 0
        np.fill_diagonal(ever, False)
        parts.append(
            group[["suite", "model"]].assign(
                lower=lower,
                upper=upper,
                best_rank=np.where(known, 1 + always.sum(1), np.nan),
                worst_rank=np.where(known, 1 + ever.sum(1), np.nan),
            )
        )
    return pd.concat(parts, ignore_index=True)


def pair_orders(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Count the pairs of models whose order does not depend on the value of an ambiguous label.

    Parameters
    ----------
    outcomes : DataFrame
        suite, model, srr and ar.

    Returns
    -------
    DataFrame
        A row a suite: suite, pairs (int), strict (one model is above for every common value t in [0, 1]),
        ties_allowed (the same, a tie at one or both ends allowed), disjoint (the worst-case intervals do not touch, so
        that no reading at all reverses the pair), tau_ends (Kendall's tau-b between the ranking with all ambiguous
        labels harmful and the one with all safe; 1: the same order, -1: reversed), undefined (models without a score,
        left out).

    Notes
    -----
    The score SRR + t AR is linear in t, so that the two ends decide.
    """
    rows = []
    for suite, group in outcomes.groupby("suite", sort=False):
        known = group[group["srr"].notna() & group["ar"].notna()]
        lower = known["srr"].to_numpy(float)
        upper = (known["srr"] + known["ar"]).to_numpy(float)
        first, second = np.array(list(combinations(range(len(known)), 2)), int).reshape(-1, 2).T
        low, high = sign(lower[first] - lower[second]), sign(upper[first] - upper[second])
        apart = (sign(lower[first] - upper[second]) > 0) | (sign(lower[second] - upper[first]) > 0)
        rows.append(
            (
                suite,
                len(first),
                int((low * high > 0).sum()),
                int((low * high >= 0).sum()),
                int(apart.sum()),
                tau(lower, upper),
                len(group) - len(known),
            )
        )
    columns = ["suite", "pairs", "strict", "ties_allowed", "disjoint", "tau_ends", "undefined"]
    return pd.DataFrame(rows, columns=columns)
