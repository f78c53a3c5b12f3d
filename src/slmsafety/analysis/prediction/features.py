"""What ambiguity is predicted from: the metrics of prompts and replies, and the metadata of models."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.analysis.drivers.metric_rows import metric_names
from slmsafety.errors import InputError
from slmsafety.records.schema import with_sample

KINDS = ("prompt", "reply", "model")
METRICS, WITH_MODEL = "metrics", "metrics and model"
UNITS = ("prompt", "group", "kind")
"""The numbers of a row's prompt and of what that prompt depends on."""


def labelled_replies(rows: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """Return the labelled replies, sorted by key, with the metadata of their models.

    Parameters
    ----------
    rows : DataFrame
        From `metric_rows.reply_rows`.
    models : DataFrame
        Numbers that describe the models, indexed by model.

    Returns
    -------
    DataFrame
        suite, instance_id, model (category), sample (int), prompt, group and kind (int: its prompt, and what that
        depends on, as in `reply_rows`), ambiguous (bool: True for label 1, False for a decisive one) and the features
        (float64): "prompt ...", "reply ..." and "model ..." (the columns of `models`; nan where it lacks a model).

    Raises
    ------
    InputError
        For an infinite metric.
    """
    keys, rows = ["suite", "instance_id", "model", "sample"], with_sample(rows)
    kept = rows[rows["ambiguous"].notna()].sort_values(keys, ignore_index=True)
    metadata = models.add_prefix("model ").reindex(kept["model"].astype("str")).reset_index(drop=True)
    found = kept[[*keys, *UNITS, "ambiguous", *metric_names(kept)]].astype({"ambiguous": bool})
    found = pd.concat([found, metadata.astype("float64")], axis=1)
    features = feature_names(found)
    endless = np.isinf(found[features].to_numpy())
    if endless.any():
        row, column = np.argwhere(endless)[0]
        where = ", ".join(str(found.at[row, key]) for key in keys)
        raise InputError(f"metric '{features[column]}' of {where} is infinite; valid: a number or nothing")
    return found


def feature_names(rows: pd.DataFrame) -> list[str]:
    """Return the columns that describe the prompt, the reply or the model."""
    return metric_names(rows, *KINDS)


def feature_sets(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Return the metrics that each row of a table predicts from: all, with the model's metadata, some, none.

    Metadata describe a card, so that they are the same for all systems of one card and tell no more models apart than
    there are cards: with few cards they are little more than the model's name. Metadata with one value over all rows
    are left out: they can add nothing, but a forest that draws features would draw them.
    """
    known = [name for name in metric_names(rows, "model") if rows[name].nunique(dropna=False) > 1]
    return {
        METRICS: metric_names(rows),
        WITH_MODEL: [*metric_names(rows), *known],
        "prompt only": metric_names(rows, "prompt"),
        "length only": [name for name in ("prompt tokens", "reply tokens") if name in rows],
        "majority": [],
    }
