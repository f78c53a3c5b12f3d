"""What the tests of prediction share: rows of replies, and the models of the paper."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.analysis.prediction.classifiers import (
    Fitting,
)
from slmsafety.models.cards import features, load_cards

FAST = ("Logistic regression", "LightGBM")
ONE_THREAD = Fitting(seed=0)


def keys(prompts: dict[str, int], models: list[str]) -> pd.DataFrame:
    """One row for every suite, prompt and model, prompts numbered over all suites, each a group of its own."""
    parts, start = [], 0
    for suite, n in prompts.items():
        prompt = start + np.tile(np.arange(n), len(models))
        parts.append(pd.DataFrame({"suite": suite, "model": np.repeat(models, n), "prompt": prompt}))
        start += n
    rows = pd.concat(parts, ignore_index=True)
    return rows.assign(group=rows["prompt"])


def paper_models() -> pd.DataFrame:
    """The 26 models with what the choice of unseen ones goes by."""
    cards = load_cards().query("in_paper").set_index("id")
    return cards[["family", "params_m"]].assign(tuned=features(cards)["Tuned"])


def replies(seed: int = 0, prompts: int = 60, rate: float = 0.5, strength: float = 2.0) -> pd.DataFrame:
    """Rows of two suites and three models; only one reply metric says anything of ambiguity."""
    rng = np.random.default_rng(seed)
    rows = keys({"a": prompts, "b": prompts}, ["m1", "m2", "m3"])
    rows["instance_id"] = rows["prompt"].astype("str")
    columns = {"prompt tokens": 50.0, "prompt flesch_kincaid": 9.0, "reply tokens": 90.0, "reply perplexity": 12.0}
    for name, centre in columns.items():
        rows[name] = centre + rng.normal(size=len(rows))
    rows["model Year"] = rows["model"].map({"m1": 2019.0, "m2": 2024.0, "m3": np.nan})
    signal = strength * (rows["reply perplexity"] - 12) + rng.logistic(size=len(rows))
    rows["ambiguous"] = signal > np.quantile(signal, 1 - rate)
    return rows
