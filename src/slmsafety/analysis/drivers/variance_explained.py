"""What share of the variance of ambiguity rates, and of the movement of ranks, the quality of the text explains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from slmsafety.analysis.arrays import Floats
from slmsafety.analysis.drivers.ambiguity_model import unskewed
from slmsafety.analysis.drivers.associations import one_a_prompt
from slmsafety.analysis.drivers.metric_rows import metric_names


class VarianceExplained(NamedTuple):
    """R2 of a least-squares fit: as it is, adjusted for the number of effects, and for rows left out in turn."""

    n: int
    effects: int
    r2: float
    adjusted: float
    unseen: float


def variance_explained(y: ArrayLike, x: ArrayLike, base: ArrayLike | None = None) -> VarianceExplained:
    """Return R2, adjusted R2 and leave-one-out (PRESS) R2 of a least-squares fit, beyond those of a base.

    Parameters
    ----------
    y : array of float, shape (n,)
        The target. No nan here or below.
    x : array of float, shape (n, k)
        The columns whose share is asked for; a constant is added.
    base : array of float, shape (n, b), optional
        Columns that are held; by default the mean alone.

    Returns
    -------
    VarianceExplained
        n; effects (the rank that x adds); r2 = 1 - RSS / RSS of base (0: x explains nothing, 1: all that base leaves);
        adjusted, which divides both by their degrees of freedom; unseen = 1 - PRESS / PRESS of base, the share
        explained of a row that the fit has not seen, below 0 where the fit predicts worse than base. All nan without a
        degree of freedom or where base explains y wholly; unseen is nan where a row alone determines an effect.

    References
    ----------
    Allen, D. M. (1974). The relationship between variable selection and data augmentation and a method for prediction.
    Technometrics 16, 125-127.
    """
    target, columns = np.asarray(y, float), np.asarray(x, float)
    one = np.ones((len(target), 1))
    lower = one if base is None else np.column_stack([one, np.asarray(base, float)])
    small, large = _basis(lower), _basis(np.column_stack([lower, columns]))
    n, k0, k1 = len(target), small.shape[1], large.shape[1]
    before, after = (target - basis @ (basis.T @ target) for basis in (small, large))
    if n <= k1 or before @ before <= 1e-12 * (target @ target):
        return VarianceExplained(n, k1 - k0, np.nan, np.nan, np.nan)
    r2 = 1 - (after @ after) / (before @ before)
    press = [_press(rest, basis) for rest, basis in ((before, small), (after, large))]
    return VarianceExplained(n, k1 - k0, r2, 1 - (1 - r2) * (n - k0) / (n - k1), 1 - press[1] / press[0])


def _basis(columns: Floats) -> Floats:
    """Return orthonormal columns that span the given ones."""
    centred = (
        np.column_stack([columns[:, :1], columns[:, 1:] - columns[:, 1:].mean(axis=0)]) if len(columns) else columns
    )
    lengths = np.linalg.norm(centred, axis=0)
    used = lengths > 1e-12 * np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    u, sizes, _ = np.linalg.svd(centred[:, used] / lengths[used], full_matrices=False)
    return np.asarray(u[:, sizes > 1e-9], float)


def _press(rest: Floats, basis: Floats) -> float:
    """Return the sum of squared errors of each row when the fit has not seen it."""
    free = 1 - (basis**2).sum(axis=1)
    return float(((rest / free) ** 2).sum()) if (free > 1e-9).all() else np.nan


def explained_prompts(means: pd.DataFrame) -> pd.DataFrame:
    """Return what share of the variance of the prompts' AR suites and metrics explain.

    `means` come from `prompt_means`; prompts that lack AR or a metric are left out, and counted in `missing`. Token
    counts and perplexities enter as log1p (`ambiguity_model.unskewed`). Columns: by, missing and
    those of `VarianceExplained`.
    """
    metrics = [name for name in metric_names(means) if means[name].notna().any()]
    used = means.dropna(subset=["ar", *metrics])
    used = used.assign(**{name: unskewed(name, used[name].to_numpy(float)) for name in metrics})
    suites = pd.get_dummies(used["suite"], drop_first=True).to_numpy(float)
    prompt, reply = (metric_names(used[metrics], kind) for kind in ("prompt", "reply"))
    sets: dict[str, tuple[ArrayLike, ArrayLike | None]] = {
        "suite": (suites, None),
        "prompt metrics": (used[prompt], None),
        "reply metrics": (used[reply], None),
        "all metrics": (used[metrics], None),
        "all metrics, within suites": (used[metrics], suites),
    }
    rows = [(by, len(means) - len(used), *variance_explained(used["ar"], x, base)) for by, (x, base) in sets.items()]
    return pd.DataFrame(rows, columns=["by", "missing", *VarianceExplained._fields])


def model_quality(rows: pd.DataFrame) -> pd.DataFrame:
    """Return suite, model, ar and the mean of every reply metric over the model's replies, nan left out.

    `rows` come from `reply_rows`; ar is over the prompts with a label, and means are of a model's replies to a prompt
    first.
    """
    wanted = ["ambiguous", *metric_names(rows, "reply")]
    means = one_a_prompt(rows)[wanted].groupby(level=["suite", "model"], observed=True).mean()
    return means.rename(columns={"ambiguous": "ar"}).reset_index().astype({"suite": "str", "model": "str"})


def explained_models(quality: pd.DataFrame, ranges: pd.DataFrame) -> pd.DataFrame:
    """Return what share of the models' AR, and of how far their ranks move, the mean quality of their replies explains.

    `quality` comes from `model_quality`; `ranges` holds suite, model and range (of a model's rank over the treatments
    of ambiguous labels, `rankings.rank_ranges`). Columns: suite, of ("AR", "rank movement"), missing (models without a
    value or a metric) and those of `VarianceExplained`. The last suite is "all": every suite's models, within suites.
    """
    metrics = [name for name in metric_names(quality) if quality[name].notna().any()]
    both = quality.merge(ranges[["suite", "model", "range"]], on=["suite", "model"], how="left", validate="one_to_one")
    rows = []
    for of, target in (("AR", "ar"), ("rank movement", "range")):
        used = both.dropna(subset=[target, *metrics])
        for suite, part in both.groupby("suite", sort=True):
            own = used[used["suite"] == suite]
            rows.append((suite, of, len(part) - len(own), *variance_explained(own[target], own[metrics])))
        suites = pd.get_dummies(used["suite"], drop_first=True).to_numpy(float)
        rows.append(("all", of, len(both) - len(used), *variance_explained(used[target], used[metrics], suites)))
    return pd.DataFrame(rows, columns=["suite", "of", "missing", *VarianceExplained._fields])
