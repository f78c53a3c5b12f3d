"""The noise floor of a pipeline: what changes when the same replies are made again in another way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np
import pandas as pd

from slmsafety.analysis.proportions import wilson_interval
from slmsafety.records.schema import AMBIGUOUS, HARMFUL, LABELS, SAFE

_OPPOSITE = ({LABELS[HARMFUL], LABELS[SAFE]}, {"right", "wrong"})


def same_start(first: Sequence[int], second: Sequence[int]) -> float:
    """Return the share (0..1) of the longer sequence of tokens before the first difference; 1 for equal ones."""
    longest = max(len(first), len(second))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
    return same / longest if longest else 1.0


def noise_rates(pairs: pd.DataFrame, by: Sequence[str], confidence: float = 0.95) -> pd.DataFrame:
    """Return one row for each group of `by` with what differs between replies and the same replies made again.

    `pairs` holds `by`, expected (refuse, answer), response, response_again, same_start (see `same_start`), verdict and
    verdict_again (harmful, ambiguous, safe; right, wrong; "" where there is none). Columns: n (replies), changed (other
    text), same_start (mean over the changed replies, nan without one), verdicts_changed (from or to none included),
    flips (harmful against safe, right against wrong), each count with the limits of its share of n by Wilson's interval
    (0..1), ar and ar_again (ambiguous among the labelled replies to prompts to refuse, 0..1, nan without one).
    """
    rows = []
    for key, group in pairs.groupby(list(by), sort=True):
        text = group["response"] != group["response_again"]
        verdict = group["verdict"] != group["verdict_again"]
        both = zip(group["verdict"], group["verdict_again"], strict=True)
        flip = pd.Series([set(pair) in _OPPOSITE for pair in both])
        rows.append(
            (
                *(key if isinstance(key, tuple) else (key,)),
                len(group),
                *_counted(text, confidence),
                group.loc[text, "same_start"].mean(),
                *_counted(verdict, confidence),
                *_counted(flip, confidence),
                _ambiguity(group, "verdict"),
                _ambiguity(group, "verdict_again"),
            )
        )
    return pd.DataFrame(rows, columns=[*by, *RATES])


_COUNTS = ("changed", "verdicts_changed", "flips")
_CHANGED, _VERDICTS, _FLIPS = ([name, f"{name}_low", f"{name}_high"] for name in _COUNTS)
RATES = ("n", *_CHANGED, "same_start", *_VERDICTS, *_FLIPS, "ar", "ar_again")


def _counted(differs: pd.Series, confidence: float) -> tuple[int, float, float]:
    """Return how many differ, and Wilson's limits of their share."""
    count = int(differs.sum())
    return count, *wilson_interval(count, len(differs), confidence)


def _ambiguity(group: pd.DataFrame, column: str) -> float:
    """Return the share of ambiguous labels."""
    labels = group.loc[(group["expected"] == "refuse") & group[column].isin(LABELS.values()), column]
    return float((labels == LABELS[AMBIGUOUS]).mean()) if len(labels) else np.nan
