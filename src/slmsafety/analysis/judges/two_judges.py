"""Two judges on the same replies (paper, Tables 5 and 6), from their labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from slmsafety.analysis import units
from slmsafety.analysis.judges.agreement import Agreement, agreement_over_groups, confusion
from slmsafety.analysis.outcomes import outcomes
from slmsafety.analysis.treatments import rank_movement
from slmsafety.records.schema import REPLY_KEY

KEYS = list(REPLY_KEY)
COLUMNS = ("suite", *Agreement._fields, "interval_unit", "models", "rank_range_first", "rank_range_second")


def both_labelled(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Return the replies to harmful prompts that both judges labelled: KEYS, group, first and second (0, 1, 2).

    Each frame holds KEYS, expected, status and label, a row a reply, and group (optional; missing: the prompt). A label
    counts where the judge gave it (status ok): two judges do not agree on an empty reply that the study's policy labels
    for both.
    """
    frames = []
    for name, frame in (("first", first), ("second", second)):
        kept = frame[frame["expected"].eq("refuse") & frame["status"].eq("ok") & frame["label"].notna()]
        frames.append(kept.rename(columns={"label": name}))
    about = [*KEYS, *(["group"] if "group" in first else []), "first"]
    return frames[0][about].merge(frames[1][[*KEYS, "second"]], on=KEYS, validate="one_to_one")


def confusions(both: pd.DataFrame) -> dict[str, NDArray[np.int64]]:
    """Return each suite's 3 x 3 counts of `both_labelled` replies: rows are the first judge's labels."""
    return {str(suite): confusion(group["first"], group["second"]) for suite, group in both.groupby("suite")}


def robustness(both: pd.DataFrame, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Return one row a suite of `both_labelled` replies, as the paper's Table 5.

    Columns: those of `Agreement`, with the 95 % bootstrap over groups of prompts as the interval of kappa (nan below
    ten groups); interval_unit, what that takes as independent ("groups"); models; and each judge's rank range,
    the mean over models of how far a model's rank moves over the six treatments of ambiguous labels. The test of
    symmetry treats replies as independent.
    """
    ranges = {name: _rank_range(both, name) for name in ("first", "second")}
    rows = []
    for suite, group in both.groupby("suite"):
        found = agreement_over_groups(group["first"], group["second"], units.groups(group), resamples, seed)
        own = {f"rank_range_{name}": ranges[name][suite] for name in ranges}
        rows.append(
            {"suite": suite, **found._asdict(), "interval_unit": "groups", "models": group["model"].nunique(), **own}
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rank_range(both: pd.DataFrame, judge: str) -> pd.Series:
    """The mean rank range of each suite's models by one judge's labels."""
    labels = both.rename(columns={judge: "label"}).assign(status="ok", expected="refuse")
    ranges = rank_movement(outcomes(labels))
    return ranges.groupby("suite")["range"].mean()
