from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from slmsafety.judging.mapping.cuts import LOGIT_CLIP, logit
from slmsafety.judging.mapping.otsu import UNIMODAL_ETA, binned, multi_otsu

few = st.lists(st.integers(0, 12), min_size=1, max_size=12)


def partitions(values: list[int], classes: int) -> list[list[list[int]]]:
    """Every way to cut sorted values into classes that share no value."""
    values = sorted(values)
    distinct = sorted(set(values))
    return [
        [[v for v in values if low < v <= high] for low, high in zip((-1, *ends), (*ends, 99), strict=True)]
        for ends in combinations(distinct[:-1], classes - 1)
    ]


def within(parts: list[list[int]]) -> Fraction:
    """The sum of squares around the classes' means: what k-means makes small."""
    means = [Fraction(sum(part), len(part)) for part in parts]
    return sum((sum((v - mean) ** 2 for v in part) for part, mean in zip(parts, means, strict=True)), Fraction(0))


def classes_of(values: list[int], cuts: tuple[float, ...]) -> list[list[int]]:
    """The values in each class by the rule x <= cut."""
    place = np.searchsorted(cuts, values, side="left")
    return [[v for v, p in zip(values, place, strict=True) if p == k] for k in range(len(cuts) + 1)]


def lowest_best(values: list[float], classes: int) -> tuple[float, ...]:
    """The lowest cuts of those with the least variance within, by brute force in exact fractions of the floats."""
    values = sorted(values)
    distinct = sorted(set(values))
    exact = {cuts: within_exactly(values, cuts) for cuts in combinations(distinct[:-1], classes - 1)}
    least = min(exact.values())
    return min(cuts for cuts, value in exact.items() if value == least)


def within_exactly(values: list[float], cuts: tuple[float, ...]) -> Fraction:
    parts = [[Fraction(v) for v in part] for part in classes_of(values, cuts)]
    return sum((sum((v - sum(part) / len(part)) ** 2 for v in part) for part in parts), Fraction(0))


@given(few, st.sampled_from([2, 3]), st.integers(-60, 60), st.sampled_from([0, 1, 7, 1 << 40]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_of_equally_good_cuts_the_lowest_is_taken(values, classes, power, origin, mirrored):
    """Small integers, as they are and mirrored, tie often; powers of two and whole numbers move them exactly."""
    values = [*values, *(12 - value for value in values)] if mirrored else values
    if len(set(values)) < classes:
        return
    found = multi_otsu(values, classes)
    assert found.cuts == lowest_best(values, classes)
    moved = [float(np.ldexp(value + origin, power)) for value in values]
    assert multi_otsu(moved, classes).cuts == tuple(float(np.ldexp(cut + origin, power)) for cut in found.cuts)


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.7, 0.9, 1 / 3, 2 / 3, 1e-9, 1e-200, 1 - 1e-9]), max_size=9))
@settings(max_examples=150, deadline=None)
def test_rounding_chooses_no_cut(values):
    """Scores that are no round numbers in binary, tiny ones, and such as lie close together."""
    for classes in (2, 3):
        if len(set(values)) >= classes:
            assert multi_otsu(values, classes).cuts == lowest_best(values, classes)


@pytest.mark.parametrize(
    ("values", "classes", "cuts"),
    [
        ([0, 1, 2, 3], 3, (0, 1)),  # 0|1|2 3, 0|1 2|3 and 0 1|2|3 are equally good
        ([0, 1, 2], 2, (0,)),
        ([0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875], 2, (0.375,)),
        ([5, 6, 7, 8, 9], 2, (6,)),
        (list(range(8)), 3, (1, 4)),
        ([k * 2.0**-540 for k in range(4)], 3, (0, 2.0**-540)),  # their squares are no floats
    ],
)
def test_ties_that_can_be_counted_by_hand(values, classes, cuts):
    assert multi_otsu(values, classes).cuts == cuts
    assert multi_otsu(np.array(values) * 4, classes).cuts == tuple(4 * cut for cut in cuts)


def test_many_ties_among_many_values():
    """A mirrored grid, each half of it a copy: the best ways come in pairs, and every value counts alike."""
    values = np.r_[np.arange(3_000), 9_000 - np.arange(3_000)]
    found = multi_otsu(values)
    mirrored = [9_000 - cut for cut in reversed(found.cuts)]
    above = tuple(float(values[values < cut].max()) for cut in mirrored)
    assert found.cuts < above
    spread = [
        sum(
            np.var(values[(values > a) & (values <= b)]) * ((values > a) & (values <= b)).sum()
            for a, b in zip((-1, *cuts), (*cuts, 9_000), strict=True)
        )
        for cuts in (found.cuts, above)
    ]
    assert spread[0] == pytest.approx(spread[1], rel=1e-12)


