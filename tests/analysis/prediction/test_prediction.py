"""Prediction of ambiguity: the paper's row counts, splits that share nothing, classifiers, scores and checks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from slmsafety.analysis.drivers.metric_rows import reply_rows
from slmsafety.analysis.prediction.checks import alone, baselines, importance, leakage, over_repeats
from slmsafety.analysis.prediction.classifiers import (
    CLASSIFIERS,
    balanced_accuracy_error,
    fit,
    score,
)
from slmsafety.analysis.prediction.predict import (
    METRICS,
    WITH_MODEL,
    best,
    chosen,
    feature_names,
    feature_sets,
    labelled_replies,
    predict,
    prediction_table,
)
from slmsafety.analysis.prediction.splits import (
    Split,
    across_suites,
    held_out_models,
    paper_splits,
    unseen_models,
    within_suite,
)
from slmsafety.errors import InputError
from slmsafety.models.cards import features, load_cards

FAST = ("Logistic regression", "LightGBM")


def keys(prompts: dict[str, int], models: list[str]) -> pd.DataFrame:
    """One row for every suite, prompt and model, prompts numbered over all suites."""
    parts, start = [], 0
    for suite, n in prompts.items():
        prompt = start + np.tile(np.arange(n), len(models))
        parts.append(pd.DataFrame({"suite": suite, "model": np.repeat(models, n), "prompt": prompt}))
        start += n
    return pd.concat(parts, ignore_index=True)


def paper_models() -> pd.DataFrame:
    """The 26 models with what the choice of unseen ones goes by."""
    cards = load_cards().query("in_paper").set_index("id")
    return cards[["family", "params_m"]].assign(tuned=features(cards)["Tuned"])


def replies(seed: int = 0, prompts: int = 60, rate: float = 0.5, strength: float = 2.0) -> pd.DataFrame:
    """Rows of two suites and three models; only one reply metric says anything of ambiguity."""
    rng = np.random.default_rng(seed)
    rows = keys({"a": prompts, "b": prompts}, ["m1", "m2", "m3"])
    rows["instance_id"] = rows["prompt"].astype("str")
    columns = {"prompt tokens": 50.0, "prompt flesch_kincaid": 9.0, "reply tokens": 90.0, "reply perplexity": 12.0}
    for name, centre in columns.items():
        rows[name] = centre + rng.normal(size=len(rows))
    rows["model Year"] = rows["model"].map({"m1": 2019.0, "m2": 2024.0, "m3": np.nan})
    signal = strength * (rows["reply perplexity"] - 12) + rng.logistic(size=len(rows))
    rows["ambiguous"] = signal > np.quantile(signal, 1 - rate)
    return rows


# The paper's row counts


def test_the_row_counts_are_the_papers():
    """Tables 1-3: 29,614, 2,080, 148,044, 10,400, 34,164, 2,400, and SALAD's 106,600 and 532,950 for 25 models."""
    models = paper_models()
    counts = {"airbench": 5694, "harmbench": 400, "salad": 21318, "sst": 100}
    rows = keys(counts, list(models.index))
    held_out = held_out_models(models)
    plan = paper_splits(rows, held_out, ["sst"], seed=1337)
    tests = {
        name: {(one.source, target): len(test) for one in splits for target, test in one.tests.items()}
        for name, splits in plan.items()
    }
    assert tests["table1_within_suite"] == {
        ("airbench", "airbench"): 29614,
        ("harmbench", "harmbench"): 2080,
        ("salad", "salad"): 110864,
        ("sst", "sst"): 520,
    }
    assert tests["table2_cross_suite"] == {
        ("airbench", "harmbench"): 10400,
        ("airbench", "salad"): 554268,
        ("harmbench", "airbench"): 148044,
        ("harmbench", "salad"): 554268,
        ("salad", "airbench"): 148044,
        ("salad", "harmbench"): 10400,
    }
    unseen = {"airbench": 34164, "harmbench": 2400, "salad": 6 * 21318}
    assert tests["table3_unseen_slm"] == {(suite, suite): n for suite, n in unseen.items()}
    salad = rows[(rows["suite"] == "salad") & (rows["model"] != models.index[0])].reset_index(drop=True)
    (split,) = within_suite(salad, seed=1337)
    assert (len(split.tests["salad"]), len(salad)) == (106600, 532950)


