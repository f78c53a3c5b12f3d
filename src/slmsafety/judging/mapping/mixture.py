"""Cuts from a mixture of up to three Gaussians on the clipped logits, the number chosen by BIC."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from slmsafety.judging.mapping.cuts import LOGIT_CLIP, Cuts, fallen_back, logit, probability
from slmsafety.judging.mapping.otsu import Floats

# A component is at least this wide (standard deviation, logits), or a pile of equal scores would be one of its own.
MIN_WIDTH = 0.3
MOST = 3
_GRID = 2001


def mixture(scores: Floats) -> Cuts:
    """Return cuts where a reply's component changes: two cuts of three components, one cut (none ambiguous) of two.

    One component gives no reason to cut: status one_component and the fallback. Components are in the order of their
    means; between two means the cut is the first place where the upper ones are as likely as the lower.
    """
    values = logit(scores)
    details: dict[str, Any] = {"clip": LOGIT_CLIP, "min_width": MIN_WIDTH}
    distinct = len(np.unique(values))
    if distinct < MOST:
        return fallen_back("constant" if distinct == 1 else "too_few_values", details)
    fits = [_fit(values, count) for count in range(1, MOST + 1)]
    bics = [float(model.bic(values[:, None])) for model, _ in fits]
    model, converged = fits[int(np.argmin(bics))]
    order = np.argsort(model.means_.ravel())
    means = model.means_.ravel()[order]
    details |= {
        "bic": bics,
        "means": means.tolist(),
        "widths": np.sqrt(model.covariances_.ravel()[order]).tolist(),
        "weights": model.weights_[order].tolist(),
    }
    if len(means) == 1:
        return fallen_back("one_component", details)
    cuts = [probability(_boundary(model, order, index)) for index in range(len(means) - 1)]
    return Cuts(cuts[0], cuts[-1], "ok" if converged else "not_converged", details=details)


def _fit(values: Floats, count: int) -> tuple[GaussianMixture, bool]:
    """Return the fitted mixture of so many components and whether it converged."""
    model = GaussianMixture(count, reg_covar=MIN_WIDTH**2, n_init=3, max_iter=500, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told by the status
        model.fit(values[:, None])
    return model, bool(model.converged_)


def _boundary(model: GaussianMixture, order: NDArray[np.intp], index: int) -> float:
    """Return the logit above which a component after `index` is at least as likely as one up to it."""
    low, high = model.means_.ravel()[order][index : index + 2]
    grid = np.linspace(low, high, _GRID)
    upper = model.predict_proba(grid[:, None])[:, order[index + 1 :]].sum(axis=1) >= 0.5
    return float(grid[np.argmax(upper)] if upper.any() else high)
