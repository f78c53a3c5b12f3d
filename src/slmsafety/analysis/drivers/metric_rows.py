"""Metrics of prompts and replies, beside the labels of the replies: the rows that every analysis of RQ4 starts from.

A column "prompt NAME" is a metric of the prompt, "reply NAME" one of the reply. Whatever has such a column takes part
in every analysis, so that a study's own metrics need no list to be extended.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from slmsafety.analysis.units import groups, kinds
from slmsafety.errors import InputError
from slmsafety.records.schema import PROMPTS, RESPONSES, with_sample

PROMPT, REPLY = list(PROMPTS.key), list(RESPONSES.key)
QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}


def metric_names(frame: pd.DataFrame, *kinds: str) -> list[str]:
    """Return the frame's columns that are metrics of these kinds ("prompt", "reply"; both by default), kind by kind."""
    return [name for kind in kinds or ("prompt", "reply") for name in map(str, frame) if name.startswith(f"{kind} ")]


def unmarked(metric: str) -> str:
    """Return a metric's column without what measured it: "reply perplexity" of "reply perplexity (GPT-2)"."""
    return metric.partition(" (")[0]


def reply_rows(
    labels: pd.DataFrame,
    prompt_metrics: pd.DataFrame,
    reply_metrics: pd.DataFrame,
    own_metrics: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return one row for each reply to a prompt that is to be refused, with its label and every metric.

    Parameters
    ----------
    labels : DataFrame
        The labelled replies of a study: the key of a reply, category, subcategory, group (text; optional), expected and
        label (0 harmful, 1 ambiguous, 2 safe, missing).
    prompt_metrics, reply_metrics : DataFrame
        The key of a prompt or reply, and a column for each metric.
    own_metrics : DataFrame, optional
        Metrics of the study's own, a row a value: suite, instance_id, model ("" for a metric of prompts), sample (0
        where it is left out), metric (its name, str) and value (float64).

    Returns
    -------
    DataFrame
        suite, instance_id, model, category, subcategory, expected (category), sample (int: numbers a model's replies to
        a prompt), prompt, group, kind (int: number the prompts, `units.groups` and `units.kinds`), label (float64),
        ambiguous (float64: 1 for an ambiguous label, 0 for a decisive one, nan without a label) and the metrics
        (float64, nan where unknown): "prompt NAME" and "reply NAME".

    Raises
    ------
    InputError
        For an own metric with the name of another metric, or with two values for one prompt or reply.
    """
    labels, reply_metrics = with_sample(labels), with_sample(reply_metrics)
    about = [name for name in ("category", "subcategory", "group", "expected", "label") if name in labels]
    harm = labels.loc[labels["expected"] == "refuse", [*REPLY, *about]]
    # Long text keys are matched once; from here on they are numbers.
    rows = harm.merge(_metrics(reply_metrics, REPLY, "reply"), on=REPLY, how="left", validate="many_to_one")
    rows = rows.drop(columns="generation_id")
    rows = rows.merge(_metrics(prompt_metrics, PROMPT, "prompt"), on=PROMPT, how="left", validate="many_to_one")
    for keys, table in _own_tables(own_metrics):
        taken = [name for name in metric_names(table) if name in rows]
        if taken:
            raise InputError(f"own metric '{taken[0]}': there is a metric of that name; valid: another name")
        rows = rows.merge(table, on=keys, how="left", validate="many_to_one")
    texts = [*PROMPT, "model", "category", "subcategory", "expected"]
    rows = rows.astype({**dict.fromkeys(texts, "category"), "label": "float64"})
    ambiguous = rows["label"].eq(1).astype("float64").where(rows["label"].notna())
    kind = kinds(rows)
    return rows.assign(
        prompt=rows.groupby(PROMPT, observed=True).ngroup(), group=groups(rows), kind=kind, ambiguous=ambiguous
    )


def metric_summary(
    prompt_metrics: pd.DataFrame, reply_metrics: pd.DataFrame, own_metrics: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return how every metric is distributed in every suite, over all prompts or replies of the tables.

    Takes the tables that `reply_rows` takes. Columns: metric, suite (str), n (values), missing (int), q05, q25, q50,
    q75 and q95 (quantiles in the metric's own unit, nan when n is 0).
    """
    tables = [_metrics(prompt_metrics, PROMPT, "prompt"), _metrics(reply_metrics, REPLY, "reply")]
    found = []
    for table in [*tables, *(own for _, own in _own_tables(own_metrics))]:
        for metric in metric_names(table):
            grouped = table.groupby("suite", sort=True)[metric]
            quantiles = grouped.quantile(np.array([*QUANTILES.values()])).unstack()
            counts = pd.DataFrame({"metric": metric, "n": grouped.count()})
            counts["missing"] = grouped.size() - counts["n"]
            found.append(counts.join(quantiles.set_axis([*QUANTILES], axis=1)).reset_index())
    return pd.concat(found, ignore_index=True)[["metric", "suite", "n", "missing", *QUANTILES]]


def _metrics(table: pd.DataFrame, keys: list[str], kind: str) -> pd.DataFrame:
    """Return the keys and the metrics of a metric table, as floats; an id of how they were measured is no metric."""
    metrics = table.set_index(keys).drop(columns=["generation_id", "metrics_id"], errors="ignore")
    return metrics.astype("float64").add_prefix(f"{kind} ").reset_index()


def _own_tables(own: pd.DataFrame | None) -> Iterator[tuple[list[str], pd.DataFrame]]:
    """Yield the key and the table of a study's own metrics, a column a metric, of prompts and then of replies."""
    if own is None:
        return
    own, keys = with_sample(own), [*PROMPT, "model", "sample"]
    doubled = own.duplicated([*keys, "metric"])
    if doubled.any():
        twice = own.loc[doubled, [*keys, "metric"]].iloc[0].to_dict()
        raise InputError(f"own metrics: {twice} has two values; valid: one value for each prompt or reply")
    of_prompts = own["model"].eq("")
    for kind, by, part in (("prompt", PROMPT, own[of_prompts]), ("reply", keys, own[~of_prompts])):
        if len(part):
            table = part.pivot(index=by, columns="metric", values="value").astype("float64")
            yield by, table.add_prefix(f"{kind} ").rename_axis(columns=None).reset_index()
