"""Is a suite's ambiguity due to its prompts or to its rubric? Two suites, each judged under both their rubrics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from slmsafety.analysis import units
from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.resampling import FEWEST_CLUSTERS, cluster_sums, percentile_interval, resampled_totals, widened
from slmsafety.errors import InputError
from slmsafety.records.schema import AMBIGUOUS, with_sample

EFFECTS = ("difference", "prompts", "rubric", "interaction", "rubric_share")


class CrossedRubrics(NamedTuple):
    """The ambiguity rate of each suite under each rubric, and what the suites' difference is made of.

    `cells`: suite, rubric, prompts, groups (of prompts), n (replies; a model's replies to one prompt count as one in
    the rate), ar, ar_low, ar_high. `effects`: effect, value, value_low, value_high. Limits are 95 %.
    """

    cells: pd.DataFrame
    effects: pd.DataFrame


def crossed_rubrics(
    rows: pd.DataFrame, first: tuple[str, str], second: tuple[str, str], resamples: int = 2000, seed: int = 0
) -> CrossedRubrics:
    """Return the four ambiguity rates and the decomposition of the difference between the two suites.

    `rows` holds suite, instance_id, model, sample, rubric, label (0, 1, 2, missing) and group (text, optional: the
    group of prompts; missing: the prompt); `first` and `second` are a suite and its own rubric. Only replies with a
    label under both rubrics count, so that a suite's two rates are of the same replies. difference = AR(first suite,
    its rubric) - AR(second suite, its rubric) = prompts + rubric, where prompts is the mean over the rubrics of the
    suites' difference and rubric the mean over the suites of the rubrics' difference (Kitagawa 1955); interaction is
    how much more the rubrics differ on the first suite than on the second, and rubric_share = rubric / difference (nan
    where that is 0; beyond 0..1 where the two effects oppose each other). Limits: bootstrap that draws whole groups of
    prompts of each suite (`analysis.resampling`; `widened`, for the effects by the suite with fewer groups), nan for a
    suite below ten groups, and for all effects then. Raises InputError for a cell without a row, and for a reply that
    a rubric judged twice.
    """
    pairs = (first, second)
    rubrics = [rubric for _, rubric in pairs]
    counts = [_counts(rows[rows["suite"] == suite], suite, rubrics) for suite, _ in pairs]
    rng = np.random.default_rng(seed)
    drawn = np.stack([_rates(resampled_totals(each, rng, resamples, FEWEST_CLUSTERS)) for each in counts], axis=1)
    rates = np.stack([_rates(each.sum(axis=0)) for each in counts])
    limits = np.stack([percentile_interval(drawn[:, s], widened(len(each))) for s, each in enumerate(counts)], axis=1)
    confidence = widened(min(map(len, counts)))
    cells = [
        (suite, rubric, *_sizes(counts[s]), rates[s, r], *limits[:, s, r])
        for s, (suite, _) in enumerate(pairs)
        for r, rubric in enumerate(rubrics)
    ]
    values, spread = effects(rates), effects(drawn)
    found = [(name, float(values[name]), *percentile_interval(spread[name], confidence)) for name in EFFECTS]
    return CrossedRubrics(
        pd.DataFrame(cells, columns=["suite", "rubric", "prompts", "groups", "n", "ar", "ar_low", "ar_high"]),
        pd.DataFrame(found, columns=["effect", "value", "value_low", "value_high"]),
    )


def effects(rates: Floats) -> dict[str, Floats]:
    """Return the EFFECTS of ambiguity rates (..., suite, rubric), each suite's own rubric on the diagonal."""
    by_rubric = rates[..., 0, :] - rates[..., 1, :]
    by_suite = rates[..., :, 0] - rates[..., :, 1]
    difference = rates[..., 0, 0] - rates[..., 1, 1]
    rubric = by_suite.mean(axis=-1)
    share = np.divide(rubric, difference, out=np.full_like(difference, np.nan), where=np.abs(difference) > 1e-12)
    interaction = by_suite[..., 0] - by_suite[..., 1]
    return dict(zip(EFFECTS, (difference, by_rubric.mean(axis=-1), rubric, interaction, share), strict=True))


def _counts(rows: pd.DataFrame, suite: str, rubrics: list[str]) -> Floats:
    """Return for each group of prompts the sums over its prompts of what follows, and the number of prompts.

    The shape is (groups, 5): models that are ambiguous under each of the rubrics, all of them, and their replies. Of
    several replies of a model to the prompt, the share that is ambiguous counts.
    """
    rows, keys = with_sample(rows), ["instance_id", "model", "sample"]
    for rubric in rubrics:
        if rows.loc[rows["rubric"] == rubric, "label"].notna().sum() == 0:
            raise InputError(f"crossed rubrics: suite '{suite}' has no label under rubric '{rubric}'")
    doubled = rows.duplicated([*keys, "rubric"])
    if doubled.any():
        raise InputError(f"crossed rubrics: {dict(rows.loc[doubled, [*keys, 'rubric']].iloc[0])} is judged twice")
    table = rows.pivot(index=keys, columns="rubric", values="label")[rubrics].dropna()
    if table.empty:
        raise InputError(f"crossed rubrics: no reply of suite '{suite}' has a label under both rubrics")
    of_models = table.eq(AMBIGUOUS).astype(float).groupby(["instance_id", "model"])
    counted = of_models.mean().assign(n=1.0, replies=of_models.size())
    of_prompts = counted.groupby("instance_id").sum().assign(prompts=1.0)
    about = rows.drop_duplicates("instance_id").set_index("instance_id").loc[of_prompts.index].reset_index()
    return cluster_sums(of_prompts.to_numpy(), units.groups(about))


def _sizes(counts: Floats) -> tuple[int, int, int]:
    """Return the numbers of prompts, groups and replies."""
    return int(counts[:, 4].sum()), len(counts), int(counts[:, 3].sum())


def _rates(sums: Floats) -> Floats:
    return np.asarray(sums[..., :2] / sums[..., 2:3])
