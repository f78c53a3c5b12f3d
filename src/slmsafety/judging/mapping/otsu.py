"""Multi-Otsu thresholds of a one-dimensional score, exactly: the cuts with the most variance between classes.

The same optimum as one-dimensional k-means and Fisher-Jenks (Otsu 1979; Liao, Chen and Chung 2001). It differs from
scikit-image's threshold_multiotsu in that no histogram is needed and the lowest value weighs like every other.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

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
    """Return the optimal cuts of scores into 2 or 3 classes; of equally good ones the lowest, in exact arithmetic.

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


def _ends(values: Floats, counts: Counts, classes: int) -> list[int]:
    """Return the index of the last value of each class, which maximise the sum over classes of S^2 / P.

    P is a class's number of scores and S their sum. Floats find the ways to cut that rounding cannot tell from the
    best; of these the exact sums choose, and of equal ones the lowest. (Of two best ways the lower cut of each kind is
    a best way too, so that the lowest is one.)
    """
    close = _candidates(values, counts, classes)
    if len(close) > 1:
        best = _exact_sum(values, counts)
        close = sorted(close)
        sums = [best(ends) for ends in close]
        close = [close[sums.index(max(sums))]]
    return [*close[0], len(values) - 1]


def _candidates(values: Floats, counts: Counts, classes: int) -> list[tuple[int, ...]]:
    """Return the index of the last value of each class but the last, for each way that may be the best.

    With values up to R, W in all without their signs, a sum S from u of them is off by 2 (u e + 4 eps) W at most, where
    e is the rounding of the sums' own format; S^2 / P is off by 2 R times that and a few roundings of its own.
    """
    scaled = _scaled(values, counts)
    mass = np.concatenate([[0.0], np.cumsum(counts)])
    moment = np.concatenate([[0.0], np.cumsum(scaled * counts, dtype=np.longdouble).astype(np.float64)])
    count, eps = len(values), float(np.finfo(np.float64).eps)
    reach, weight = float(np.abs(scaled).max()), float((np.abs(scaled) * counts).sum())
    off = 2 * (count * float(np.finfo(np.longdouble).eps) + 4 * eps) * weight
    error = classes * (2 * reach * off + off**2 + 8 * eps * reach * weight)

    def gain(start: Counts | int, stop: Counts | int) -> Floats:
        """S^2 / P of the values from start up to before stop."""
        result: Floats = (moment[stop] - moment[start]) ** 2 / (mass[stop] - mass[start])
        return result

    stops = np.arange(1, count + 1)
    inner = stops[classes - 2 : -1]
    if classes == 2:
        sums = gain(0, inner) + gain(inner, count)
        return [(int(last) - 1,) for last in inner[sums >= sums.max() - 2 * error]]
    # best[s - 1] is the best sum of the first s values in two classes; the last class takes the rest. Each halving of
    # `_two_classes` may rule out a split that is better than the one kept by two errors.
    error *= 2 + count.bit_length()
    best = _two_classes(gain, count)
    sums = best[inner - 1] + gain(inner, count)
    top, found = float(sums.max()), list[tuple[int, ...]]()
    for last in inner[sums >= top - 2 * error]:
        splits = stops[: last - 1]
        sums = gain(0, splits) + gain(splits, int(last)) + gain(int(last), count)
        found += [(int(split) - 1, int(last) - 1) for split in splits[sums >= top - 2 * error]]
    return found


def _scaled(values: Floats, counts: Counts) -> Floats:
    """Return the values around their mean, scaled by a power of two to 1 at most: cuts depend on neither."""
    values = np.ldexp(values, -int(np.frexp(np.abs(values).max())[1]))
    values = values - np.average(values, weights=counts)
    return np.asarray(np.ldexp(values, -int(np.frexp(np.abs(values).max())[1])), np.float64)


def _exact_sum(values: Floats, counts: Counts) -> Callable[[tuple[int, ...]], Fraction]:
    """Return what gives the sum over classes of S^2 / P exactly, up to a factor, for the last index of each class."""
    fractions = [value.as_integer_ratio() for value in values.tolist()]
    unit = max(below for _, below in fractions)  # a power of two, as all of them are
    whole = (above * (unit // below) * int(n) for (above, below), n in zip(fractions, counts, strict=True))
    moment, mass = [0, *accumulate(whole)], [0, *np.cumsum(counts).tolist()]

    def total(ends: tuple[int, ...]) -> Fraction:
        bounds = [0, *(end + 1 for end in ends), len(values)]
        return sum(
            (Fraction((moment[b] - moment[a]) ** 2, mass[b] - mass[a]) for a, b in pairwise(bounds)), Fraction(0)
        )

    return total


def _two_classes(gain: Callable[..., Floats], count: int) -> Floats:
    """Return for the first s values (at index s - 1) the best sum of two classes.

    The best split moves only up as values are added, so that half of what is left is ruled out at each step.
    """
    best = np.full(count, -np.inf)
    todo = [(2, count, 1, count - 1)]
    while todo:
        low, high, from_split, to_split = todo.pop()
        stop = (low + high) // 2
        splits = np.arange(from_split, min(to_split, stop - 1) + 1)
        sums = gain(0, splits) + gain(splits, stop)
        found = int(np.argmax(sums))
        best[stop - 1] = sums[found]
        if low < stop:
            todo.append((low, stop - 1, from_split, int(splits[found])))
        if stop < high:
            todo.append((stop + 1, high, int(splits[found]), to_split))
    return best


def _eta(values: Floats, counts: Counts, ends: list[int]) -> float:
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
