"""What share of the variance of ambiguity rates, and of the movement of ranks, the quality of the text explains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from slmsafety.analysis.arrays import Floats, Rows
from slmsafety.analysis.drivers.ambiguity_model import unskewed
from slmsafety.analysis.drivers.associations import one_a_prompt
from slmsafety.analysis.drivers.metric_rows import metric_names

_FREE = 1e-9
"""A share of an effect below this that other blocks know is none."""


class VarianceExplained(NamedTuple):
    """R2 of a least-squares fit: as it is, adjusted for the number of effects, and for blocks left out in turn."""

    n: int
    effects: int
    r2: float
    adjusted: float
    unseen: float


def variance_explained(
    y: ArrayLike, x: ArrayLike, base: ArrayLike | None = None, blocks: ArrayLike | None = None
) -> VarianceExplained:
    """Return R2, adjusted R2 and leave-one-block-out (PRESS) R2 of a least-squares fit, beyond those of a base.

    Parameters
    ----------
    y : array of float, shape (n,)
        The target. No nan here or below.
    x : array of float, shape (n, k)
        The columns whose share is asked for; a constant is added.
    base : array of float, shape (n, b), optional
        Columns that are held; by default the mean alone.
    blocks : array, shape (n,), optional
        Names each row's block: rows that a fit must not have seen when it is asked for one of them (the rows of one
        model, the prompts of one kind). By default each row is one.

    Returns
    -------
    VarianceExplained
        n; effects (the rank that x adds); r2 = 1 - RSS / RSS of base (0: x explains nothing, 1: all that base leaves);
        adjusted, which divides both by their degrees of freedom; unseen = 1 - PRESS / PRESS of base, the share
        explained of a block that the fit has not seen, below 0 where the fit predicts worse than base. All nan without
        a degree of freedom or where base explains y wholly; unseen is nan where a block alone determines an effect.

    Notes
    -----
    The errors of a block that is left out are (I - H)^-1 e, with e its residuals and H its part of the hat matrix:
    those of a fit to the other blocks, without fitting it.

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
    block = pd.factorize(np.arange(n) if blocks is None else np.asarray(blocks))[0]
    press = [_press(rest, basis, block) for rest, basis in ((before, small), (after, large))]
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


def _press(rest: Floats, basis: Floats, block: Rows) -> float:
    """Return the sum of squared errors of each block when the fit has not seen it; nan where a block alone fits one."""
    order = np.argsort(block, kind="stable")
    ends = np.cumsum(np.bincount(block))
    free, total = 1 - (basis**2).sum(axis=1), 0.0
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        rows = order[start:end]
        if len(rows) == 1:
            total += float(rest[rows[0]] / free[rows[0]]) ** 2 if free[rows[0]] > _FREE else np.nan
            continue
        own, errors = basis[rows], rest[rows]
        shares, directions = np.linalg.eigh(own.T @ own)
        if shares[-1] > 1 - _FREE:
            return np.nan
        unseen = errors + own @ directions @ (directions.T @ (own.T @ errors) / (1 - shares))
        total += float(unseen @ unseen)
    return total


def explained_prompts(means: pd.DataFrame) -> pd.DataFrame:
    """Return what share of the variance of the prompts' AR suites and metrics explain.

    `means` come from `prompt_means`; prompts that lack AR or a metric are left out, and counted in `missing`. Token
    counts and perplexities enter as log1p (`ambiguity_model.unskewed`). `unseen` leaves out the prompts of one kind in
    turn. Columns: by, missing, kinds (int) and those of `VarianceExplained`.
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
    about = len(means) - len(used), used["kind"].nunique()
    rows = [(by, *about, *variance_explained(used["ar"], x, base, used["kind"])) for by, (x, base) in sets.items()]
    return pd.DataFrame(rows, columns=["by", "missing", "kinds", *VarianceExplained._fields])


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

    `quality` comes from `model_quality`, with `card` where systems of one model are among them; `ranges` holds suite,
    model and range (of a model's rank over the treatments of ambiguous labels, `rankings.rank_ranges`). `unseen` leaves
    out one model in turn: all of its systems, in all suites. Columns: suite, of ("AR", "rank movement"), missing
    (models without a value or a metric), models (int: what is left out in turn) and those of `VarianceExplained`. The
    last suite is "all": every suite's models, within suites.
    """
    metrics = [name for name in metric_names(quality) if quality[name].notna().any()]
    both = quality.merge(ranges[["suite", "model", "range"]], on=["suite", "model"], how="left", validate="one_to_one")
    rows = []
    for of, target in (("AR", "ar"), ("rank movement", "range")):
        used = both.dropna(subset=[target, *metrics])
        card = used["card"] if "card" in used else used["model"]
        for suite, part in both.groupby("suite", sort=True):
            own, own_card = used[used["suite"] == suite], card[used["suite"] == suite]
            shares = variance_explained(own[target], own[metrics], blocks=own_card)
            rows.append((suite, of, len(part) - len(own), own_card.nunique(), *shares))
        suites = pd.get_dummies(used["suite"], drop_first=True).to_numpy(float)
        shares = variance_explained(used[target], used[metrics], suites, card)
        rows.append(("all", of, len(both) - len(used), card.nunique(), *shares))
    return pd.DataFrame(rows, columns=["suite", "of", "missing", "models", *VarianceExplained._fields])