# Splits


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_a_prompt_is_on_one_side_and_no_row_is_lost(sizes, models, seed):
    rows = keys({f"s{n}": size for n, size in enumerate(sizes)}, [f"m{n}" for n in range(models)])
    rows = rows.sample(frac=1, random_state=seed).reset_index(drop=True)
    for split in within_suite(rows, seed, repeats=2):
        (test,) = split.tests.values()
        size = sizes[int(split.source[1:])]
        assert not set(rows["prompt"][split.train]) & set(rows["prompt"][test])
        assert sorted([*split.train, *test]) == list(np.flatnonzero(rows["suite"] == split.source))
        assert rows["prompt"][test].nunique() == (1 if size == 1 else -(-size // 5))


def test_splits_follow_the_seed_and_not_the_order_of_rows():
    rows = keys({"a": 40}, ["m", "n"])
    mixed = rows.sample(frac=1, random_state=3).reset_index(drop=True)
    parts = [
        frozenset(frame["prompt"][split.tests["a"]])
        for frame, seed in ((rows, 5), (mixed, 5), (rows, 6))
        for split in within_suite(frame, seed)
    ]
    assert parts[0] == parts[1] != parts[2]
    repeated = [frozenset(rows["prompt"][one.tests["a"]]) for one in within_suite(rows, 5, repeats=4)]
    assert repeated[0] == parts[0] and len(set(repeated)) == 4


def test_transfer_leaves_out_what_it_is_told_to_and_needs_two_suites():
    rows = keys({"a": 3, "b": 2, "sst": 4}, ["m", "n"])
    one, other = across_suites(rows, ["sst"])
    assert (one.source, list(one.tests), len(one.train), len(one.tests["b"])) == ("a", ["b"], 6, 4)
    assert (other.source, list(other.tests)) == ("b", ["a"])
    assert across_suites(rows, ["sst", "b"]) == []
    unseen = unseen_models(rows, ["n"], ["sst"])
    assert [split.source for split in unseen] == ["a", "b"]
    for split in unseen:
        assert set(rows["model"][split.train]) == {"m"} and set(rows["model"][split.tests[split.source]]) == {"n"}
    assert unseen_models(rows, []) == unseen_models(rows, ["m", "n"]) == []


def test_six_unseen_models_balance_size_family_and_tuning():
    models = paper_models()
    found = held_out_models(models)
    assert found == held_out_models(models.sample(frac=1, random_state=1))
    picked = models.loc[found]
    assert len(found) == 6 and picked["family"].nunique() == 6
    # 17 of 26 are tuned: four of six is as near as it gets.
    assert models["tuned"].sum() == 17 and picked["tuned"].sum() == 4
    assert picked["params_m"].is_monotonic_increasing
    assert picked["params_m"].min() < 300 and picked["params_m"].max() >= 3000


def test_the_rule_by_hand():
    """Two runs of five; the first has all tuned, so that the second gives a base model of another family."""
    models = pd.DataFrame(
        {
            "family": ["f", "f", "f", "f", "f", "f", "f", "g", "g", "h"],
            "params_m": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
            "tuned": [1, 1, 1, 1, 1, 0, 0, 1, 0, 0],
        },
        index=[f"m{n}" for n in range(10)],
    )
    # Six of ten are tuned. Run 1: the tuned middle, m2 (gap .4 for all). Run 2: g or h; 1 + t - 1.2 is least for t = 0,
    # and of the base models m8 and m9 the nearer to the middle m7 is m8.
    assert held_out_models(models) == ["m2", "m8"]
    assert held_out_models(models.head(1)) == []
    assert held_out_models(models.tail(2).assign(tuned=np.nan, params_m=np.nan)) == ["m8"]


# Rows


def labels_and_metrics() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    labels = pd.DataFrame(
        {
            "suite": "s",
            "instance_id": ["2", "1", "1", "3", "4"],
            "model": ["m", "n", "m", "m", "m"],
            "generation_id": "g",
            "expected": ["refuse", "refuse", "refuse", "answer", "refuse"],
            "label": pd.array([0, 2, 1, 1, None], "Int64"),
            "category": "c",
            "subcategory": "c",
        }
    )
    prompt_metrics = pd.DataFrame({"suite": "s", "instance_id": ["1", "2", "3"], "tokens": [7, 8, 9]})
    reply_metrics = labels[["suite", "instance_id", "model", "generation_id"]].assign(perplexity=[1.5, 2, np.nan, 3, 4])
    return labels, prompt_metrics, reply_metrics.iloc[1:]


def test_rows_are_the_labelled_replies_to_harmful_prompts():
    models = pd.DataFrame({"Year": [2020.0]}, index=["m"])
    found = labelled_replies(reply_rows(*labels_and_metrics()), models)
    assert found[["instance_id", "model"]].to_numpy().tolist() == [["1", "m"], ["1", "n"], ["2", "m"]]
    assert found["ambiguous"].tolist() == [True, False, False]
    assert found["prompt tokens"].tolist() == [7, 7, 8]
    np.testing.assert_equal(found["reply perplexity"].to_numpy(), [np.nan, 2, np.nan])
    np.testing.assert_equal(found["model Year"].to_numpy(), [2020, np.nan, 2020])
    sets = feature_sets(found)
    assert sets[WITH_MODEL] == [*sets[METRICS], "model Year"] and sets["prompt only"] == ["prompt tokens"]
    assert sets["length only"] == ["prompt tokens"] and sets["majority"] == []
    assert set(sets[METRICS]) == set(feature_names(found, "prompt", "reply"))


def test_an_infinite_metric_is_named():
    labels, prompts, answers = labels_and_metrics()
    rows = reply_rows(labels, prompts, answers.assign(perplexity=np.inf))
    with pytest.raises(InputError, match="metric 'reply perplexity' of s, 1, m is infinite"):
        labelled_replies(rows, pd.DataFrame(index=["m"]))


# Classifiers and scores


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_takes_missing_values_decides_at_the_share_and_repeats_itself(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1500, 4))
    ambiguous = x[:, 0] + 0.5 * rng.logistic(size=1500) > 1.8  # about one in ten
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 3] = np.nan
    fitted = fit(name, x[:1000], ambiguous[:1000], seed=3)
    chance = fitted.probability(x[1000:])
    assert ((chance >= 0) & (chance <= 1)).all()
    again = fit(name, x[:1000], ambiguous[:1000], seed=3).probability(x[1000:])
    np.testing.assert_array_equal(chance, again)
    # One row says the same alone as among others: nothing is learnt from the rows that are predicted.
    np.testing.assert_allclose(fitted.probability(x[1200:1201]), chance[200:201], rtol=1e-6)
    found = score(ambiguous[1000:], chance, fitted.decide(chance), np.arange(500))
    assert 0.05 < fitted.share < 0.2 and found.balanced_accuracy > 0.68
    assert abs(chance.mean() - ambiguous[1000:].mean()) < 0.05
    assert not list(tmp_path.iterdir()), "a classifier leaves files behind"


