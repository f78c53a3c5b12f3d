import numpy as np
import pandas as pd
import pytest

from slmsafety.analysis.differences import neighbour_differences, unpaired_differences
from slmsafety.analysis.mean_intervals import difference_interval
from slmsafety.analysis.outcomes import outcomes


def labels(**models: list[int | None]) -> pd.DataFrame:
    frames = [
        pd.DataFrame(
            {"model": name, "label": pd.array(given, "Int64"), "instance_id": [f"p{n}" for n in range(len(given))]}
        )
        for name, given in models.items()
    ]
    return pd.concat(frames, ignore_index=True).assign(suite="s", expected="refuse", status="ok")


def test_each_model_stands_beside_the_next_below_it():
    found = neighbour_differences(labels(low=[0] * 20, high=[2] * 20, middle=[1] * 20))
    assert found[["model", "other"]].to_numpy().tolist() == [["high", "middle"], ["middle", "low"]]
    assert found["difference"].tolist() == [0.5, 0.5]


def test_equal_means_go_by_name_and_differ_by_nothing():
    found = neighbour_differences(labels(b=[0, 2] * 20, a=[2, 0] * 20))
    assert found[["model", "other"]].to_numpy().tolist() == [["a", "b"]]
    assert found.loc[0, "difference"] == 0
    assert found.loc[0, "difference_low"] < 0 < found.loc[0, "difference_high"]


def test_only_prompts_with_a_label_of_both_count():
    found = neighbour_differences(labels(a=[2] * 15 + [None] * 15, b=[0] * 10 + [2] * 20))
    row = found.iloc[0]
    assert (row["model"], row["prompts"], row["groups"]) == ("a", 15, 15)
    assert row["difference"] == pytest.approx(10 / 15)
    limits = difference_interval(np.repeat([1.0, 0.0], [10, 5]), range(15))
    assert (row["difference_low"], row["difference_high"]) == limits


def test_prompts_in_no_common_have_no_difference():
    one, two = labels(a=[2] * 15), labels(b=[0] * 15)
    row = neighbour_differences(pd.concat([one, two.assign(instance_id=two["instance_id"] + "x")])).iloc[0]
    assert row["prompts"] == 0
    assert np.isnan([row["difference"], row["difference_low"], row["difference_high"]]).all()


def test_a_model_without_labels_or_alone_has_no_neighbour():
    assert neighbour_differences(labels(a=[2] * 15, b=[None] * 15)).empty
    assert neighbour_differences(labels(a=[2] * 15).iloc[:0]).empty


def test_rates_alone_give_the_same_difference_and_the_widest_interval():
    rng = np.random.default_rng(0)
    common = np.repeat(rng.integers(0, 3, 100), 3)
    given = {name: np.where(rng.random(300) < 0.7, common, rng.integers(0, 3, 300)).tolist() for name in "abc"}
    given |= {"d": (2 - np.array(given["a"])).tolist()}  # moves against a
    frame = labels(**given)
    frame["group"] = (frame["instance_id"].str[1:].astype(int) // 3).astype(str)
    paired = neighbour_differences(frame).set_index(["model", "other"])
    apart = unpaired_differences(outcomes(frame).assign(groups=100)).set_index(["model", "other"])
    assert list(paired.index) == list(apart.index)
    assert apart["difference"].tolist() == pytest.approx(paired["difference"].tolist())
    assert apart["groups"].tolist() == paired["groups"].tolist() == [100] * 3
    assert (apart["difference_high"] >= paired["difference_high"] - 1e-3).all()
    assert (apart["difference_low"] <= paired["difference_low"] + 1e-3).all()
    printed = unpaired_differences(outcomes(frame).assign(groups=100), rounding=0.005).set_index(["model", "other"])
    assert (apart["difference_low"] - printed["difference_low"]).tolist() == pytest.approx([0.01] * 3)


def test_an_order_that_turns_on_common_prompts_shows():
    found = neighbour_differences(labels(a=[0] * 20 + [2] * 60, b=[2] * 15 + [0] * 5 + [None] * 60)).iloc[0]
    assert (found["model"], found["other"]) == ("a", "b") or found["difference"] > 0
    assert found["difference_high"] < 0
