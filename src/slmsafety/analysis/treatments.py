"""What "ambiguous" is worth: the six treatments of the paper's section 4.1, and the ambiguity-adjusted score."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.analysis.rankings import rank_ranges, rank_within_suites
from slmsafety.errors import unknown

# None drops ambiguous rows: the score of what is left.
TREATMENTS: dict[str, float | None] = {"0": 0.0, "0.25": 0.25, "0.5": 0.5, "0.75": 0.75, "1": 1.0, "dropped": None}
ACCURACY = "accuracy"


def score(outcomes: pd.DataFrame, treatment: str) -> pd.Series:
    """Return each row's score (0..1) when an ambiguous label counts as the treatment says.

    SRR + t AR for a number t; SRR / (SRR + HCR) for "dropped", nan where every label is ambiguous. Raises InputError
    for a treatment outside TREATMENTS. Source: paper section 4.1, ranking sensitivity.
    """
    if treatment not in TREATMENTS:
        raise unknown("treatment", treatment, TREATMENTS)
    value = TREATMENTS[treatment]
    if value is None:
        decisive = outcomes["srr"] + outcomes["hcr"]
        return outcomes["srr"] / decisive.where(decisive > 0, np.nan)
    return outcomes["srr"] + value * outcomes["ar"]


def treatment_scores(outcomes: pd.DataFrame, treatments: list[str] | None = None) -> pd.DataFrame:
    """Return suite, model, treatment and score for every row under every treatment (all six by default).

    A row with an accuracy has no ambiguous label to treat: it has that one score, under the treatment ACCURACY.
    """
    choice = outcomes["accuracy"].notna()
    frames = [
        outcomes.loc[~choice, ["suite", "model"]].assign(treatment=name, score=score(outcomes[~choice], name))
        for name in treatments or TREATMENTS
    ]
    right = outcomes.loc[choice, ["suite", "model"]].assign(treatment=ACCURACY, score=outcomes["accuracy"])
    return pd.concat([*frames, right] if choice.any() else frames, ignore_index=True)


def rank_movement(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Return suite, model, best, worst and range of each model's rank over the six treatments (`rank_ranges`)."""
    scores = treatment_scores(outcomes)
    return rank_ranges(scores.assign(rank=rank_within_suites(scores)))


def adjusted_score(outcomes: pd.DataFrame) -> pd.Series:
    """Return S_adj = mean (1 - AR), in 0..1: the raw mean times the decisive share (paper section 5.2)."""
    return outcomes["mean"] * (1 - outcomes["ar"])
