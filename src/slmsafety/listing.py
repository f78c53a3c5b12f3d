"""The models and suites that a study can name."""

from __future__ import annotations

import pandas as pd

from slmsafety.models.cards import load_cards
from slmsafety.suites.catalogue import overview


def list_models() -> pd.DataFrame:
    """Return the models that a study can name, with where their weights come from (models/cards.csv)."""
    columns = ["id", "name", "family", "year", "params_m", "context", "base_or_tuned", "licence", "gated", "source"]
    return load_cards()[[*columns, "note"]]


def list_suites() -> pd.DataFrame:
    """Return the suites with sizes, licences, sources, what of each is present and how to get it."""
    return overview()