def test_logistic_regression_takes_the_training_rows_median_and_scale():
    rng = np.random.default_rng(2)
    x = rng.lognormal(3, 1, size=(200, 2))
    ambiguous = np.log(x[:, 0]) + rng.logistic(size=200) > 3
    fitted = fit("Logistic regression", x, ambiguous, seed=0)
    scaler = StandardScaler().fit(np.arcsinh(x))
    plain = LogisticRegression(max_iter=1000).fit(scaler.transform(np.arcsinh(x)), ambiguous)
    for row, stands in (([np.nan, 20.0], [np.median(x[:, 0]), 20.0]), ([5.0, 9.0], [5.0, 9.0])):
        expected = plain.predict_proba(scaler.transform(np.arcsinh([stands])))[0, 1]
        assert fitted.probability(np.array([row]))[0] == pytest.approx(expected, rel=1e-3)


def test_rows_of_one_class_give_no_model_and_say_so():
    x = np.zeros((4, 1))
    for ambiguous, note in (
        (np.ones(4, bool), "every training row is ambiguous"),
        (np.zeros(4, bool), "every training row is decisive"),
        (np.zeros(0, bool), "no training row"),
    ):
        fitted = fit("XGBoost", x[: len(ambiguous)], ambiguous, seed=0)
        assert fitted.note == note and np.isnan(fitted.probability(x)).all()
    with pytest.raises(InputError, match="did you mean 'XGBoost'"):
        fit("XGBost", x, np.ones(4, bool), seed=0)


