"""Multi-Otsu thresholds of a one-dimensional score, exactly: the cuts with the most variance between classes.

The same optimum as one-dimensional k-means and Fisher-Jenks (Otsu 1979; Liao, Chen and Chung 2001). It differs from
scikit-image's threshold_multiotsu in that no histogram is needed and the lowest value weighs like every other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# Three classes leave this share of a uniform score's variance between them 0.889, of a Gaussian's 0.81, of an
# exponential's 0.82; scores with two or three modes had 0.96 and more.
UNIMODAL_ETA = 0.9


class Otsu(NamedTuple):
    """Where to cut, and whether the scores gave reason to.

    `cuts` are the largest value of each class but the last, so that `x <= cuts[0]` is the lowest class; None when there
    are too few values. `sizes` are the scores in each class. `eta` is the share of the variance that lies between the
    classes, 0 to 1, nan without cuts. `status`: ok, unimodal_suspect (eta at most UNIMODAL_ETA: no evidence for so many
    groups), too_few_values (fewer distinct values than classes), constant.
    """

    cuts: tuple[float, ...] | None
    sizes: tuple[int, ...]
    eta: float
    status: str


def multi_otsu(scores: ArrayLike, classes: int = 3, weights: ArrayLike | None = None) -> Otsu:
    """Return the optimal cuts of scores into 2 or 3 classes; of equally good ones the lowest.

    Parameters
    ----------
    scores : array_like of float, shape (n,)
        Finite scores on any scale.
    classes : {2, 3}
        The number of classes.
    weights : array_like of int, shape (n,), optional
        How often each score counts.

    Returns
    -------
    Otsu
        The cuts, and whether the scores gave reason to cut.

    Raises
    ------
    ValueError
        For a nan or infinite score, since a missing one must be counted before it is left out, and for another number
        of classes.

    References
    ----------
    Otsu 1979, "A threshold selection method from gray-level histograms"; Liao, Chen and Chung 2001, "A fast algorithm
    for multilevel thresholding".
    """
    if classes not in (2, 3):
        raise ValueError(f"multi_otsu cuts into 2 or 3 classes, not {classes}")
    scores = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(scores).all():
        raise ValueError("a score is nan or infinite; leave it out and count it")
    given = np.ones(len(scores), dtype=np.int64) if weights is None else np.asarray(weights)
    values, index = np.unique(scores[given > 0], return_inverse=True)
    counts = np.bincount(index, weights=given[given > 0], minlength=len(values)).astype(np.int64)
    if len(values) < classes:
        status = "constant" if len(values) == 1 else "too_few_values"
        return Otsu(None, (), np.nan, status)
    ends = _ends(values, counts, classes)
    mass = np.cumsum(counts)[ends]
    eta = _eta(values, counts, ends)
    # UNIMODAL_ETA is about three classes: two of them leave 0.64 of a Gaussian's variance and 0.75 of a uniform's.
    suspect = classes == 3 and eta <= UNIMODAL_ETA
    cuts = tuple(float(values[end]) for end in ends[:-1])
    sizes = tuple(int(size) for size in np.diff(mass, prepend=0))
    return Otsu(cuts, sizes, eta, "unimodal_suspect" if suspect else "ok")


def binned(scores: ArrayLike, bins: int, low: float, high: float) -> Floats:
    """Return each score as the upper edge of its bin: `bins` equal ones from low to high, open below, closed above.

    Cuts of binned scores mean the same for the scores themselves: x <= an edge exactly where its bin's edge is.
    """
    edges = np.linspace(low, high, bins + 1)
    places = np.searchsorted(edges[1:-1], np.asarray(scores, dtype=np.float64), side="left")
    return edges[1:][places]


def _ends(values: Floats, counts: NDArray[np.int64], classes: int) -> list[int]:
    """Return the index of the last value of each class, which maximise the sum over classes of S^2 / P.

    P is a class's number of scores and S their sum; around the mean, so that the sums stay small.
    """
    mean = float(np.average(values, weights=counts))
    mass = np.concatenate([[0.0], np.cumsum(counts)])
    moment = np.concatenate([[0.0], np.cumsum((values - mean) * counts)])

    def gain(start: NDArray[np.int64] | int, stop: NDArray[np.int64] | int) -> Floats:
        """S^2 / P of the values from start up to before stop."""
        result: Floats = (moment[stop] - moment[start]) ** 2 / (mass[stop] - mass[start])
        return result

    count = len(values)
    stops = np.arange(1, count + 1)
    best, first = gain(0, stops), np.zeros(count, dtype=np.int64)
    if classes == 3:
        best, first = _two_classes(gain, count)
    # best[s - 1] is the best sum of the first s values in one class less; the last class takes the rest.
    inner = stops[classes - 2 : -1]
    last = int(inner[np.argmax(best[inner - 1] + gain(inner, count))])
    ends = [last - 1, count - 1]
    return [int(first[last - 1]) - 1, *ends] if classes == 3 else ends


def _two_classes(gain: Callable[..., Floats], count: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return for the first s values (at index s - 1) the best sum of two classes and how many the lower one takes.

    The best split moves only up as values are added, so that half of what is left is ruled out at each step.
    """
    best, split = np.full(count, -np.inf), np.zeros(count, dtype=np.int64)
    todo = [(2, count, 1, count - 1)]
    while todo:
        low, high, from_split, to_split = todo.pop()
        stop = (low + high) // 2
        splits = np.arange(from_split, min(to_split, stop - 1) + 1)
        sums = gain(0, splits) + gain(splits, stop)
        found = int(np.argmax(sums))
        best[stop - 1], split[stop - 1] = sums[found], splits[found]
        if low < stop:
            todo.append((low, stop - 1, from_split, int(splits[found])))
        if stop < high:
            todo.append((stop + 1, high, int(splits[found]), to_split))
    return best, split


def _eta(values: Floats, counts: NDArray[np.int64], ends: list[int]) -> float:
    """Return the share of the variance between classes, from the variance within them."""
    # It does not depend on the scale, and squares of tiny scores would be 0.
    values = (values - values[0]) / (values[-1] - values[0])
    total = float(np.average((values - np.average(values, weights=counts)) ** 2, weights=counts))
    within, start = 0.0, 0
    for end in ends:
        part, weight = values[start : end + 1], counts[start : end + 1]
        within += float((((part - np.average(part, weights=weight)) ** 2) * weight).sum())
        start = end + 1
    return float(1 - within / counts.sum() / total)
