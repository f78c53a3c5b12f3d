from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from prediction_rows import ONE_THREAD, replies

from slmsafety.analysis.prediction.checks import (
    importance,
    leakage,
    over_repeats,
    single_feature_accuracy,
)
from slmsafety.analysis.prediction.features import METRICS
from slmsafety.analysis.prediction.splits import (
    GROUPS,
    Split,
    unseen_models,
    within_suite,
)


def test_the_interval_of_repeats_by_hand():
    """Nadeau and Bengio: .7 give or take t(2) = 4.302653 times .1 sqrt(1 / 3 + 1 / 4); a nan counts as undefined.

    The interval ends at 1."""
    results = pd.DataFrame(
        {
            "unit": GROUPS,
            "source": "a",
            "target": "a",
            "features": METRICS,
            "classifier": "x",
            "balanced_accuracy": [0.6, 0.7, 0.8, np.nan],
            "roc_auc": [0.5, 0.6, 0.7, np.nan],
            "brier": [0.2, 0.2, 0.2, 0.9],
            "ece": 0.1,
            "test_rows": 20,
            "train_rows": 80,
            "train_groups": 8,
            "test_groups": 2,
        }
    )
    (row,) = over_repeats(results).itertuples()
    margin = 4.302653 * 0.1 * np.sqrt(1 / 3 + 1 / 4)
    assert (row.repeats, row.undefined) == (3, 1)
    assert row.balanced_accuracy == pytest.approx(0.7) and row.brier == pytest.approx(0.2)
    assert (row.low, row.high) == (pytest.approx(0.7 - margin), 1)
    single = over_repeats(results.head(1)).iloc[0]
    assert single["balanced_accuracy"] == 0.6 and np.isnan(single["low"])
    few = over_repeats(results.assign(test_groups=1)).iloc[0]
    assert few["balanced_accuracy"] == pytest.approx(0.7) and np.isnan(few["low"]), "nine groups of prompts"


def test_shuffling_costs_where_the_signal_is():
    rows = replies(prompts=150, strength=4)
    before = rows.copy()
    found = importance(rows, within_suite(rows, 0), dict.fromkeys("ab", "LightGBM"), ONE_THREAD)
    pd.testing.assert_frame_equal(rows, before)
    drops = found.set_index(["source", "group"])["drop"]
    for suite in "ab":
        assert drops[suite, "reply"] > 0.2
        assert abs(drops[suite, "prompt"]) < 0.06 and abs(drops[suite, "model"]) < 0.06
    assert (found["lowest"] <= found["drop"]).all() and (found["drop"] <= found["highest"]).all()
    assert found.groupby("group")["metrics"].first().to_dict() == {"model": 1, "prompt": 2, "reply": 2}


def test_a_clean_split_predicts_shuffled_labels_by_chance():
    rows = replies(prompts=100, strength=4)
    every = dict.fromkeys("ab", "LightGBM")
    plan = [*within_suite(rows, 0), *unseen_models(rows, ["m3"])]
    found = leakage(rows, plan, every, ONE_THREAD)
    assert found["shared_prompts"].tolist() == [0, 0, 100, 100] and found["shared_models"].tolist() == [3, 3, 0, 0]
    assert found["shared_groups"].tolist() == [0, 0, 100, 100]
    assert found["clean"].all() and found["shuffled"].between(found["chance_low"], found["chance_high"]).all()
    # 60 test rows: one half give or take 3/4 sqrt(1 / ones + 1 / zeros), about .19.
    assert found["chance_high"][0] - 0.5 == pytest.approx(0.19, abs=0.02)


