"""How sure judges are of their labels, where their judgments hold probabilities."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from slmsafety.records.schema import LABELS


def confidences(meta: pd.Series) -> pd.Series:
    """Return the highest probability of a label in judgments.

    Parameters
    ----------
    meta : Series of str
        The column of the judgments table: a JSON object, which holds harmful, ambiguous and safe where its judge gives
        their probabilities.

    Returns
    -------
    Series of float
        0..1, on the same index; nan for a judgment without probabilities.
    """
    return meta.map(_highest).astype("float64")


def _highest(text: object) -> float:
    found: Any = json.loads(text) if isinstance(text, str) and '"harmful"' in text else {}
    chances = [found.get(name) for name in LABELS.values()]
    if not all(isinstance(chance, int | float) and 0 <= chance <= 1 for chance in chances):
        return float(np.nan)
    return float(max(chances))
