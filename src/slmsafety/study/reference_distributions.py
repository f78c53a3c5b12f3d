"""What Figure 3 shows: label shares, mean scores and raw values of a study, beside public numbers of larger models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from slmsafety import published
from slmsafety.analysis.outcomes import raw_values, score_shares

OWN, LARGER = "this study", "LLMs, public samples"


class Distributions(NamedTuple):
    """Three frames with suite_title: `shares` (group, model, score, share, n), `means` (own, model, value), `raw`."""

    shares: pd.DataFrame
    means: pd.DataFrame
    raw: pd.DataFrame


def distributions(
    scores: pd.DataFrame, labels: pd.DataFrame, titles: Mapping[str, str], extra: pd.DataFrame | None = None
) -> Distributions:
    """Return the distributions of a study's suites, and of larger models on the same suites where there are any.

    `scores` are outcomes, with the accuracy of multiple-choice suites as mean; `labels` the labels with raw_value, an
    empty frame where there are none; `extra` outcomes that only have shares (`published.sst_outcome`). A suite without
    a title is called by its name.
    """
    own = scores if extra is None else pd.concat([scores, extra], ignore_index=True)
    known = own["suite"].unique()
    groups = {OWN: score_shares(own), LARGER: score_shares(published.llm_labels())}
    shares = pd.concat([frame.assign(group=group) for group, frame in groups.items()], ignore_index=True)
    means = [scores[["suite", "model", "mean"]].assign(own=True), published.helm_means().assign(own=False)]
    mean = pd.concat(means, ignore_index=True).rename(columns={"mean": "value"}).dropna(subset="value")
    raw = raw_values(labels).rename(columns={"raw_value": "value"}) if len(labels) else pd.DataFrame({"suite": []})
    frames = [frame[frame["suite"].isin(known)] for frame in (shares, mean, raw)]
    named = (frame.assign(suite_title=[titles.get(suite, suite) for suite in frame["suite"]]) for frame in frames)
    return Distributions(*named)
