"""Intervals of rates: the formulas they are, the unit they take, and how often they cover."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.regression.linear_model import OLS

from slmsafety.analysis.outcomes import RATES, outcomes
from slmsafety.analysis.rate_intervals import interval, rate_intervals


def _labels(labels: list[int | None], groups: list[str] | None = None) -> pd.DataFrame:
    frame = pd.DataFrame({"label": pd.array(labels, "Int64")})
    frame["instance_id"] = [f"p{number}" for number in range(len(frame))]
    return frame.assign(suite="s", model="m", expected="refuse", status="ok", group=groups or frame["instance_id"])


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


def test_rates_are_those_of_the_outcomes() -> None:
    rng = np.random.default_rng(1)
    labels = _labels(
        [None if draw > 2 else int(draw) for draw in rng.integers(0, 4, 90)], [f"g{n // 3}" for n in range(90)]
    )
    several = pd.concat([labels, labels.assign(label=pd.array(rng.integers(0, 3, 90), "Int64"))], ignore_index=True)
    benign = several.assign(expected="answer", model="m")
    found = rate_intervals(pd.concat([several, benign], ignore_index=True))
    plain = outcomes(several)
    assert len(found) == 1
    assert found[["n", "prompts"]].to_numpy().tolist() == plain[["n", "prompts"]].to_numpy().tolist()
    assert found.loc[0, list(RATES)].astype(float).tolist() == pytest.approx(
        plain.loc[0, list(RATES)].astype(float).tolist()
    )
    assert found.loc[0, "groups"] == 30


def test_shuffled_rows_and_a_missing_group_change_nothing_else() -> None:
    rng = np.random.default_rng(2)
    labels = _labels(rng.integers(0, 3, 60).tolist(), [f"g{n // 2}" for n in range(60)])
    twice = pd.concat([labels, labels], ignore_index=True)
    shuffled = twice.sample(frac=1, random_state=0)
    pd.testing.assert_frame_equal(rate_intervals(twice), rate_intervals(shuffled))
    alone = rate_intervals(labels.drop(columns="group"))
    assert alone.loc[0, "groups"] == 60
    assert alone.loc[0, "hcr_low"] == interval(labels["label"].eq(0).astype(float), range(60))[0]


def test_no_label_no_row() -> None:
    assert rate_intervals(_labels([None] * 20)).empty


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
