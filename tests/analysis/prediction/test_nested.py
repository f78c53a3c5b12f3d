"""The choice of a classifier inside the training rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from prediction_rows import ONE_THREAD, replies

from slmsafety.analysis.prediction.classifiers import Fitting
from slmsafety.analysis.prediction.evaluation import best, best_classifiers, evaluate, prediction_table
from slmsafety.analysis.prediction.features import METRICS, feature_sets
from slmsafety.analysis.prediction.nested import inner_accuracy, nested_choice
from slmsafety.analysis.prediction.splits import GROUPS, within_suite

QUICK = ("Logistic regression", "XGBoost", "LightGBM")


def test_the_choice_is_the_same_whatever_the_test_labels_are():
    rng = np.random.default_rng(0)
    rows = replies(prompts=15, strength=1)
    split = within_suite(rows, 0)[0]
    before = prediction_table(rows, [split], ONE_THREAD, nested=True).iloc[0]
    assert before["optimism"] >= 0 and before["nested_classifier"] in best_of(rows, split)
    for _ in range(2):
        other, test = rows.copy(), split.tests["a"]
        other.loc[test, "ambiguous"] = rng.permutation(other["ambiguous"][test])
        after = prediction_table(other, [split], ONE_THREAD, nested=True).iloc[0]
        assert after["nested_classifier"] == before["nested_classifier"]
        found = best_of(other, split)
        assert after["nested_balanced_accuracy"] == found[after["nested_classifier"]]
        assert after["optimism"] == found.max() - after["nested_balanced_accuracy"]


def best_of(rows, split):
    """The balanced accuracy of each classifier on the test rows."""
    every = evaluate(rows, [split], {METRICS: feature_sets(rows)[METRICS]}, ONE_THREAD)
    return every.set_index("classifier")["balanced_accuracy"]


def test_the_best_of_several_is_flattered_by_noise_and_the_nested_choice_is_not():
    """Labels that nothing predicts, 20 times: chance by the nested choice, and more than that by the best."""
    chosen, highest = [], []
    for seed in range(20):
        rows = replies(seed, prompts=30, strength=0)
        rows = rows[rows["suite"] == "a"].reset_index(drop=True)
        (split,), columns = within_suite(rows, seed), feature_sets(rows)[METRICS]
        every = evaluate(rows, [split], {METRICS: columns}, Fitting(seed), QUICK)
        name = nested_choice(rows, split.train, columns, Fitting(seed), QUICK)
        chosen.append(every.set_index("classifier").loc[name, "balanced_accuracy"])
        highest.append(best(every)["balanced_accuracy"].iloc[0])
    optimism = np.array(highest) - chosen
    assert (optimism >= 0).all() and optimism.mean() > 2 * optimism.std() / np.sqrt(20) > 0
    error = np.std(chosen) / np.sqrt(20)
    assert abs(np.mean(chosen) - 0.5) < 3 * error < np.mean(highest) - 0.5


def test_the_choice_is_the_classifier_that_fits_the_training_rows():
    """Signs that differ: no straight line tells them, trees do. Noise about a straight line: the line does."""
    rng = np.random.default_rng(2)
    rows = pd.DataFrame(rng.normal(size=(400, 2)), columns=["reply x", "reply y"]).assign(group=np.arange(400))
    crossed = rows.assign(ambiguous=rows["reply x"] * rows["reply y"] > 0)
    straight = rows.assign(ambiguous=rows["reply x"] + rows["reply y"] + rng.logistic(size=400) > 0)
    for names in (QUICK, QUICK[::-1]):
        chosen = [
            nested_choice(one, np.arange(400), ["reply x", "reply y"], ONE_THREAD, names) for one in (crossed, straight)
        ]
        assert chosen[0] != "Logistic regression" == chosen[1]


def test_inner_folds_keep_groups_together():
    """A label that is the group's own: known by heart where variants are in several folds, chance where not."""
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(60), 5)
    values = rng.normal(size=(60, 2))[group] + 0.01 * rng.normal(size=(300, 2))
    ambiguous = (rng.random(60) < 0.5)[group]
    assert inner_accuracy("LightGBM", values, ambiguous, np.arange(300), ONE_THREAD) > 0.8
    assert inner_accuracy("LightGBM", values, ambiguous, group, ONE_THREAD) < 0.65


@pytest.mark.parametrize(
    ("group", "ambiguous"), [([0] * 6, [1, 0] * 3), (range(6), [1] * 6), ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])]
)
def test_nothing_is_chosen_from_one_group_or_class(group, ambiguous):
    """The third case has two folds, each of one class."""
    rows = pd.DataFrame({"group": list(group), "ambiguous": np.array(ambiguous, bool), "reply x": np.arange(6.0)})
    assert nested_choice(rows, np.arange(6), ["reply x"], ONE_THREAD, QUICK) == ""


def test_the_classifier_of_a_suite_is_the_nested_one_of_the_split_by_groups():
    table = pd.DataFrame(
        {
            "unit": ["groups", "prompts", "prompts", "groups", "prompts"],
            "source": ["a", "a", "b", "b", "c"],
            "features": METRICS,
            "classifier": ["A", "B", "C", "D", "E"],
        }
    )
    assert best_classifiers(table) == {"a": "A", "b": "D", "c": "E"}
    chosen = table.assign(nested_classifier=["N", "M", "L", "", "K"])
    assert best_classifiers(chosen) == {"a": "N", "b": "D", "c": "K"}


def test_a_split_by_groups_of_the_same_rows_repeats_the_results():
    rows = replies(prompts=20)
    plan = [*within_suite(rows, 0), *within_suite(rows, 0, unit=GROUPS)]
    table = prediction_table(rows, plan, ONE_THREAD)
    parts = [table[table["unit"] == unit].drop(columns="unit").reset_index(drop=True) for unit in ("prompts", "groups")]
    pd.testing.assert_frame_equal(*parts)
    assert table["unit"].tolist() == ["prompts"] * 2 + ["groups"] * 2 + ["prompts"] * 2 + ["groups"] * 2
