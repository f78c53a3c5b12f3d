from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analysis_frames import quick
from hypothesis import assume, given
from hypothesis import strategies as st
from reply_tables import labels_of, tables
from scipy.stats import rankdata
from statsmodels.stats.multitest import multipletests

from slmsafety.analysis.drivers.associations import (
    benjamini_hochberg,
    correlations,
    correlations_by_suite,
    metric_points,
    prompt_ambiguity,
    prompt_means,
)
from slmsafety.analysis.drivers.metric_rows import reply_rows

probability = st.one_of(st.floats(0, 1), st.just(np.nan))
value = st.integers(-50, 50)


def test_prompt_ambiguity_by_hand():
    got = prompt_ambiguity(
        labels_of({"a": [1, 1, 0, 2], "b": [1, 2, None, None], "c": [1, None, None, None], "d": [None] * 4})
    )
    assert got["instance_id"].tolist() == list("abcd")
    assert got["models"].tolist() == [4, 2, 1, 0]
    # Half of the four models is enough.
    assert got["defined"].tolist() == [True, True, False, False]
    assert got["ar"].tolist() == pytest.approx([0.5, 0.5, np.nan, np.nan], nan_ok=True)
    assert got["ar"].dtype == "float64"


def test_half_of_an_odd_number_of_models_is_rounded_up():
    got = prompt_ambiguity(labels_of({"a": [1, None, None], "b": [1, 1, None]}))
    assert got["defined"].tolist() == [False, True]


def test_prompt_ambiguity_counts_models_by_suite_and_leaves_controls_out():
    small = labels_of({"a": [1]}, "small")
    control = labels_of({"x": [1, 1, 1]}, "small", "answer")
    got = prompt_ambiguity(pd.concat([small, control, labels_of({"a": [0, None, None]}, "large")], ignore_index=True))
    assert got[["suite", "instance_id", "models", "defined"]].to_numpy().tolist() == [
        ["large", "a", 1, False],
        ["small", "a", 1, True],
    ]
    assert got["ar"].tolist() == pytest.approx([np.nan, 1], nan_ok=True)