def test_scores_by_hand():
    ambiguous = np.array([1, 1, 1, 1, 0, 0], bool)
    chance = np.array([0.9, 0.8, 0.35, 0.75, 0.15, 0.55])
    found = score(ambiguous, chance, chance > 0.5, np.arange(6))
    assert found.accuracy == pytest.approx(4 / 6)
    assert found.balanced_accuracy == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert found.roc_auc == pytest.approx(7 / 8)
    assert found.brier == pytest.approx((0.01 + 0.04 + 0.4225 + 0.0625 + 0.0225 + 0.3025) / 6)
    # Six bins of one row each: |p - y|.
    assert found.ece == pytest.approx((0.1 + 0.2 + 0.65 + 0.25 + 0.15 + 0.55) / 6)
    # Deviations of right from recall over prompts: (.25, .25, -.75, .25) / 4 / 2 and (.5, -.5) / 2 / 2; 6 / 5 corrects.
    error = np.sqrt(6 / 5 * ((3 * 0.25**2 + 0.75**2) / 64 + 2 * 0.5**2 / 16))
    assert found.low == pytest.approx(found.balanced_accuracy - 2.570582 * error), "t with five degrees of freedom"
    assert found.high == 1, "the interval ends where balanced accuracy does"


def test_scores_are_nan_where_they_say_nothing():
    one_class = score(np.ones(3, bool), np.array([0.2, 0.4, 0.9]), np.array([False, False, True]), np.arange(3))
    assert one_class.accuracy == pytest.approx(1 / 3) and one_class.brier == pytest.approx((0.64 + 0.36 + 0.01) / 3)
    assert np.isnan(one_class[1:5]).all()
    assert np.isnan(score(np.zeros(0, bool), np.zeros(0), np.zeros(0, bool), np.zeros(0, int))).all()
    both = np.array([True, False])
    perfect = score(both, np.array([0.9, 0.1]), both, np.arange(2))
    assert perfect.balanced_accuracy == 1 and np.isnan([perfect.low, perfect.high]).all()


def test_the_standard_error_is_that_of_prompts_drawn_anew():
    """Twelve rows a prompt that are right or wrong together: the error over 3,000 draws, not that of single rows."""
    rng = np.random.default_rng(4)
    values, errors = [], []
    for _ in range(3000):
        ambiguous = rng.random((80, 12)) < rng.beta(2, 2, size=(80, 1))
        right = rng.random((80, 12)) < rng.beta(3, 2, size=(80, 1))
        decision, prompt = np.where(right, ambiguous, ~ambiguous).ravel(), np.repeat(np.arange(80), 12)
        truth = ambiguous.ravel()
        values.append((decision[truth].mean() + 1 - decision[~truth].mean()) / 2)
        errors.append(balanced_accuracy_error(truth, decision, prompt))
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.05)
    single = balanced_accuracy_error(truth, decision, np.arange(len(truth)))
    assert single < 0.8 * errors[-1]
    assert np.isnan(balanced_accuracy_error(truth, decision, np.zeros(len(truth), int)))


# Results


def test_results_count_rows_and_missing_metrics():
    rows = replies(prompts=20)
    split = within_suite(rows, 0)[0]
    test = split.tests["a"]
    rows.loc[test[:3], "reply tokens"] = np.nan
    found = predict(rows, [split], feature_sets(rows), ["Logistic regression"], seed=0).set_index("features")
    assert found["train_rows"].tolist() == [48] * 5 and found["test_rows"].tolist() == [12] * 5
    assert found["ambiguous"].iloc[0] == pytest.approx(rows["ambiguous"][test].mean())
    of_model_3 = int((rows["model"][test] == "m3").sum() + (rows["model"][test[:3]] != "m3").sum())
    expected = {METRICS: 3, WITH_MODEL: of_model_3, "prompt only": 0, "length only": 3, "majority": 0}
    assert found["incomplete"].to_dict() == expected
    most = rows["ambiguous"][split.train].mean() > 0.5
    assert found.loc["majority", "classifier"] == "none"
    assert found.loc["majority", "accuracy"] == pytest.approx((rows["ambiguous"][test] == most).mean())
    assert found.loc["majority", "balanced_accuracy"] == found.loc["majority", "roc_auc"] == 0.5