def test_a_leak_is_seen():
    """Rows on both sides: their prompts and models are shared, and their shuffled labels are known by heart."""
    rows = replies(prompts=100)
    place = np.flatnonzero(rows["suite"] == "a")
    found = leakage(rows, [Split("a", place, {"a": place[:200]})], {"a": "LightGBM"}, ONE_THREAD).iloc[0]
    assert found["shared_prompts"] == 100 and found["shared_models"] > 0
    assert found["shuffled"] > found["chance_high"] and not found["clean"]
    plain = leakage(rows, [Split("a", place, {"a": place[:200]})], {"a": "Logistic regression"}, ONE_THREAD).iloc[0]
    assert plain["chance_low"] < plain["shuffled"] < plain["chance_high"], "too simple to know labels by heart"
    assert not plain["clean"], "but its rows are on both sides"


def test_variants_of_a_question_on_both_sides_are_a_leak():
    """Prompts in groups of three: the split by prompts shares groups, though no prompt; that by groups does not."""
    rows = replies(prompts=60)
    rows["group"] = rows["prompt"] // 3
    every = dict.fromkeys("ab", "Logistic regression")
    plan = [*within_suite(rows, 0), *within_suite(rows, 0, unit=GROUPS)]
    found = leakage(rows, plan, every, ONE_THREAD)
    assert found["unit"].tolist() == ["prompts", "prompts", "groups", "groups"]
    assert (
        found["shared_prompts"].tolist() == [0] * 4
        and (found["shared_groups"] > 0).tolist() == [True] * 2 + [False] * 2
    )
    assert found["clean"].tolist() == [False, False, True, True]
    # One shared group is enough, and is told where the labels of one class leave nothing else to check.
    split = plan[2]
    test, train = split.tests["a"], split.train
    rows.loc[test[rows["prompt"][test] == rows["prompt"][test[0]]], "group"] = rows["group"][train[0]]
    (one,) = leakage(rows, [split], every, ONE_THREAD).itertuples()
    assert (one.shared_prompts, one.shared_groups, one.clean) == (0, 1, False)
    (one,) = leakage(rows.assign(ambiguous=True), [split], every, ONE_THREAD).itertuples()
    assert np.isnan(one.shuffled) and not one.clean
    apart = leakage(rows.assign(ambiguous=True), [plan[3]], every, ONE_THREAD)
    assert apart["clean"].isna().all(), "nothing is shared, but nothing could be checked"


def test_a_feature_that_holds_the_label_is_seen_where_no_row_is_shared():
    """The score of a reply, 0, 1/2 or 1, with a few values missing: no cut tells its middle from both ends."""
    rows = replies(prompts=100)
    rng = np.random.default_rng(3)
    rows["reply score"] = np.where(rows["ambiguous"], 0.5, rng.integers(2, size=len(rows)))
    rows.loc[rng.random(len(rows)) < 0.02, "reply score"] = np.nan
    found = leakage(rows, within_suite(rows, 0), dict.fromkeys("ab", "LightGBM"), ONE_THREAD)
    assert found["clean"].all(), "shuffled labels say nothing of it"
    assert found["strongest"].tolist() == found["telling"].tolist() == ["reply score"] * 2
    assert found["alone"].between(0.95, 1).all()
    honest = leakage(replies(prompts=100), within_suite(rows, 0), dict.fromkeys("ab", "LightGBM"), ONE_THREAD)
    assert honest["strongest"].tolist() == ["reply perplexity"] * 2 and not honest["telling"].any()
    assert honest["alone"].between(0.65, 0.95).all()


def test_a_feature_alone_by_hand():
    """Cut at 10, learnt where it is right: of the test rows two of three ambiguous and one of two others lie right."""
    learnt, tried = [1e300, 12, 8, 9], [20, 30, 5, 40, 1]
    rows = pd.DataFrame(
        {"reply x": [*learnt, *tried], "ambiguous": [True, True, False, False, *[True] * 3, *[False] * 2]}
    )
    found = single_feature_accuracy(rows, np.arange(4), np.arange(4, 9), 0)
    assert found.to_dict() == pytest.approx({"reply x": (2 / 3 + 1 / 2) / 2})
    assert single_feature_accuracy(rows, np.arange(2), np.arange(4, 9), 0).isna().all()
    assert single_feature_accuracy(rows, np.arange(4), np.arange(4, 7), 0).isna().all()
