from __future__ import annotations

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS

from slmsafety.analysis.drivers.cluster_errors import difference_interval, jackknife_covariance, slope_p


def test_the_covariance_of_least_squares_is_that_of_real_refits():
    rng = np.random.default_rng(4)
    clusters = np.repeat(np.arange(12), rng.integers(1, 9, 12))
    x = np.column_stack([np.ones(len(clusters)), rng.normal(size=(len(clusters), 2)) * [1e-3, 1e4]])
    y = rng.normal(size=len(clusters)) + rng.normal(size=12)[clusters]
    fit = OLS(y, x).fit()
    refits = [OLS(y[clusters != one], x[clusters != one]).fit().params - fit.params for one in range(12)]
    expected = 11 / 12 * sum(np.outer(change, change) for change in refits)
    shuffled = rng.permutation(len(y))
    got = jackknife_covariance(x[shuffled], np.ones(len(y)), fit.resid[shuffled], clusters[shuffled])
    assert got == pytest.approx(expected, rel=1e-6)


def test_few_clusters_and_an_effect_of_one_cluster_have_none():
    rng = np.random.default_rng(4)
    clusters, y = np.repeat(np.arange(12), 4), rng.normal(size=48)
    x = np.column_stack([np.ones(48), rng.normal(size=48), clusters == 3]).astype(float)
    rest = OLS(y, x).fit().resid
    got = jackknife_covariance(x, np.ones(48), rest, clusters)
    assert np.isnan(got[2]).all() and np.isnan(got[:, 2]).all()
    # Without the cluster its effect is gone, and the others are those of a fit without it.
    others = [OLS(y[clusters != one], x[clusters != one][:, : 2 if one == 3 else 3]).fit().params for one in range(12)]
    changes = np.array([found[:2] for found in others]) - OLS(y, x).fit().params[:2]
    assert got[:2, :2] == pytest.approx(11 / 12 * changes.T @ changes, rel=1e-6)
    assert np.isnan(jackknife_covariance(x, np.ones(48), rest, clusters % 9)).all()


def test_a_slope_s_p_value_is_near_its_level_where_clusters_share_both_sides():
    """65 kinds with effects of their own on both sides and no slope: rows taken as independent reject in over half."""
    rng, found, naive = np.random.default_rng(3), [], []
    for _ in range(400):
        clusters = np.repeat(np.arange(65), np.maximum(1, rng.lognormal(1.5, 0.8, 65).astype(int)))
        x, y = (rng.normal(size=65)[clusters] + rng.normal(size=len(clusters)) for _ in range(2))
        found.append(slope_p(x, y, clusters) < 0.05)
        naive.append(OLS(y, np.column_stack([np.ones_like(x), x])).fit().pvalues[1] < 0.05)
    assert 0.02 <= np.mean(found) <= 0.08 and np.mean(naive) > 0.25


def test_a_slope_s_p_value_knows_no_unit_and_finds_a_slope():
    rng = np.random.default_rng(5)
    x, clusters = rng.normal(size=300), np.arange(300) % 40
    y = 0.3 * x + rng.normal(size=300)
    p = slope_p(x, y, clusters)
    assert p < 0.001 and slope_p(1e6 + 1e-3 * x, 5 - 40 * y, clusters) == pytest.approx(p, rel=1e-4)
    assert np.isnan(slope_p(x, y, clusters % 9))
    assert np.isnan(slope_p((clusters == 3).astype(float), y, clusters)), "one cluster alone has another x"


FAMILIES = np.repeat(np.arange(15), [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 4, 5])


@pytest.mark.parametrize("tuned", [2, 3, 5, 10])
def test_a_difference_of_families_is_covered_where_few_are_tuned(tuned):
    rng, held = np.random.default_rng(tuned), []
    for _ in range(400):
        on = np.isin(FAMILIES, rng.choice(15, tuned, replace=False))
        values = rng.normal(0, 0.2, 15)[FAMILIES] + rng.normal(0, 0.1, len(FAMILIES)) + 0.3 * on
        low, high = difference_interval(values, on, FAMILIES)
        held.append(low < 0.3 < high)
    assert np.mean(held) >= 0.92, "of .93; families resampled covered .75 to .89"


def test_families_of_one_model_have_welch_s_interval():
    """With clusters of one row CR2 is the error of two means, and its degrees of freedom do not look at the values."""
    rng = np.random.default_rng(1)
    values, on = rng.normal(size=20), np.arange(20) < 10
    low, high = difference_interval(values, on, np.arange(20))
    error = np.sqrt(values[on].var(ddof=1) / 10 + values[~on].var(ddof=1) / 10)
    # t with 18 degrees of freedom: two sides of ten equally sure
    assert (high - low) / 2 == pytest.approx(2.100922 * error, rel=1e-5)
    assert (high + low) / 2 == pytest.approx(values[on].mean() - values[~on].mean())


def test_a_side_of_one_family_and_few_families_have_no_interval():
    values = np.random.default_rng(1).normal(size=27)
    assert np.isnan(difference_interval(values, FAMILIES == 14, FAMILIES)).all()
    assert not np.isnan(difference_interval(values, FAMILIES > 12, FAMILIES)).any()
    assert np.isnan(difference_interval(values, FAMILIES % 2, FAMILIES % 9)).all()