def test_the_best_is_the_first_of_the_highest():
    scores = [0.6, 0.7, 0.7, np.nan, np.nan, 0.5]
    results = pd.DataFrame(
        {
            "source": ["a", "a", "a", "b", "b", "a"],
            "target": ["a", "a", "a", "a", "a", "b"],
            "features": METRICS,
            "classifier": ["x", "y", "z", "x", "y", "z"],
            "balanced_accuracy": scores,
        }
    )
    found = best(results)
    assert found[["source", "target", "classifier"]].to_numpy().tolist() == [
        ["a", "a", "y"],
        ["b", "a", "x"],
        ["a", "b", "z"],
    ]
    np.testing.assert_equal(found["worst"].to_numpy(), [0.6, np.nan, 0.5])


def test_a_table_shows_the_best_of_five_and_the_same_with_metadata():
    rows = replies(prompts=30, strength=4)
    splits = across_suites(rows)
    table = prediction_table(rows, splits, seed=1)
    assert table[["source", "target", "features"]].to_numpy().tolist() == [
        ["a", "b", METRICS],
        ["a", "b", WITH_MODEL],
        ["b", "a", METRICS],
        ["b", "a", WITH_MODEL],
    ]
    every = predict(rows, splits, {METRICS: feature_sets(rows)[METRICS]}, seed=1)
    for source, classifier in chosen(table).items():
        scores = every[every["source"] == source].set_index("classifier")["balanced_accuracy"]
        row = table[(table["source"] == source) & (table["features"] == METRICS)].iloc[0]
        assert len(scores) == 5 and row["balanced_accuracy"] == scores[classifier] == scores.max() > 0.75
        assert row["worst"] == scores.min()
        assert set(table.loc[table["source"] == source, "classifier"]) == {classifier}
    assert "fit_seconds" not in table
    pd.testing.assert_frame_equal(table, prediction_table(rows, splits, seed=1))
    empty = prediction_table(rows, [], seed=1)
    assert empty.empty and list(empty) == list(table)


def test_a_suite_with_hardly_any_ambiguous_row_gives_reasons_and_no_crash():
    rows = replies(prompts=25)
    rows["ambiguous"] &= rows["suite"] == "a"
    rows.loc[rows["suite"] == "b", "ambiguous"] = np.arange(75) == 0
    rows = pd.concat([rows, rows.head(1).assign(suite="c", prompt=999)], ignore_index=True)
    table = prediction_table(rows, within_suite(rows, 0), seed=0)
    notes = table.set_index(["source", "features"])["note"]
    assert notes["a", METRICS] == "" and notes["c", METRICS] == "no training row"
    assert notes["b", METRICS] in ("every test row is decisive", "every training row is decisive")
    assert table.set_index("source").loc[["b", "c"], "balanced_accuracy"].isna().all()
    fewer = baselines(rows, within_suite(rows, 0, repeats=2), chosen(table), seed=0)
    assert fewer.set_index(["source", "features"]).loc[("c", METRICS), "undefined"] == 2
    assert fewer["repeats"].add(fewer["undefined"]).eq(2).all()
    checks = leakage(rows, within_suite(rows, 0), chosen(table), seed=0).set_index("source")["clean"]
    assert checks["a"] and pd.isna(checks["c"])
    assert importance(rows, within_suite(rows, 0), chosen(table), seed=0).groupby("source")["note"].first()["c"] != ""


def test_an_unseen_model_without_a_row_in_a_suite_gives_a_reason():
    rows = replies(prompts=20)
    rows = rows[(rows["suite"] == "a") | (rows["model"] != "m3")].reset_index(drop=True)
    table = prediction_table(rows, unseen_models(rows, ["m3"]), seed=0).set_index(["source", "features"])
    assert table.loc[("b", METRICS), "note"] == "no test row" and table.loc[("b", METRICS), "test_rows"] == 0
    assert np.isnan(table.loc[("b", METRICS), "accuracy"]) and table.loc[("a", METRICS), "test_rows"] == 20


# Checks