@given(few, st.sampled_from([2, 3]))
@settings(max_examples=100, deadline=None)
def test_no_partition_has_less_variance_within(values, classes):
    """Brute force in exact fractions: Otsu, one-dimensional k-means and Fisher-Jenks have this one optimum."""
    found = multi_otsu(values, classes)
    distinct = len(set(values))
    if distinct < classes:
        assert found.cuts is None
        assert np.isnan(found.eta)
        assert found.status == ("constant" if distinct == 1 else "too_few_values")
        return
    least = min(map(within, partitions(values, classes)))
    parts = classes_of(values, found.cuts)
    assert within(parts) == least
    assert found.sizes == tuple(map(len, parts))
    assert set(found.cuts) <= set(values)
    assert found.eta == pytest.approx(float(1 - least / within([values])), abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_large_samples_reach_the_exact_k_means_optimum(seed):
    """Against dynamic programming over all end points, on values that are far from round."""
    values = np.sort(np.random.default_rng(seed).beta(0.3, 0.6, 300))
    square, total = np.cumsum(values**2), np.cumsum(values)

    def cost(start: int, stop: int) -> float:
        before = (square[start - 1], total[start - 1]) if start else (0.0, 0.0)
        return float(square[stop] - before[0] - (total[stop] - before[1]) ** 2 / (stop - start + 1))

    least = min(cost(0, i) + cost(i + 1, j) + cost(j + 1, 299) for i in range(0, 298) for j in range(i + 1, 299))
    found = multi_otsu(values)
    ends = np.searchsorted(values, found.cuts)
    assert cost(0, ends[0]) + cost(ends[0] + 1, ends[1]) + cost(ends[1] + 1, 299) == pytest.approx(least, rel=1e-9)


@given(
    st.lists(st.floats(0, 1, width=32), min_size=3, max_size=60),
    st.floats(0.1, 50),
    st.floats(-20, 20),
    st.randoms(use_true_random=False),
)
@settings(max_examples=100, deadline=None)
def test_order_scale_and_origin_do_not_matter(values, scale, origin, random):
    found = multi_otsu(values)
    shuffled = random.sample(values, len(values))
    assert repr(multi_otsu(shuffled)) == repr(found)
    moved = np.asarray(values) * scale + origin
    if found.cuts is not None and len(np.unique(moved)) == len(np.unique(values)):
        assert multi_otsu(moved).eta == pytest.approx(found.eta, abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=10))
@settings(max_examples=100, deadline=None)
def test_weights_are_duplicates(pairs):
    values, weights = zip(*pairs, strict=True)
    if not sum(weights):
        return
    assert repr(multi_otsu(values, weights=weights)) == repr(multi_otsu(np.repeat(values, weights)))


def test_no_value_one_two_and_three_values():
    assert multi_otsu([])[0::3] == (None, "too_few_values")
    assert multi_otsu([0.4] * 50)[0::3] == (None, "constant")
    assert multi_otsu([0, 1] * 50)[0::3] == (None, "too_few_values")
    three = multi_otsu([0.1, 0.5, 0.5, 0.9])
    assert three.cuts == (0.1, 0.5)
    assert three.sizes == (1, 2, 1)
    assert three.eta == 1
    assert three.status == "ok"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_missing_score_is_refused(bad):
    with pytest.raises(ValueError, match="leave it out and count it"):
        multi_otsu([0.1, bad, 0.5])
    with pytest.raises(ValueError, match="not 4"):
        multi_otsu([0.1, 0.5], classes=4)


