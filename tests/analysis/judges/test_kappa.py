from __future__ import annotations

import numpy as np
import pytest
from analysis_frames import quick
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

from slmsafety.analysis.judges.agreement import agreement, confusion
from slmsafety.analysis.judges.kappa import kappa_intervals, kappas

LABEL = st.integers(0, 2)


@quick
@given(st.lists(st.tuples(LABEL, LABEL), min_size=1, max_size=40))
def test_kappas_are_those_of_statsmodels_and_sklearn(pairs: list[tuple[int, int]]) -> None:
    reference, label = np.array(pairs).T
    counts = confusion(reference, label)
    found = kappas(counts)
    with np.errstate(all="ignore"):
        linear = cohens_kappa(counts, wt="linear").kappa
    assert found["kappa"] == pytest.approx(linear, nan_ok=True)
    if len(set(reference) | set(label)) > 1:
        plain = cohen_kappa_score(reference, label, labels=[0, 1, 2])
        assert found["kappa_unweighted"] == pytest.approx(plain)
    else:
        assert np.isnan(found["kappa_unweighted"])


def test_the_interval_draws_whole_groups() -> None:
    rng = np.random.default_rng(1)
    reference = rng.integers(0, 3, 300)
    label = np.where(rng.random(300) < 0.7, reference, rng.integers(0, 3, 300))
    alone = kappa_intervals(reference, label, np.arange(300))["kappa"]
    exact = agreement(confusion(reference, label))
    assert alone == pytest.approx((exact.kappa_low, exact.kappa_high), abs=0.02)
    # Every reply ten times under its own prompt tells nothing new; as prompts of their own they would.
    ten = [np.repeat(values, 10) for values in (reference, label, np.arange(300))]
    assert kappa_intervals(*ten)["kappa"] == pytest.approx(alone, abs=0.01)
    apart = kappa_intervals(ten[0], ten[1], np.arange(3000))["kappa"]
    assert apart[1] - apart[0] < 0.5 * (alone[1] - alone[0])
    assert kappa_intervals(reference, label, np.arange(300)) == kappa_intervals(reference, label, np.arange(300))


def test_below_ten_groups_there_is_no_interval() -> None:
    reference, label = np.array([0, 1, 2, 0, 1, 2] * 10), np.array([0, 1, 2, 2, 1, 1] * 10)
    assert np.isnan(kappa_intervals(reference, label, np.arange(60) % 9)["kappa"]).all()
    assert not np.isnan(kappa_intervals(reference, label, np.arange(60) % 10)["kappa_unweighted"]).any()


@pytest.mark.parametrize("count", [12, 60])
def test_the_interval_covers_where_groups_agree_more_or_less(count: int) -> None:
    """Groups of 5 replies that a judge reads well or badly; kappa of a large draw is the truth."""
    rng = np.random.default_rng(count)

    def draw(groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        group = np.repeat(np.arange(groups), 5)
        reference = np.where(rng.random(len(group)) < 0.6, rng.integers(0, 3, groups)[group], rng.integers(0, 3))
        right = rng.random(len(group)) < rng.beta(3, 1, groups)[group]
        return reference, np.where(right, reference, rng.integers(0, 3, len(group))), group

    truth = kappas(confusion(*draw(100_000)[:2]))["kappa"]
    held = []
    for _ in range(150):
        low, high = kappa_intervals(*draw(count), resamples=500)["kappa"]
        held.append(low < truth < high)
    assert np.mean(held) > 0.9
