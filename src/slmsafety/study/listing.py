"""The models and suites that a study can name."""

from __future__ import annotations

import pandas as pd

from slmsafety.models.cards import load_cards
from slmsafety.suites.catalogue import overview


def list_models() -> pd.DataFrame:
    """Return the models that a study can name.

    Returns
    -------
    DataFrame
        One row for each line of models/cards.csv. Int64: year, params_m (millions of parameters) and context (tokens).
        boolean: gated (the hub asks for an account). Text: id, name, family, base_or_tuned, licence, source (where the
        weights come from) and note.
    """
    columns = ["id", "name", "family", "year", "params_m", "context", "base_or_tuned", "licence", "gated", "source"]
    return load_cards()[[*columns, "note"]]


def list_suites() -> pd.DataFrame:
    """Return the suites that a study can name.

    Returns
    -------
    DataFrame
        One row a suite, all text: suite, title, prompts (their number), licence, source, revision, present (what of it
        is on this machine) and how (to get the rest).
    """
    return overview()
