from __future__ import annotations

import numpy as np
import pytest
from prediction_rows import ONE_THREAD
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from slmsafety.analysis.prediction.classifiers import (
    CLASSIFIERS,
    Fitting,
    balanced_accuracy_error,
    fit,
    score,
)
from slmsafety.errors import InputError


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_takes_missing_values_decides_at_the_share_and_repeats_itself(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1500, 4))
    ambiguous = x[:, 0] + 0.5 * rng.logistic(size=1500) > 1.8  # about one in ten
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 3] = np.nan
    fitted = fit(name, x[:1000], ambiguous[:1000], Fitting(3))
    chance = fitted.probability(x[1000:])
    assert ((chance >= 0) & (chance <= 1)).all()
    again = fit(name, x[:1000], ambiguous[:1000], Fitting(3)).probability(x[1000:])
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
    fitted = fit("Logistic regression", x, ambiguous, ONE_THREAD)
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
        fitted = fit("XGBoost", x[: len(ambiguous)], ambiguous, ONE_THREAD)
        assert fitted.note == note and np.isnan(fitted.probability(x)).all()
    with pytest.raises(InputError, match="did you mean 'XGBoost'"):
        fit("XGBost", x, np.ones(4, bool), ONE_THREAD)


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
    assert np.isnan([found.low, found.high]).all(), "six groups of prompts are too few"


def test_the_interval_by_hand():
    """The same rows twice, in twelve groups; then ten groups with one wrong."""
    ambiguous = np.array([1, 1, 1, 1, 0, 0] * 2, bool)
    chance = np.array([0.9, 0.8, 0.35, 0.75, 0.15, 0.55] * 2)
    found = score(ambiguous, chance, chance > 0.5, np.arange(12))
    # Deviations of right from recall over groups: (.25, .25, -.75, .25) / 8 / 2 and (.5, -.5) / 4 / 2, each twice.
    error = np.sqrt(12 / 11 * 2 * ((3 * 0.25**2 + 0.75**2) / 256 + 2 * 0.5**2 / 64))
    assert found.low == pytest.approx(0.625 - 2.200985 * error), "t with eleven degrees of freedom"
    assert found.high == pytest.approx(0.625 + 2.200985 * error)
    nine = score(ambiguous, chance, chance > 0.5, np.arange(12).clip(max=8))
    assert nine.balanced_accuracy == 0.625 and np.isnan([nine.low, nine.high]).all()
    half = np.arange(10) < 5
    found = score(half, half - 0.0, half & (np.arange(10) > 0), np.arange(10))
    assert found.balanced_accuracy == 0.9 and 0.6 < found.low < 0.9
    assert found.high == 1, "the interval ends where balanced accuracy does"


def test_scores_are_nan_where_they_say_nothing():
    one_class = score(np.ones(3, bool), np.array([0.2, 0.4, 0.9]), np.array([False, False, True]), np.arange(3))
    assert one_class.accuracy == pytest.approx(1 / 3) and one_class.brier == pytest.approx((0.64 + 0.36 + 0.01) / 3)
    assert np.isnan(one_class[1:5]).all()
    assert np.isnan(score(np.zeros(0, bool), np.zeros(0), np.zeros(0, bool), np.zeros(0, int))).all()
    both = np.array([True, False])
    both = np.tile(both, 6)
    perfect = score(both, np.where(both, 0.9, 0.1), both, np.arange(12))
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