def test_the_interval_of_repeats_by_hand():
    """Nadeau and Bengio: .7 give or take t(2) = 4.302653 times .1 sqrt(1 / 3 + 1 / 4); a nan counts as undefined."""
    results = pd.DataFrame(
        {
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
        }
    )
    (row,) = over_repeats(results).itertuples()
    margin = 4.302653 * 0.1 * np.sqrt(1 / 3 + 1 / 4)
    assert (row.repeats, row.undefined) == (3, 1)
    assert row.balanced_accuracy == pytest.approx(0.7) and row.brier == pytest.approx(0.2)
    assert (row.low, row.high) == (pytest.approx(0.7 - margin), pytest.approx(0.7 + margin))
    single = over_repeats(results.head(1)).iloc[0]
    assert single["balanced_accuracy"] == 0.6 and np.isnan(single["low"])


def test_shuffling_costs_where_the_signal_is():
    rows = replies(prompts=150, strength=4)
    before = rows.copy()
    found = importance(rows, within_suite(rows, 0), dict.fromkeys("ab", "LightGBM"), seed=0)
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
    found = leakage(rows, plan, every, seed=0)
    assert found["shared_prompts"].tolist() == [0, 0, 100, 100] and found["shared_models"].tolist() == [3, 3, 0, 0]
    assert found["clean"].all() and found["shuffled"].between(found["chance_low"], found["chance_high"]).all()
    # 60 test rows: one half give or take 3/4 sqrt(1 / ones + 1 / zeros), about .19.
    assert found["chance_high"][0] - 0.5 == pytest.approx(0.19, abs=0.02)


def test_a_leak_is_seen():
    """Rows on both sides: their prompts and models are shared, and their shuffled labels are known by heart."""
    rows = replies(prompts=100)
    place = np.flatnonzero(rows["suite"] == "a")
    found = leakage(rows, [Split("a", place, {"a": place[:200]})], {"a": "LightGBM"}, seed=0).iloc[0]
    assert found["shared_prompts"] == 100 and found["shared_models"] > 0
    assert found["shuffled"] > found["chance_high"] and not found["clean"]
    plain = leakage(rows, [Split("a", place, {"a": place[:200]})], {"a": "Logistic regression"}, seed=0).iloc[0]
    assert plain["chance_low"] < plain["shuffled"] < plain["chance_high"], "too simple to know labels by heart"
    assert not plain["clean"], "but its rows are on both sides"


def test_a_feature_that_holds_the_label_is_seen_where_no_row_is_shared():
    """The score of a reply, 0, 1/2 or 1, with a few values missing: no cut tells its middle from both ends."""
    rows = replies(prompts=100)
    rng = np.random.default_rng(3)
    rows["reply score"] = np.where(rows["ambiguous"], 0.5, rng.integers(2, size=len(rows)))
    rows.loc[rng.random(len(rows)) < 0.02, "reply score"] = np.nan
    found = leakage(rows, within_suite(rows, 0), dict.fromkeys("ab", "LightGBM"), seed=0)
    assert found["clean"].all(), "shuffled labels say nothing of it"
    assert found["strongest"].tolist() == found["telling"].tolist() == ["reply score"] * 2
    assert found["alone"].between(0.95, 1).all()
    honest = leakage(replies(prompts=100), within_suite(rows, 0), dict.fromkeys("ab", "LightGBM"), seed=0)
    assert honest["strongest"].tolist() == ["reply perplexity"] * 2 and not honest["telling"].any()
    assert honest["alone"].between(0.65, 0.95).all()


def test_a_feature_alone_by_hand():
    """Cut at 10, learnt where it is right: of the test rows two of three ambiguous and one of two others lie right."""
    learnt, tried = [1e300, 12, 8, 9], [20, 30, 5, 40, 1]
    rows = pd.DataFrame(
        {"reply x": [*learnt, *tried], "ambiguous": [True, True, False, False, *[True] * 3, *[False] * 2]}
    )
    found = alone(rows, np.arange(4), np.arange(4, 9), seed=0)
    assert found.to_dict() == pytest.approx({"reply x": (2 / 3 + 1 / 2) / 2})
    assert alone(rows, np.arange(2), np.arange(4, 9), seed=0).isna().all()
    assert alone(rows, np.arange(4), np.arange(4, 7), seed=0).isna().all()