@quick
@given(
    st.lists(st.lists(st.sampled_from([0, 1, 2, None]), min_size=5, max_size=5), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
)
def test_prompt_ambiguity_is_the_share_of_labels(table, random):
    frame = labels_of({f"p{number}": found for number, found in enumerate(table)})
    rows = list(range(len(frame)))
    random.shuffle(rows)
    for line, found in zip(prompt_ambiguity(frame.iloc[rows]).itertuples(), table, strict=True):
        known = [label for label in found if label is not None]
        assert line.ar == pytest.approx(known.count(1) / len(known) if len(known) > 2 else np.nan, nan_ok=True)


def test_prompt_ambiguity_of_nothing_and_of_float_labels():
    frame = labels_of({"a": [1, 0]})
    assert list(prompt_ambiguity(frame.iloc[:0]).columns) == ["suite", "instance_id", "ar", "models", "defined"]
    assert prompt_ambiguity(frame.astype({"label": "float64"}))["ar"].tolist() == [0.5]


def test_reply_metrics_are_averaged_over_the_models_of_a_prompt_and_nan_is_left_out():
    means = prompt_means(reply_rows(*tables())).set_index("instance_id")
    assert means["ar"].to_dict() == {"a": 0.5, "b": 0.0}
    assert means["reply tokens"].to_dict() == {"a": 3.5, "b": 6.0}, "a reply without a label is a reply of the prompt"
    assert means["reply similarity"].to_dict() == pytest.approx({"a": 0.1, "b": np.nan}, nan_ok=True)
    assert means["prompt tokens"].to_dict() == pytest.approx({"a": 3, "b": np.nan}, nan_ok=True)
    assert means[["suite", "category", "subcategory"]].to_numpy().tolist() == [["s", "c", "d"]] * 2
    assert means["group"].nunique() == means["kind"].nunique() == 2, "a prompt without a group is one of its own"


def test_metric_points_are_one_row_a_prompt_and_metric():
    points = metric_points(prompt_means(reply_rows(*tables())))
    assert len(points) == 6
    assert points.set_index(["metric", "instance_id"]).loc[("reply tokens", "b"), ["ar", "value"]].tolist() == [0, 6]


def test_rows_means_and_points_of_nothing():
    nothing = prompt_means(reply_rows(*(table.iloc[:0] for table in tables())))
    assert nothing.empty and metric_points(nothing).empty


def test_correlations_by_suite_count_the_replies_that_a_mean_leaves_out():
    labels, prompts, replies = tables()
    both = [pd.concat([table, table.assign(suite="t")], ignore_index=True) for table in (labels, prompts, replies)]
    rows = reply_rows(*both)
    got = correlations_by_suite(metric_points(prompt_means(rows)), rows).set_index(["suite", "metric"])
    assert list(got.index.levels[0]) == ["all", "s", "t"]
    assert got["left_out"].to_dict() == {
        (suite, metric): times * count
        for suite, times in (("all", 2), ("s", 1), ("t", 1))
        for metric, count in (("prompt tokens", 2), ("reply tokens", 0), ("reply similarity", 3))
    }
    assert got["replies"].groupby("suite").first().to_dict() == {"all": 8, "s": 4, "t": 4}
    assert got.loc[("all", "reply tokens"), "n"] == 4 and got.loc[("all", "reply similarity"), "missing"] == 2


@quick
@given(st.lists(st.tuples(value, value), min_size=3, max_size=30))
def test_spearman_is_pearson_of_ranks(pairs):
    first, second = np.array(pairs, float).T
    assume(np.ptp(first) > 0 and np.ptp(second) > 0)
    got = correlations(pd.DataFrame({"metric": "x", "value": first, "ar": second})).iloc[0]
    assert got["rho"] == pytest.approx(np.corrcoef(rankdata(first), rankdata(second))[0, 1], abs=1e-9)


@quick
@given(st.lists(st.tuples(value, value), min_size=3, max_size=30))
def test_correlations_equal_numpy(pairs):
    first, second = np.array(pairs, float).T
    assume(np.ptp(first) > 0 and np.ptp(second) > 0)
    got = correlations(pd.DataFrame({"metric": "x", "value": first, "ar": second})).iloc[0]
    assert got["n"] == len(pairs) and got["missing"] == 0
    assert got["r"] == pytest.approx(np.corrcoef(first, second)[0, 1], abs=1e-9)
    assert [got["slope"], got["intercept"]] == pytest.approx(np.polyfit(first, second, 1).tolist(), abs=1e-6)
    assert got["q"] == got["p"], "one test needs no correction"


def test_correlation_p_value_by_hand():
    got = correlations(pd.DataFrame({"metric": "x", "value": [1, 2, 3, 4], "ar": [1, 3, 2, 4]})).iloc[0]
    # r = .8 with n = 4: two-sided p = 1 - r exactly, as t with 2 degrees of freedom gives
    assert (got["r"], got["p"]) == pytest.approx((0.8, 0.2))


def test_metrics_without_a_correlation_have_nan_and_do_not_count_as_tests():
    target = [0.1, 0.4, 0.2, 0.3]
    columns = {
        "constant": [1, 1, 1, 1],
        "noise": [0.3, 0.1 + 0.2, 0.3, 0.3],
        "short": [1, 2, np.nan, np.nan],
        "empty": [np.nan] * 4,
        "up": [1, 4, 2, 5],
        "down": [4, 1, 3, np.nan],
    }
    points = pd.concat(
        [pd.DataFrame({"metric": name, "value": found, "ar": target}) for name, found in columns.items()]
    )
    got = correlations(points)
    assert got["metric"].tolist()[:2] == ["up", "down"], "largest r first, nan last"
    lines = got.set_index("metric")
    assert (
        lines.loc[["constant", "noise", "short", "empty"], ["r", "p", "slope", "intercept", "q", "rho", "q_rho"]]
        .isna()
        .all(axis=None)
    )
    assert lines["n"].to_dict() == {"constant": 4, "noise": 4, "short": 2, "empty": 0, "up": 4, "down": 3}
    assert lines["missing"].to_dict() == {"constant": 0, "noise": 0, "short": 2, "empty": 4, "up": 0, "down": 1}
    tests = lines.loc[["up", "down"]]
    assert tests["q"].tolist() == pytest.approx(multipletests(tests["p"], method="fdr_bh")[1].tolist())


def test_a_constant_target_and_another_target():
    points = pd.DataFrame({"metric": "x", "value": [1, 2, 3], "ar": [0.5] * 3, "mean": [1, 2, 3]})
    for target in ([0.5] * 3, [0.3, 0.1 + 0.2, 0.3]):
        assert correlations(points.assign(ar=target))[["r", "p", "slope", "q"]].isna().all(axis=None)
    assert correlations(points, "mean")["r"].item() == pytest.approx(1)
    assert list(correlations(points.iloc[:0]).columns) == list(correlations(points).columns)


@quick
@given(st.lists(probability, max_size=20))
def test_benjamini_hochberg_equals_statsmodels(found):
    p = pd.Series(found, index=[f"t{number}" for number in range(len(found))], dtype=float)
    q = benjamini_hochberg(p)
    assert q.index.equals(p.index)
    assert q.isna().tolist() == p.isna().tolist()
    if p.notna().any():
        assert q.dropna().tolist() == pytest.approx(multipletests(p.dropna(), method="fdr_bh")[1].tolist())


def kinds_of_prompts(rng: np.random.Generator, kinds: int = 65) -> pd.DataFrame:
    """Points of two metrics without effect: kinds have levels of their own in the metrics and in the rate."""
    kind = np.repeat(np.arange(kinds), np.maximum(1, rng.lognormal(1.5, 0.8, kinds).astype(int)))
    ar, one, two = (rng.normal(size=kinds)[kind] + rng.normal(size=len(kind)) for _ in range(3))
    parts = [pd.DataFrame({"metric": name, "value": x, "ar": ar, "kind": kind}) for name, x in (("a", one), ("b", two))]
    return pd.concat(parts, ignore_index=True)


def test_other_kinds_of_prompts_reject_as_often_as_they_should():
    """The paper's p takes prompts as independent, and rejects in over a quarter of the draws where there is nothing."""
    rng = np.random.default_rng(11)
    found = pd.concat([correlations(kinds_of_prompts(rng)) for _ in range(200)])
    assert (found["p_kinds"] < 0.05).mean() <= 0.08 and (found["p"] < 0.05).mean() > 0.25
    assert found["kinds"].eq(65).all()


def test_the_q_of_kinds_is_over_the_metrics_and_needs_ten_of_them():
    points = kinds_of_prompts(np.random.default_rng(2))
    got = correlations(points)
    assert got["q_kinds"].tolist() == pytest.approx(multipletests(got["p_kinds"], method="fdr_bh")[1].tolist())
    few = correlations(points.assign(kind=points["kind"] % 9))
    assert few["kinds"].tolist() == [9, 9] and few[["p_kinds", "q_kinds"]].isna().all(axis=None)
    assert few["q"].tolist() == got["q"].tolist()
    none = correlations(points.drop(columns="kind"))
    assert none["p_kinds"].isna().all() and none["q"].tolist() == got["q"].tolist()
