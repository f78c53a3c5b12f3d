from __future__ import annotations

import numpy as np
import pytest
from analysis_frames import quick
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.analysis.resampling import cluster_sums, percentile_interval, resampled_totals, widened

ROWS = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(-9, 9)), min_size=1, max_size=40)


@quick
@given(ROWS)
def test_the_sums_of_clusters_are_those_of_counting(rows):
    clusters, values = zip(*rows, strict=True)
    got = cluster_sums(np.column_stack([np.ones(len(rows)), values]), clusters)
    expected = [
        (clusters.count(name), sum(value for other, value in rows if other == name)) for name in dict.fromkeys(clusters)
    ]
    assert got.tolist() == [list(map(float, pair)) for pair in expected]


@quick
@given(ROWS, st.integers(0, 99))
def test_every_draw_takes_whole_clusters_as_many_as_there_are(rows, seed):
    clusters, values = zip(*rows, strict=True)
    sums = cluster_sums(np.column_stack([np.ones(len(rows)), values]), clusters)
    if len(sums) < 2:
        return
    totals = resampled_totals(sums, np.random.default_rng(seed), resamples=20)
    draws = np.random.default_rng(seed).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=20)
    for total, draw in zip(totals, draws, strict=True):
        assert draw.sum() == len(sums)
        assert total.tolist() == np.repeat(sums, draw, axis=0).sum(axis=0).tolist()


def test_the_interval_of_a_mean_is_that_of_theory():
    values = np.random.default_rng(0).normal(size=400)
    sums = cluster_sums(np.column_stack([np.ones(400), values]), np.arange(400))
    n, total = resampled_totals(sums, np.random.default_rng(1), resamples=4000).T
    half = 1.96 * values.std() / 20
    expected = (values.mean() - half, values.mean() + half)
    assert percentile_interval(total / n) == pytest.approx(expected, abs=0.01)


def test_too_few_clusters_have_no_interval_and_use_no_random_number():
    rng = np.random.default_rng(0)
    assert np.isnan(resampled_totals(np.ones((1, 2)), rng, resamples=3)).all()
    assert np.isnan(resampled_totals(np.ones((9, 2)), rng, fewest=10)).all()
    assert rng.integers(1000) == np.random.default_rng(0).integers(1000)
    assert np.isnan(percentile_interval(np.full(5, np.nan))).all()


def test_undefined_draws_are_left_out_of_their_own_statistic_only():
    draws = np.column_stack([np.arange(101.0), np.full(101, np.nan), np.arange(101.0)])
    draws[:50, 2] = np.nan
    low, high = percentile_interval(draws, confidence=0.9)
    np.testing.assert_allclose(low, [5, np.nan, 52.5])
    np.testing.assert_allclose(high, [95, np.nan, 97.5])


def test_a_missing_name_is_a_cluster_of_its_own():
    assert cluster_sums(np.ones((4, 1)), ["a", None, "a", None]).tolist() == [[2], [2]]


def test_a_widened_interval_of_a_mean_is_student_s():
    """Of a mean of 12 values the limits lie where t with 11 degrees of freedom (2.200985) has them."""
    values = np.random.default_rng(3).normal(size=12)
    sums = np.column_stack([np.ones(12), values])
    draws = resampled_totals(sums, np.random.default_rng(0), 40_000)
    low, high = percentile_interval(draws[:, 1] / draws[:, 0], widened(12))
    assert (high - low) / 2 == pytest.approx(2.200985 * values.std(ddof=1) / np.sqrt(12), rel=0.04)
    plain = np.subtract(*percentile_interval(draws[:, 1] / draws[:, 0])[::-1])
    assert plain / (high - low) < 0.87
    assert widened(2000) == pytest.approx(0.95, abs=0.001) and widened(1) == 1
