from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analysis_frames import quick
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from slmsafety.analysis.associations import adjusted_p, correlations, metric_points, prompt_ambiguity

probability = st.one_of(st.floats(0, 1), st.just(np.nan))
value = st.integers(-50, 50)


def labels_of(table: dict[str, list[int | None]], suite: str = "s", expected: str = "refuse") -> pd.DataFrame:
    """One row for each prompt (key) and model (place in the list)."""
    rows = [
        (suite, prompt, f"m{number}", expected, label)
        for prompt, found in table.items()
        for number, label in enumerate(found)
    ]
    return pd.DataFrame(rows, columns=["suite", "instance_id", "model", "expected", "label"]).astype({"label": "Int64"})


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


def metrics() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    ambiguity = prompt_ambiguity(labels_of({"a": [1, 0], "b": [0, 0]}))
    prompts = pd.DataFrame(
        {"suite": "s", "instance_id": ["a", "b", "other"], "tokens": pd.array([3, None, 9], "Int64")}
    )
    replies = pd.DataFrame(
        [
            ("s", "a", "m0", "g", 3, 0.1),
            ("s", "a", "m1", "g", 4, np.nan),
            ("s", "b", "m0", "g", 5, np.nan),
            ("s", "b", "m1", "g", None, np.nan),
        ],
        columns=["suite", "instance_id", "model", "generation_id", "tokens", "similarity"],
    ).astype({"tokens": "Int64"})
    return ambiguity, prompts, replies


def test_metric_points_are_prompt_metrics_and_means_over_replies():
    got = metric_points(*metrics()).set_index(["metric", "instance_id"])
    assert sorted(got.index.get_level_values("metric").unique()) == [
        "prompt tokens",
        "reply similarity",
        "reply tokens",
    ]
    assert len(got) == 6, "a prompt without labels has no point"
    expected = {
        ("prompt tokens", "a"): 3,
        ("prompt tokens", "b"): np.nan,
        ("reply tokens", "a"): 3.5,
        ("reply tokens", "b"): 5,
        ("reply similarity", "a"): 0.1,
        ("reply similarity", "b"): np.nan,
    }
    assert got["value"].to_dict() == pytest.approx(expected, nan_ok=True)
    assert got.loc["prompt tokens", "ar"].to_dict() == {"a": 0.5, "b": 0}


def test_metric_points_of_nothing():
    assert metric_points(*(table.iloc[:0] for table in metrics())).empty


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
        lines.loc[["constant", "noise", "short", "empty"], ["r", "p", "slope", "intercept", "q"]].isna().all(axis=None)
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
def test_adjusted_p_equals_statsmodels(found):
    p = pd.Series(found, index=[f"t{number}" for number in range(len(found))], dtype=float)
    q = adjusted_p(p)
    assert q.index.equals(p.index)
    assert q.isna().tolist() == p.isna().tolist()
    if p.notna().any():
        assert q.dropna().tolist() == pytest.approx(multipletests(p.dropna(), method="fdr_bh")[1].tolist())
