from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analysis_frames import quick
from hypothesis import given
from hypothesis import strategies as st
from reply_tables import planted_rows
from scipy.stats import norm
from statsmodels.regression.linear_model import OLS

from slmsafety.analysis.drivers.association_checks import (
    association_checks,
    clustered_intervals,
    partial_correlations,
    simpson_check,
)
from slmsafety.analysis.drivers.associations import prompt_means

KEYS = {"instance_id": "p", "category": "c", "subcategory": "d"}


def test_simpsons_paradox_is_told():
    # Within each suite a line downwards, and the second suite lies higher on both axes.
    one, two = ([1, 2, 3], [0.3, 0.2, 0.1]), ([11, 12, 13], [0.9, 0.8, 0.7])
    points = pd.concat(
        [
            pd.DataFrame({"suite": suite, "metric": "x", "value": value, "ar": ar})
            for suite, (value, ar) in (("s", one), ("t", two))
        ]
    )
    got = simpson_check(points).iloc[0]
    assert got["r"] > 0.9 and got["within"] == pytest.approx(-1)
    assert got[["lowest", "highest"]].tolist() == pytest.approx([-1, -1])
    assert (got["suites"], got["opposite"], got["turned"]) == (2, 2, True)


def test_suites_that_agree_do_not_turn_and_float_noise_is_no_slope():
    points = pd.DataFrame(
        {
            "suite": ["s", "s", "s", "t", "t", "t"],
            "metric": "x",
            "value": [1, 2, 3, 0.3, 0.1 + 0.2, 0.3],
            "ar": [0.1, 0.2, 0.3, 0.4, 0.1, 0.2],
        }
    )
    got = simpson_check(points).iloc[0]
    assert got["within"] == pytest.approx(np.corrcoef([-1, 0, 1, 0, 0, 0], [-1, 0, 1, 5 / 3, -4 / 3, -1 / 3])[0, 1])
    assert got["suites"] == 1 and got["opposite"] == (1 if got["r"] < 0 else 0)
    empty = simpson_check(points.assign(value=np.nan)).iloc[0]
    assert np.isnan(empty["r"]) and empty["suites"] == 0 and not empty["turned"]


def test_a_metric_that_only_suites_tell_apart_has_no_correlation_within_them():
    points = pd.DataFrame(
        {
            "suite": ["s", "s", "s", "t", "t", "t"],
            "metric": "x",
            "value": [0.3, 0.1 + 0.2, 0.3, 0.7, 0.7, 0.1 * 7],
            "ar": [0.1, 0.3, 0.2, 0.8, 0.6, 0.7],
        }
    )
    got = simpson_check(points).iloc[0]
    assert got["r"] > 0.9 and np.isnan(got["within"]) and not got["turned"] and got["suites"] == 0


def means_of(values: np.ndarray) -> pd.DataFrame:
    names = ["ar", "prompt tokens", "reply tokens", "reply density"]
    return pd.DataFrame(values, columns=names).assign(suite="s", **KEYS)


@quick
@given(st.integers(6, 40), st.integers(0, 10**6))
def test_partial_correlations_equal_the_inverse_of_the_correlation_matrix(n, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 4)) @ rng.normal(size=(4, 4)) + 1000
    got = partial_correlations(means_of(values)).set_index("metric")
    inverse = np.linalg.inv(np.corrcoef(values.T))
    expected = -inverse[0, 3] / np.sqrt(inverse[0, 0] * inverse[3, 3])
    assert got.loc["reply density", "partial"] == pytest.approx(expected, abs=1e-6)
    # The p value is that of the metric in a regression on it and the lengths.
    fit = OLS(values[:, 0], np.column_stack([np.ones(n), values[:, 1:]])).fit()
    assert got.loc["reply density", "p"] == pytest.approx(fit.pvalues[3], rel=1e-4, abs=1e-9)


def test_a_length_is_given_the_other_length_only():
    values = np.random.default_rng(1).normal(size=(30, 4))
    got = partial_correlations(means_of(values)).set_index("metric")["partial"]
    a, x, other = values[:, 0], values[:, 1], values[:, 2]
    r = np.corrcoef([a, x, other])
    by_hand = (r[0, 1] - r[0, 2] * r[1, 2]) / np.sqrt((1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2))
    assert got["prompt tokens"] == pytest.approx(by_hand)


