"""Which properties of prompts and replies go with ambiguity (paper section 3.3, Figure 5)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control, linregress, spearmanr

from slmsafety.analysis.drivers.cluster_errors import slope_p
from slmsafety.analysis.drivers.metric_rows import PROMPT, metric_names


def prompt_ambiguity(labels: pd.DataFrame) -> pd.DataFrame:
    """Return the ambiguity rate of each prompt that is to be refused: the share of models with an ambiguous label.

    `labels` holds suite, instance_id, model, expected and label (0, 1, 2, missing); of a model with several replies
    to a prompt, the share of its labels counts. Columns: suite, instance_id, ar (float64, 0..1), models (int: those
    with a label), defined (bool). ar is nan, and defined False, where fewer than half of the suite's models have a
    label.
    """
    harm = labels[labels["expected"] == "refuse"]
    all_models = harm.groupby("suite", observed=True)["model"].nunique()
    label = harm["label"].astype("float64")
    ambiguous = (label == 1).astype("float64").where(label.notna())
    of_models = (
        harm.assign(ambiguous=ambiguous).groupby([*PROMPT, "model"], sort=True, observed=True)["ambiguous"].mean()
    )
    grouped = of_models.groupby(level=PROMPT, sort=True, observed=True)
    models = grouped.count()
    enough = models * 2 >= models.index.get_level_values("suite").map(all_models.to_dict()).to_numpy()
    ar = grouped.sum() / models.where(enough)
    frame = pd.DataFrame({"ar": ar, "models": models, "defined": enough})
    return frame.reset_index()


def prompt_means(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row a prompt with its ambiguity rate and the mean of every metric over its replies.

    `rows` come from `metric_rows.reply_rows`. Columns: suite, instance_id, category, subcategory (str), group, kind
    (int: what the prompt depends on), ar (float64, `prompt_ambiguity`) and every metric (float64). A reply metric is
    its mean over the prompt's models (paper section 4.2), and of a model's replies to it first: a nan is left out of
    the mean (`correlations_by_suite` counts them), and the mean is nan where all are.
    """
    grouped = rows.groupby(PROMPT, sort=True, observed=True)
    means = one_a_prompt(rows)[metric_names(rows)].groupby(level=PROMPT, sort=True, observed=True).mean()
    groups = grouped[["category", "subcategory", "group", "kind"]].first()
    ambiguity = prompt_ambiguity(rows).drop(columns=["models", "defined"])
    table: pd.DataFrame = ambiguity.merge(groups.join(means).reset_index(), on=PROMPT, validate="one_to_one")
    return table.astype(dict.fromkeys([*PROMPT, "category", "subcategory"], "str"))


