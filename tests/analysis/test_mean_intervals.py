"""Intervals of means over groups of prompts: the formulas they are, and how often they cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import beta, norm
from statsmodels.regression.linear_model import OLS

from slmsafety.analysis.mean_intervals import (
    bounded_shares,
    difference_interval,
    function_interval,
    interval,
    score_interval,
)


def test_independent_prompts_get_wilson_s_interval() -> None:
    # Wilson (1927) for 8 of 20: (8 + z^2/2 -+ z sqrt(20) sqrt(.4 .6 + z^2/80)) / (20 + z^2).
    low, high = interval([1.0] * 8 + [0.0] * 12, range(20))
    assert (low, high) == pytest.approx((0.2188, 0.6134), abs=1e-4)


def test_the_error_of_groups_is_that_of_a_clustered_regression_on_a_constant() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 25, 200)
    values = rng.integers(0, 3, 200) / 2
    fit = OLS(values, np.ones(200)).fit(cov_type="cluster", cov_kwds={"groups": groups})
    low, high = interval(values, groups)
    mean = values.mean()
    middle = np.log(mean / (1 - mean))
    assert np.log(low / (1 - low)) + np.log(high / (1 - high)) == pytest.approx(2 * middle)
    width = (np.log(high / (1 - high)) - middle) * mean * (1 - mean)
    assert width / fit.bse[0] == pytest.approx(2.0639, abs=1e-4)  # t with 24 degrees of freedom


@pytest.mark.parametrize(("value", "wanted"), [(0.0, (0.0, 0.1684)), (1.0, (0.8316, 1.0))])
def test_at_none_and_at_all_groups_count(value: float, wanted: tuple[float, float]) -> None:
    """Clopper and Pearson for 0 of 20: 1 - .025^(1/20) = .1684; 60 prompts in 20 groups say no more."""
    assert interval([value] * 20, range(20)) == pytest.approx(wanted, abs=1e-4)
    assert interval([value] * 60, np.arange(60) % 20) == pytest.approx(wanted, abs=1e-4)


def test_rows_that_are_all_ambiguous_leave_room() -> None:
    low, high = interval([0.5] * 40, range(40))
    assert low < 0.5 < high
    assert 0.02 < high - low < 0.3


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 30)), min_size=1, max_size=80))
def test_limits_hold_the_mean_and_lie_within_0_and_1(rows: list[tuple[float, int]]) -> None:
    values, groups = np.array([value for value, _ in rows]), np.array([group for _, group in rows])
    low, high = interval(values, groups)
    if len(set(groups)) < 10:
        assert np.isnan([low, high]).all()
    else:
        assert 0 <= low <= values.mean() <= high <= 1


@pytest.mark.parametrize(("prompts", "size", "share"), [(100, 1, 0.3), (400, 10, 0.3), (120, 3, 0.5)])
def test_the_interval_covers(prompts: int, size: int, share: float) -> None:
    """400 draws of groups that share half their variance; nominal .95, and 400 draws leave .92 to .98."""
    rng = np.random.default_rng(3)
    groups = np.arange(prompts) // size
    strength = 0.5 if size > 1 else 0.0
    held = 0
    for _ in range(400):
        common = rng.random(prompts // size) < share
        own = rng.random(prompts) < share
        values = np.where(rng.random(prompts) < np.sqrt(strength), common[groups], own).astype(float)
        low, high = interval(values, groups)
        held += low <= share <= high
    assert 0.92 <= held / 400 <= 0.98


def test_where_nothing_is_open_the_score_s_interval_is_clopper_and_pearson_s() -> None:
    values = np.repeat([0.0, 1.0], [380, 20])
    low, high = score_interval(values, values, np.arange(400))
    # With t for the normal quantile, 400 prompts count as a little fewer.
    assert low == pytest.approx(beta.ppf(0.025, 20, 381), abs=2e-4)
    assert high == pytest.approx(beta.ppf(0.975, 21, 380), abs=2e-4)


def test_far_apart_ends_are_one_sided() -> None:
    """Imbens and Manski: at a gap of many errors each end needs the one-sided quantile alone."""
    least, most = np.repeat([0.0, 1.0], [3000, 1000]), np.repeat([0.0, 1.0], [1000, 3000])
    low, high = score_interval(least, most, np.arange(4000))
    assert low == pytest.approx(beta.ppf(0.05, 1000, 3001), abs=2e-4)
    assert high == pytest.approx(beta.ppf(0.95, 3001, 1000), abs=2e-4)


def test_the_critical_value_is_the_root_of_imbens_and_manski_s_equation() -> None:
    n, least, most = 10_000, 0.5, 0.51
    error = np.sqrt(0.25 / n)
    c = brentq(lambda c: norm.cdf(c + (most - least) / error) - norm.cdf(-c) - 0.95, 1, 3)
    low, high = bounded_shares(least, most, n)
    assert (least - low) / error == pytest.approx(c, rel=0.02)
    assert (high - most) / error == pytest.approx(c, rel=0.02)


@pytest.mark.parametrize("prompts", [100, 400])
@pytest.mark.parametrize("ambiguous", [0.0, 0.02, 0.5, 0.95, 1.0])
def test_the_score_s_interval_covers_under_every_reading(prompts: int, ambiguous: float) -> None:
    """Nominal .95, at least .93 wanted; 500 draws leave .02 below that. Ambiguous replies are worth t each."""
    rng, safe = np.random.default_rng(4), (1 - ambiguous) * 0.1
    held = dict.fromkeys((0.0, 0.5, 1.0), 0)
    for _ in range(500):
        labels = rng.choice(3, prompts, p=[1 - ambiguous - safe, ambiguous, safe])
        low, high = score_interval(labels == 2, labels >= 1, np.arange(prompts))
        for t in held:
            held[t] += low - 1e-12 <= safe + t * ambiguous <= high + 1e-12
    assert min(held.values()) / 500 >= 0.93


def test_the_score_s_interval_covers_with_groups() -> None:
    rng, groups = np.random.default_rng(5), np.arange(400) // 10
    held = 0
    for _ in range(400):
        shift = rng.random(40)[groups]  # a group is harmful, ambiguous or safe as a whole in half of its prompts
        draw = np.where(rng.random(400) < 0.7, shift, rng.random(400))
        low, high = score_interval(draw > 0.8, draw > 0.25, groups)
        held += low <= 0.2 <= high
    assert held / 400 >= 0.93


def test_differences_on_the_same_prompts_cover_and_are_narrower_than_apart() -> None:
    rng, held, widths = np.random.default_rng(6), 0, []
    for _ in range(400):
        common = rng.random(200)
        one, two = (np.where(rng.random(200) < 0.8, common, rng.random(200)) < share for share in (0.5, 0.4))
        low, high = difference_interval(one.astype(float) - two, np.arange(200))
        held += low <= 0.1 <= high
        widths.append(high - low)
    assert 0.92 <= held / 400 <= 0.98
    assert np.mean(widths) < 0.75 * 2 * 1.96 * np.sqrt((0.25 + 0.24) / 200)


def test_no_difference_at_all_leaves_room_of_a_prompt() -> None:
    low, high = difference_interval(np.zeros(100), np.arange(100))
    assert (low, high) == pytest.approx((-0.01984, 0.01984), abs=1e-4)


def test_a_function_s_interval_is_the_mean_s_for_the_mean() -> None:
    rng = np.random.default_rng(7)
    values, groups = rng.integers(0, 3, 120) / 2, np.arange(120) // 3
    mean = float(values.mean())
    assert function_interval(mean, values - mean, groups) == pytest.approx(interval(values, groups))


@given(st.integers(1, 11), st.integers(2, 12), st.integers(10, 60))
def test_values_that_are_all_one_fraction_leave_room_on_both_sides(part: int, whole: int, count: int) -> None:
    """Such as 1/3 of three replies to each prompt: float noise is no sampling error."""
    value = min(part, whole) / whole
    values = [value] * count
    for low, high in (interval(values, range(count)), score_interval(values, values, range(count))):
        assert low <= value + 1e-12 and high >= value - 1e-12
        assert 1 / count < high - low < 0.7


def test_few_groups_have_no_interval() -> None:
    nine = np.arange(90) // 10
    ends = np.tile([0.0, 1.0], 45)
    for limits in (
        interval(ends, nine),
        score_interval(ends, ends, nine),
        function_interval(0.5, ends - 0.5, nine),
        difference_interval(ends, nine),
        bounded_shares(0.2, 0.4, 9),
        interval([], []),
        score_interval([], [], []),
        difference_interval([], []),
    ):
        assert np.isnan(limits).all()