def test_partial_correlations_that_are_undefined():
    values = np.random.default_rng(1).normal(size=(30, 4))
    twice = means_of(values).assign(**{"reply density": values[:, 1] * 2 + 1})
    assert np.isnan(partial_correlations(twice).set_index("metric").loc["reply density", "partial"])
    assert partial_correlations(means_of(values[:4]))["partial"].notna().sum() == 2, "the lengths have one control"
    flat = means_of(values).assign(**{"reply tokens": 3.0, "reply density": 1.0})
    got = partial_correlations(flat).set_index("metric")["partial"]
    assert got["prompt tokens"] == pytest.approx(np.corrcoef(values[:, 0], values[:, 1])[0, 1])
    assert got[["reply tokens", "reply density"]].isna().all()


def test_the_interval_is_that_of_rows_repeated_as_often_as_their_cluster_is_drawn():
    rng = np.random.default_rng(5)
    x, cluster = rng.normal(size=90), np.arange(90) % 15
    means = pd.DataFrame({"ar": x * 0.1 + 0.4 + rng.normal(size=90) * 0.1, "reply density": x + 50}).assign(**KEYS)
    got = clustered_intervals(means, pd.Series(cluster), np.random.default_rng(2), resamples=200).iloc[0]
    draws = np.random.default_rng(2).multinomial(15, np.full(15, 1 / 15), size=200)
    r = [
        np.corrcoef(np.repeat(means[["reply density", "ar"]].to_numpy(), draw[cluster], axis=0).T)[0, 1]
        for draw in draws
    ]
    # As far out as t with 14 degrees of freedom (2.144787), since the draws vary by 14/15 of what clusters do.
    tail = norm.sf(2.144787 * np.sqrt(15 / 14))
    assert [got["low"], got["high"]] == pytest.approx(np.quantile(r, [tail, 1 - tail]).tolist())
    assert got["clusters"] == 15


def test_clusters_that_go_together_widen_the_interval():
    rng = np.random.default_rng(6)
    cluster = np.repeat(np.arange(20), 30)
    shared = rng.normal(size=(20, 2))[cluster]
    means = pd.DataFrame(
        {"ar": shared[:, 0] + 0.1 * rng.normal(size=600), "reply density": shared[:, 1] + 0.1 * rng.normal(size=600)}
    )
    widths = []
    for groups in (cluster, np.arange(600)):
        one = clustered_intervals(means, pd.Series(groups), np.random.default_rng(2)).iloc[0]
        widths.append(one["high"] - one["low"])
    assert widths[0] > 3 * widths[1]


def test_few_clusters_and_constants_have_no_interval():
    means = pd.DataFrame({"ar": np.linspace(0, 1, 20), "reply density": np.arange(20.0)})
    few = clustered_intervals(means, pd.Series(np.arange(20) % 9), np.random.default_rng(0)).iloc[0]
    assert few["clusters"] == 9 and np.isnan(few["low"])
    flat = clustered_intervals(means.assign(ar=0.5), pd.Series(np.arange(20)), np.random.default_rng(0)).iloc[0]
    assert np.isnan(flat[["low", "high"]].astype(float)).all()
    unnamed = clustered_intervals(means, pd.Series([None, *range(19)]), np.random.default_rng(0)).iloc[0]
    assert unnamed["clusters"] == 20, "prompts without a category are a cluster"


def test_all_checks_stand_beside_each_other():
    means = prompt_means(planted_rows())
    got = association_checks(means, np.random.default_rng(0))
    assert got["r"].is_monotonic_decreasing and len(got) == 4
    density = got.set_index("metric").loc["reply lexical_density"]
    assert density["low"] < density["r"] < density["high"] and density["low"] > 0
    assert density["partial"] == pytest.approx(density["r"], abs=0.1), "length was planted without effect"
    again = association_checks(means, np.random.default_rng(0))
    pd.testing.assert_frame_equal(got, again)


def test_a_cluster_is_one_kind_of_prompts():
    means = prompt_means(planted_rows(240))
    clusters = association_checks(means.assign(kind=np.arange(240) % 17), np.random.default_rng(0))["clusters"]
    assert clusters.tolist() == [17] * 4
    few = association_checks(means.assign(kind=np.arange(240) % 9), np.random.default_rng(0))
    assert few[["low", "high"]].isna().all(axis=None) and few["r"].notna().all()
