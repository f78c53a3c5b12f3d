"""The difference of two judges' ambiguity rates, and whether its interval covers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from slmsafety.analysis.judges.ar_difference import LIMITS, ar_difference, no_interval, with_difference
from slmsafety.analysis.proportions import wilson_interval


def labels(first: np.ndarray, second: np.ndarray, groups: np.ndarray, suite: str = "s") -> pd.DataFrame:
    ids = [f"p{number}" for number in range(len(first))]
    return pd.DataFrame({"suite": suite, "instance_id": ids, "group": groups, "first": first, "second": second})


def test_it_is_the_second_rate_minus_the_first():
    few = labels(np.array([1, 0, 2, 2]), np.array([1, 1, 1, 2]), np.arange(4))
    alike = labels(np.ones(40), np.ones(40), np.arange(40), "t")
    got = ar_difference(pd.concat([few, alike])).set_index("suite")
    assert got["ar_difference"].to_dict() == {"s": 0.5, "t": 0.0}
    assert np.isnan(got.loc["s", "ar_difference_low"]), "too few groups"
    assert got.loc["t", "ar_difference_low"] < 0 < got.loc["t", "ar_difference_high"], "no two differ: room is left"


def test_groups_and_not_replies_are_independent():
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 3, size=(2, 40))
    apart = labels(first, second, np.arange(40))
    (one,) = ar_difference(apart).to_dict("records")
    (copied,) = ar_difference(pd.concat([apart] * 4)).to_dict("records")
    same = [{key: value for key, value in each.items() if "difference" in key} for each in (one, copied)]
    assert same[1] == pytest.approx(same[0]), "four copies of every reply tell nothing new"
    # Wilson's interval of single replies, and the logit one of groups of four.
    assert [copied[key] for key in LIMITS] == pytest.approx([one[key] for key in LIMITS], abs=0.02)
    assert one["ar_difference_low"] < one["ar_difference"] < one["ar_difference_high"]


@pytest.mark.parametrize("count", [12, 60])
def test_the_interval_covers_where_replies_of_a_group_are_alike(count):
    # In each group one chance of being called ambiguous is drawn for both judges; the second's is .2 higher on average.
    rng, draws, held = np.random.default_rng(count), 600, 0
    groups = np.repeat(np.arange(count), 6)
    for _ in range(draws):
        chance = rng.beta(2, 2, size=count)[groups] * 0.6
        first, second = (np.where(rng.random(len(groups)) < each, 1, 2) for each in (chance, chance + 0.2))
        (row,) = ar_difference(labels(first, second, groups)).to_dict("records")
        held += row["ar_difference_low"] <= 0.2 <= row["ar_difference_high"]
    assert held / draws >= 0.93


def test_rates_alone_give_a_difference_without_limits():
    rates = pd.DataFrame(
        {"suite": ["b", "a"], "ar_first": [0.5, 0.25], "ar_second": [0.25, 0.5], "exact": 1.0, "n": 80, "models": 4}
    )
    got = with_difference(rates, no_interval(rates))
    assert got["ar_difference"].tolist() == [-0.25, 0.25] and got["suite"].tolist() == ["b", "a"]
    assert got.loc[0, ["ar_first_low", "ar_first_high"]].tolist() == list(wilson_interval(10, 20))
    assert list(got.columns)[4:8] == ["ar_second", "ar_second_low", "ar_second_high", "ar_difference"]
    assert set(rates) <= set(got)
