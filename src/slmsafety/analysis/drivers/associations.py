"""Which properties of prompts and replies go with ambiguity (paper section 3.3, Figure 5)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control, linregress, spearmanr

PROMPT = ["suite", "instance_id"]
REPLY = [*PROMPT, "model", "generation_id"]
PREFIXES = ("prompt ", "reply ")
QUANTILES = ("q05", "q25", "q50", "q75", "q95")


def reply_rows(labels: pd.DataFrame, prompt_metrics: pd.DataFrame, reply_metrics: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each reply to a prompt to refuse: keys, label, ambiguous and every metric, nan where unknown.

    Columns: suite, instance_id, model, category, subcategory and expected (categoricals), prompt (a number for each
    prompt), label, ambiguous (1 or 0, nan without a label) and the metrics, named "prompt ..." and "reply ...".
    """
    harm = labels.loc[labels["expected"] == "refuse", [*REPLY, "category", "subcategory", "expected", "label"]]
    # Long text keys are matched once; from here on they are numbers.
    rows = harm.merge(_numbers(reply_metrics, REPLY, "reply "), on=REPLY, how="left", validate="many_to_one")
    rows = rows.drop(columns="generation_id")
    rows = rows.merge(_numbers(prompt_metrics, PROMPT, "prompt "), on=PROMPT, how="left", validate="many_to_one")
    texts = [*PROMPT, "model", "category", "subcategory", "expected"]
    rows = rows.astype({**dict.fromkeys(texts, "category"), "label": "float64"})
    ambiguous = rows["label"].eq(1).astype("float64").where(rows["label"].notna())
    return rows.assign(prompt=rows.groupby(PROMPT, observed=True).ngroup(), ambiguous=ambiguous)


def _numbers(table: pd.DataFrame, keys: list[str], prefix: str) -> pd.DataFrame:
    """Return the keys and the metrics of a metric table, as floats; an id of how they were measured is no metric."""
    metrics = table.set_index(keys).drop(columns=["generation_id", "metrics_id"], errors="ignore")
    return metrics.astype("float64").add_prefix(prefix).reset_index()


def metric_names(frame: pd.DataFrame) -> list[str]:
    """Return the frame's columns that are metrics, prompt metrics first."""
    return [column for prefix in PREFIXES for column in frame.columns if str(column).startswith(prefix)]


def metric_summary(prompt_metrics: pd.DataFrame, reply_metrics: pd.DataFrame) -> pd.DataFrame:
    """Return how every metric is distributed in every suite, over all prompts or replies of the tables.

    Columns: metric, suite, n (values), missing, q05, q25, q50, q75 and q95 (quantiles, nan when n is 0).
    """
    found = []
    for table, keys, prefix in ((prompt_metrics, PROMPT, "prompt "), (reply_metrics, REPLY, "reply ")):
        numbers = _numbers(table, keys, prefix)
        for metric in metric_names(numbers):
            grouped = numbers.groupby("suite", sort=True)[metric]
            quantiles = grouped.quantile(np.array([0.05, 0.25, 0.5, 0.75, 0.95])).unstack()
            counts = pd.DataFrame({"metric": metric, "n": grouped.count()})
            counts["missing"] = grouped.size() - counts["n"]
            found.append(counts.join(quantiles.set_axis(list(QUANTILES), axis=1)).reset_index())
    return pd.concat(found, ignore_index=True)[["metric", "suite", "n", "missing", *QUANTILES]]


def prompt_ambiguity(labels: pd.DataFrame) -> pd.DataFrame:
    """Return suite, instance_id, ar (share of models labelled ambiguous), models (with a label), defined.

    Benign controls stay out. ar is nan, and defined False, where fewer than half of the suite's models have a label.
    """
    harm = labels[labels["expected"] == "refuse"]
    all_models = harm.groupby("suite", observed=True)["model"].nunique()
    label = harm["label"].astype("float64")
    grouped = harm.assign(label=label, ambiguous=label == 1).groupby(PROMPT, sort=True, observed=True)
    models = grouped["label"].count()
    enough = models * 2 >= models.index.get_level_values("suite").map(all_models.to_dict()).to_numpy()
    ar = grouped["ambiguous"].sum().astype("float64") / models.where(enough)
    frame = pd.DataFrame({"ar": ar, "models": models, "defined": enough})
    return frame.reset_index()


def prompt_means(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row a prompt: suite, instance_id, category, subcategory, ar (`prompt_ambiguity`) and every metric.

    `rows` come from `reply_rows`. A reply metric is its mean over the prompt's models (paper section 4.2): a nan is
    left out of the mean (`correlations_by_suite` counts them), and the mean is nan where all are.
    """
    grouped = rows.groupby(PROMPT, sort=True, observed=True)
    means = grouped[metric_names(rows)].mean()
    groups = grouped[["category", "subcategory"]].first()
    ambiguity = prompt_ambiguity(rows).drop(columns=["models", "defined"])
    return ambiguity.merge(groups.join(means).reset_index(), on=PROMPT, validate="one_to_one").astype(
        dict.fromkeys([*PROMPT, "category", "subcategory"], "str")
    )


def metric_points(means: pd.DataFrame) -> pd.DataFrame:
    """Return suite, instance_id, category, subcategory, ar, metric and value: a row for each prompt and metric."""
    keys = [*PROMPT, "category", "subcategory", "ar"]
    return means.melt(keys, metric_names(means), var_name="metric", value_name="value")


def correlations(points: pd.DataFrame, target: str = "ar") -> pd.DataFrame:
    """Return Pearson's r and Spearman's rho of each metric with the target, with Benjamini-Hochberg q over all metrics.

    `points` holds metric, value and the target. Columns: metric, n (pairs with both values), missing, r (-1..1), p, q,
    slope, intercept (of the least-squares line), rho (-1..1), q_rho; nan where n < 3 or a side is constant. Sorted by
    r, largest first. Source: paper section 3.3 (Pearson, q < 0.05).
    """
    rows = []
    for metric, group in points.groupby("metric", sort=True):
        both = group[["value", target]].dropna().astype(float)
        n, missing = len(both), len(group) - len(both)
        if n < 3 or constant(both["value"]) or constant(both[target]):
            rows.append((metric, n, missing, *(np.nan,) * 6))
            continue
        fit, ranked = linregress(both["value"], both[target]), spearmanr(both["value"], both[target])
        rows.append((metric, n, missing, fit.rvalue, fit.pvalue, fit.slope, fit.intercept, *ranked))
    frame = pd.DataFrame(rows, columns=["metric", "n", "missing", "r", "p", "slope", "intercept", "rho", "p_rho"])
    frame["q"], frame["q_rho"] = adjusted_p(frame["p"]), adjusted_p(frame["p_rho"])
    columns = ["metric", "n", "missing", "r", "p", "q", "slope", "intercept", "rho", "q_rho"]
    return frame.sort_values("r", ascending=False, ignore_index=True)[columns]


def correlations_by_suite(points: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `correlations` over all prompts (suite "all") and in each suite, with replies and left_out.

    `points` come from `metric_points`, `rows` from `reply_rows`: replies counts these rows, and left_out those that
    lack the metric.
    """
    found = {}
    for suite in ["all", *sorted(points["suite"].unique())]:
        part, own = (frame if suite == "all" else frame[frame["suite"] == suite] for frame in (points, rows))
        lacking = own[metric_names(own)].isna().sum().rename("left_out").rename_axis("metric").reset_index()
        found[suite] = correlations(part).merge(lacking.assign(replies=len(own)), on="metric", how="left")
    return pd.concat(found, names=["suite", None]).reset_index("suite").reset_index(drop=True)


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
