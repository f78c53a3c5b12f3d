"""What suites and models are called in figures and tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from slmsafety.models.cards import load_cards
from slmsafety.records.store import read_table
from slmsafety.suites.catalogue import SUITES, title


def suite_titles(folder: Path | None) -> dict[str, str]:
    """Return the title of each suite; one whose prompts in `folder` are a part of it says so (HarmBench-80)."""
    full = {name: suite.title for name, suite in SUITES.items()}
    if folder is None:
        return full
    groups = read_table(folder, "prompts", ["meta"]).groupby("suite")
    return {**full, **{str(name): title(str(name), rows) for name, rows in groups if name in SUITES}}


def with_names(frame: pd.DataFrame, titles: dict[str, str]) -> pd.DataFrame:
    """Return the frame with suite_title where it has a suite, and model_name, family and params_m where it has a model.

    A suite without title and a model without card keep their ids as names; params_m (millions) is nan then.
    """
    result = frame.copy()
    if "suite" in frame:
        result["suite_title"] = [titles.get(suite, suite) for suite in frame["suite"]]
    if "model" in frame:
        cards = load_cards().set_index("id").reindex(frame["model"])
        models = frame["model"].to_numpy()
        result["model_name"] = cards["name"].where(cards["name"].notna(), models).to_numpy()
        result["family"] = cards["family"].where(cards["family"].notna(), models).to_numpy()
        result["params_m"] = cards["params_m"].to_numpy(float)
    return result
