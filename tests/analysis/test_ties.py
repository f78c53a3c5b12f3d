from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from analysis_frames import exact, model_counts, quick
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.analysis.ties import TOLERANCE, sign, snap

# Values a few tenths of the tolerance apart, so that ties and near ties both occur.
near = st.integers(0, 60).map(lambda step: 0.5 + step * TOLERANCE / 4)


def test_sign_reads_float_noise_as_a_tie():
    noise = np.array([0.1 + 0.2 - 0.3, 0.3 - (0.1 + 0.2), 0.0])
    assert noise.any()
    assert sign(noise).tolist() == [0, 0, 0]
    assert sign([1e-10, -1e-10, 0.4, -1]).tolist() == [1, -1, 1, -1]


def test_sign_of_nan_raises():
    with pytest.raises(ValueError, match="nan"):
        sign([0.1, np.nan])


def test_sign_of_nothing_is_nothing():
    assert sign([]).tolist() == []


@quick
@given(st.lists(near, max_size=12))
def test_snap_is_idempotent_and_keeps_the_order(values):
    once = snap(values)
    assert snap(once).tolist() == once.tolist()
    assert all(once <= np.array(values)), "a run of ties takes its smallest member"
    assert all(np.array(values) - once <= TOLERANCE)
    order = np.argsort(values, kind="stable")
    assert (np.diff(once[order]) >= 0).all()
    assert all(step == 0 or step > TOLERANCE for step in np.diff(once[order]))


def test_snap_keeps_nan_and_the_callers_array():
    values = np.array([np.nan, 0.3, 0.1 + 0.2, 0.1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        snapped = snap(values)
    assert np.isnan(snapped[0])
    assert snapped[1] == snapped[2] == 0.3
    assert values[2] != 0.3


def test_snap_does_not_chain_through_many_small_steps():
    values = 0.6 * TOLERANCE * np.arange(50)
    assert len(np.unique(snap(values))) == 25


def pairs_of(labels):
    return st.tuples(labels, labels)


@quick
@given(pairs_of(model_counts), st.integers(0, 4))
def test_scores_at_quarters_are_told_apart_exactly(pair, quarters):
    t = Fraction(quarters, 4)
    floats = [counts[2] / sum(counts) + float(t) * (counts[1] / sum(counts)) for counts in pair]
    difference = exact(pair[0], t) - exact(pair[1], t)
    assert int(sign(floats[0] - floats[1])) == (difference > 0) - (difference < 0)


# The largest n that the tolerance is made for, and its neighbour: (n - 1) m - (m - 1) n = 1, the smallest difference.
LARGEST = 30_000


def test_the_closest_scores_at_quarters_are_told_apart():
    n, m = LARGEST, LARGEST - 1
    assert Fraction(n - 1, 4 * n) - Fraction(m - 1, 4 * m) == Fraction(1, 4 * n * m) > 10 * Fraction(TOLERANCE)
    assert sign(0.25 * ((n - 1) / n) - 0.25 * ((m - 1) / m)) == 1


def test_the_closest_dropped_scores_are_told_apart():
    decisive, other = LARGEST, LARGEST - 1
    floats = [
        (a / LARGEST) / (a / LARGEST + (whole - a) / LARGEST)
        for a, whole in ((decisive - 1, decisive), (other - 1, other))
    ]
    assert floats[0] != floats[1]
    assert sign(floats[0] - floats[1]) == 1
    assert Fraction(1, LARGEST**2) > 100 * Fraction(TOLERANCE)


@quick
@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 900), st.integers(0, 50))
def test_equal_dropped_scores_tie_whatever_n_is(safe, harmful, times, ambiguous):
    small, large = safe + harmful + ambiguous, (safe + harmful) * times + ambiguous
    first = (safe / small) / (safe / small + harmful / small)
    second = (safe * times / large) / (safe * times / large + harmful * times / large)
    assert sign(first - second) == 0


def test_adjusted_scores_at_one_n_are_told_apart_and_at_two_may_tie():
    """S_adj has the denominator 2 n^2: two different ones can be closer than the tolerance only if n differs."""
    assert Fraction(1, 2 * LARGEST**2) > Fraction(TOLERANCE)
    assert Fraction(1, 2 * LARGEST**2 * (LARGEST - 1) ** 2) < Fraction(TOLERANCE)