def one_a_prompt(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means of `ambiguous` and of every metric over a model's replies to a prompt, nan left out.

    `rows` come from `metric_rows.reply_rows`; the index is suite, instance_id and model.
    """
    keys = [*PROMPT, "model"]
    if rows.duplicated(keys).any():
        return rows.groupby(keys, sort=True, observed=True)[["ambiguous", *metric_names(rows)]].mean()
    return rows.set_index(keys)[["ambiguous", *metric_names(rows)]]


def metric_points(means: pd.DataFrame) -> pd.DataFrame:
    """Return a row a prompt and metric: the columns of `prompt_means` up to ar, metric and value."""
    keys = [*PROMPT, "category", "subcategory", "group", "kind", "ar"]
    return means.melt(keys, metric_names(means), var_name="metric", value_name="value")


def correlations(points: pd.DataFrame, target: str = "ar") -> pd.DataFrame:
    """Return how each metric goes with the target: Pearson's r and Spearman's rho, and the least-squares line.

    Parameters
    ----------
    points : DataFrame
        metric (str), value and the target (float64), a row a prompt and metric (`metric_points`). With `kind` (int:
        which prompts depend on each other) there is a test of other kinds too.
    target : str
        The column that the metrics are correlated with.

    Returns
    -------
    DataFrame
        A row a metric, the largest r first: metric, n (pairs with both values), missing (the others), r and rho (1: the
        target rises with the metric in a straight line, or at all; 0: neither rises nor falls; -1: falls), p (of r),
        q and q_rho (Benjamini-Hochberg over all metrics), kinds (int, of the n pairs), p_kinds and q_kinds (the same of
        the slope, for other kinds of prompts: `cluster_errors.slope_p`), slope and intercept (of the target on the
        metric). nan where n < 3 or a side is constant; such a metric is no test. p_kinds is nan without `kind`, below
        ten kinds and where one kind alone differs in the metric.

    Notes
    -----
    p takes prompts as independent draws, as the paper does. Prompts of one kind share a subject: where kinds have
    levels of their own in both, p rejects far too often what holds for no other kind.

    References
    ----------
    Paper section 3.3 (Pearson, q < 0.05). Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate.
    JRSS B 57, 289-300.
    """
    rows = []
    for metric, group in points.groupby("metric", sort=True):
        known = group.dropna(subset=["value", target])
        both, kinds = known[["value", target]].astype(float), known.get("kind", pd.Series(dtype=np.intp)).to_numpy()
        counts = len(both), len(group) - len(both), len(np.unique(kinds))
        if len(both) < 3 or is_constant(both["value"]) or is_constant(both[target]):
            rows.append((metric, *counts, *(np.nan,) * 7))
            continue
        fit, ranked = linregress(both["value"], both[target]), spearmanr(both["value"], both[target])
        x, y = both.to_numpy().T
        p_kinds = slope_p(x, y, kinds) if len(kinds) else np.nan
        rows.append((metric, *counts, fit.rvalue, fit.pvalue, p_kinds, fit.slope, fit.intercept, *ranked))
    named = ["metric", "n", "missing", "kinds", "r", "p", "p_kinds", "slope", "intercept", "rho", "p_rho"]
    frame = pd.DataFrame(rows, columns=named)
    for end in ("", "_kinds", "_rho"):
        frame[f"q{end}"] = benjamini_hochberg(frame[f"p{end}"])
    columns = [
        "metric",
        "n",
        "missing",
        "r",
        "p",
        "q",
        "kinds",
        "p_kinds",
        "q_kinds",
        "slope",
        "intercept",
        "rho",
        "q_rho",
    ]
    return frame.sort_values("r", ascending=False, ignore_index=True)[columns]


def correlations_by_suite(points: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `correlations` over all prompts (suite "all") and in each suite, with replies and left_out.

    `points` come from `metric_points`, `rows` from `metric_rows.reply_rows`. Columns: suite (str), those of
    `correlations`, left_out (replies that lack the metric) and replies (int: all).
    """
    found = {}
    for suite in ["all", *sorted(points["suite"].unique())]:
        part, own = (frame if suite == "all" else frame[frame["suite"] == suite] for frame in (points, rows))
        lacking = own[metric_names(own)].isna().sum().rename("left_out").rename_axis("metric").reset_index()
        found[suite] = correlations(part).merge(lacking.assign(replies=len(own)), on="metric", how="left")
    table: pd.DataFrame = pd.concat(found, names=["suite", None])
    return table.reset_index("suite").reset_index(drop=True)


def is_constant(values: ArrayLike) -> bool:
    """Return whether the values (no nan) are one value but for float noise, so that no correlation is defined."""
    found = np.asarray(values, float)
    return bool(np.ptp(found) <= 1e-12 * np.abs(found).max())


def benjamini_hochberg(p: pd.Series) -> pd.Series:
    """Return Benjamini-Hochberg adjusted p values; nan p values stay nan and do not count as tests."""
    known = p.notna()
    q = pd.Series(np.nan, index=p.index)
    if known.any():
        q[known] = false_discovery_control(p[known].to_numpy(float), method="bh")
    return q