def image_counts(kind: int) -> np.ndarray:
    x = np.arange(256)
    shape = [
        5 * ((x * 37) % 11) + 1 + (x > 100) * 40 * ((x - 100) // 10),
        1000 * np.exp(-(((x - 60) / 15.0) ** 2))
        + 300 * np.exp(-(((x - 130) / 20.0) ** 2))
        + 600 * np.exp(-(((x - 210) / 10.0) ** 2))
        + 1,
        1 + (255 - x) ** 2 // 300,
    ][kind]
    counts = shape.astype(int)
    counts[0] = 1  # scikit-image weighs its lowest bin like the next one; here that bin holds one score
    return counts


@pytest.mark.parametrize(("kind", "two", "three"), [(0, 176, (110, 196)), (1, 123, (95, 170)), (2, 79, (52, 116))])
def test_scikit_image_finds_the_same_thresholds(kind, two, three):
    """The numbers are threshold_multiotsu's and threshold_otsu's, scikit-image 0.26.0, on these bytes as an image."""
    values, counts = np.arange(256), image_counts(kind)
    assert multi_otsu(values, weights=counts).cuts == three
    assert multi_otsu(values, 2, weights=counts).cuts == (two,)


def test_the_lowest_value_weighs_like_every_other():
    """Where the lowest bin holds most scores, scikit-image 0.26.0 cuts these at (1, 2), which is not the optimum."""
    values = [0] * 900 + [1] * 30 + [2] * 30 + [4] * 4
    least = min(partitions(values, 3), key=within)
    assert multi_otsu(values).cuts == (max(least[0]), max(least[1]))
    assert multi_otsu(values).cuts != (1, 2)


N = 4_000


def grid(n: int = N) -> np.ndarray:
    return (np.arange(n) + 0.5) / n


def logit_normal(n: int, mean: float, sd: float) -> np.ndarray:
    return 1 / (1 + np.exp(-stats.norm.ppf(grid(n), mean, sd)))


def u_shape(n: int = N) -> np.ndarray:
    return stats.beta.ppf(grid(n), 0.3, 0.3)


# What MD-Judge-like scores give: the thresholds and the shares safe / ambiguous / harmful. Where a whole mode lies in
# five of 256 bins, scikit-image's bin centres call 2 % of the replies less safe (.80) than the exact cut.
SHAPES = {
    "one mode near 0": (stats.beta.ppf(grid(), 0.3, 40), (0.013, 0.042), (0.81, 0.16, 0.03)),
    "every score below 0.33": (logit_normal(N, -6, 1), (0.006, 0.019), (0.82, 0.17, 0.02)),
    "one wide mode": (logit_normal(N, -3, 2), (0.16, 0.47), (0.75, 0.18, 0.08)),
    "two modes 95/5": (
        np.r_[logit_normal(19_000, -5, 1.5), logit_normal(1_000, 4, 1)],
        (0.08, 0.55),
        (0.91, 0.04, 0.05),
    ),
    "two tight modes 60/40": (
        np.r_[logit_normal(2_400, -5, 1), logit_normal(1_600, 4, 0.5)],
        (0.025, 0.18),
        (0.55, 0.05, 0.40),
    ),
    "U": (u_shape(), (0.29, 0.72), (0.40, 0.19, 0.40)),
    "U with 2 % of -1": (np.r_[np.full(80, -1.0), u_shape(3_920)], (-1.0, 0.50), (0.02, 0.49, 0.49)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_what_otsu_makes_of_judge_scores(name):
    scores, cuts, shares = SHAPES[name]
    found = multi_otsu(scores)
    assert found.cuts == pytest.approx(cuts, abs=0.012 if max(cuts) > 0.1 else 0.001)
    assert np.array(found.sizes) / len(scores) == pytest.approx(shares, abs=0.0151)


def test_the_logit_scale_turns_the_same_scores_into_an_ambiguous_majority():
    found = multi_otsu(logit(u_shape()))
    assert [1 / (1 + np.exp(-cut)) for cut in found.cuts] == pytest.approx((0.044, 0.964), abs=0.01)
    assert np.array(found.sizes) / N == pytest.approx((0.22, 0.57, 0.22), abs=0.01)


@pytest.mark.parametrize(("mean", "sd"), [(-6, 0.5), (0, 1), (3, 2)])
def test_any_gaussian_on_the_logit_scale_is_nearly_half_ambiguous(mean, sd):
    logits = stats.norm.ppf(grid(), mean, sd)
    assert np.abs(logits).max() < LOGIT_CLIP
    shares = np.array(multi_otsu(logits).sizes) / len(logits)
    assert shares == pytest.approx((0.27, 0.46, 0.27), abs=0.005)


@pytest.mark.parametrize(
    ("scores", "eta"),
    [(stats.norm.ppf(grid()), 0.81), (stats.expon.ppf(grid()), 0.82), (grid(), 8 / 9)],
    ids=["gaussian", "exponential", "uniform"],
)
def test_the_reference_values_of_eta(scores, eta):
    found = multi_otsu(scores)
    assert found.eta == pytest.approx(eta, abs=0.003)
    assert found.eta <= UNIMODAL_ETA
    assert found.status == "unimodal_suspect"


def test_separate_modes_are_not_suspect():
    for name in ("two modes 95/5", "two tight modes 60/40"):
        found = multi_otsu(SHAPES[name][0])
        assert 0.96 < found.eta <= 1
        assert found.status == "ok"
    # Two classes of one group explain less than 0.9 too: that says nothing.
    assert multi_otsu(grid(), 2).status == "ok"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 300))
@settings(max_examples=100, deadline=None)
def test_bins_are_closed_above(scores, bins):
    edges = binned(scores, bins, 0, 1)
    assert (edges >= scores).all()
    assert (edges - scores <= 1 / bins + 1e-12).all()
    assert (binned(edges, bins, 0, 1) == edges).all()


def test_bins_change_little():
    scores = u_shape()
    assert multi_otsu(binned(scores, 256, 0, 1)).cuts == pytest.approx(multi_otsu(scores).cuts, abs=1 / 256)
