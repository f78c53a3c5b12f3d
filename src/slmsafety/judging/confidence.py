"""How sure judges are of their labels, where their judgments hold probabilities."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from slmsafety.records.schema import LABELS

_SUM = 0.01
"""How far the three probabilities of a judgment may add up to another number than 1: they are stored rounded."""


def confidences(meta: pd.Series, label: pd.Series) -> pd.Series:
    """Return the probability of each judgment's label.

    Parameters
    ----------
    meta : Series of str
        The column of the judgments table: a JSON object, which holds harmful, ambiguous and safe where its judge gives
        their probabilities.
    label : Series
        The labels (0, 1, 2, missing), on the same index.

    Returns
    -------
    Series of float
        0..1; nan for a judgment without a label or without three probabilities that add up to 1.
    """
    found = [_chance(text, value) for text, value in zip(meta, label, strict=True)]
    return pd.Series(found, meta.index, dtype="float64")


def _chance(text: object, label: Any) -> float:
    try:
        found: Any = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or pd.isna(label):
        return float("nan")
    chances: dict[int, Any] = {value: found.get(name) for value, name in LABELS.items()}
    if not all(type(chance) in (int, float) and 0 <= chance <= 1 for chance in chances.values()):
        return float("nan")
    return float(chances[int(label)]) if abs(sum(chances.values()) - 1) <= _SUM else float("nan")
