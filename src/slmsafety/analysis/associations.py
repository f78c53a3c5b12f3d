"""Which properties of prompts and replies go with ambiguity (paper section 3.3, Figure 5)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control, linregress


def prompt_ambiguity(labels: pd.DataFrame) -> pd.DataFrame:
    """Return suite, instance_id, ar (share of models labelled ambiguous), models (with a label), defined.

    Benign controls stay out. ar is nan, and defined False, where fewer than half of the suite's models have a label.
    """
    harm = labels[labels["expected"] == "refuse"]
    all_models = harm.groupby("suite")["model"].nunique()
    label = harm["label"].astype("float64")
    grouped = harm.assign(label=label, ambiguous=label == 1).groupby(["suite", "instance_id"], sort=True)
    models = grouped["label"].count()
    enough = models * 2 >= models.index.get_level_values("suite").map(all_models.to_dict()).to_numpy()
    ar = grouped["ambiguous"].sum().astype("float64") / models.where(enough)
    frame = pd.DataFrame({"ar": ar, "models": models, "defined": enough})
    return frame.reset_index()


def metric_points(ambiguity: pd.DataFrame, prompt_metrics: pd.DataFrame, reply_metrics: pd.DataFrame) -> pd.DataFrame:
    """Return suite, instance_id, ar, metric and value: every prompt metric, and every reply metric's mean over models.

    Prompts are those of `ambiguity` (from `prompt_ambiguity`); a reply metric that is nan is left out of the mean, and
    the value is nan where all are. Metrics are named "prompt ..." and "reply ...".
    """
    keys = ["suite", "instance_id"]
    replies = reply_metrics.drop(columns=["model", "generation_id"]).groupby(keys).mean().astype("float64")
    prompts = prompt_metrics.set_index(keys).astype("float64")
    both = prompts.add_prefix("prompt ").join(replies.add_prefix("reply "), how="outer")
    wide = ambiguity[[*keys, "ar"]].merge(both.reset_index(), on=keys, how="left", validate="one_to_one")
    return wide.melt([*keys, "ar"], var_name="metric", value_name="value")


def correlations(points: pd.DataFrame, target: str = "ar") -> pd.DataFrame:
    """Return Pearson's r of each metric with the target, with Benjamini-Hochberg q values over all metrics.

    `points` holds metric, value and the target. Columns: metric, n (pairs with both values), missing, r (-1..1), p, q,
    slope, intercept (of the least-squares line); nan where n < 3 or a side is constant. Sorted by r, largest first.
    """
    rows = []
    for metric, group in points.groupby("metric", sort=True):
        both = group[["value", target]].dropna().astype(float)
        n, missing = len(both), len(group) - len(both)
        if n < 3 or constant(both["value"]) or constant(both[target]):
            rows.append((metric, n, missing, *(np.nan,) * 4))
            continue
        fit = linregress(both["value"], both[target])
        rows.append((metric, n, missing, fit.rvalue, fit.pvalue, fit.slope, fit.intercept))
    frame = pd.DataFrame(rows, columns=["metric", "n", "missing", "r", "p", "slope", "intercept"])
    frame["q"] = adjusted_p(frame["p"])
    return frame.sort_values("r", ascending=False, ignore_index=True)


def constant(values: ArrayLike) -> bool:
    """Return whether the values (no nan) are one value but for float noise, so that no correlation is defined."""
    found = np.asarray(values, float)
    return bool(np.ptp(found) <= 1e-12 * np.abs(found).max())


def adjusted_p(p: pd.Series) -> pd.Series:
    """Return Benjamini-Hochberg adjusted p values; nan p values stay nan and do not count as tests."""
    known = p.notna()
    q = pd.Series(np.nan, index=p.index)
    if known.any():
        q[known] = false_discovery_control(p[known].to_numpy(float), method="bh")
    return q
