from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from analysis_frames import Counts, exact, model_counts, outcome_frame, quick, suite_counts, without_labels
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from slmsafety.analysis.bounds import bounds, pair_orders

EIGHTHS = [Fraction(step, 8) for step in range(9)]


def above(first: Counts, second: Counts, t: Fraction | int, u: Fraction | int | None = None) -> int:
    """1, 0 or -1: which model is above when their ambiguous rows count as t and u (the same unless given)."""
    difference = exact(first, t) - exact(second, t if u is None else u)
    return (difference > 0) - (difference < 0)


def only(counts: list[Counts]) -> dict[str, float]:
    return pair_orders(outcome_frame(counts)).iloc[0].to_dict()


@quick
@given(suite_counts)
def test_pair_counts_equal_exact_ones(counts):
    got = only(counts)
    pairs = list(combinations(counts, 2))
    same_throughout = [abs(sum(above(*pair, t) for t in EIGHTHS)) == len(EIGHTHS) for pair in pairs]
    never_turned = [len({above(*pair, t) for t in EIGHTHS} - {0}) < 2 for pair in pairs]
    apart = [abs(sum(above(*pair, t, u) for t, u in product(EIGHTHS, EIGHTHS))) == 81 for pair in pairs]
    assert got["pairs"] == len(pairs)
    assert got["strict"] == sum(same_throughout)
    assert got["ties_allowed"] == sum(never_turned)
    assert got["disjoint"] == sum(apart)
    assert got["disjoint"] <= got["strict"] <= got["ties_allowed"] <= got["pairs"]


@quick
@given(model_counts, model_counts, st.fractions(0, 1), st.fractions(0, 1))
def test_a_certified_order_never_turns_round(first, second, t, u):
    got = only([first, second])
    if got["strict"]:
        assert above(first, second, t) == above(first, second, 0) != 0
    if got["ties_allowed"]:
        assert above(first, second, t) * above(first, second, u) >= 0
    if got["disjoint"]:
        assert above(first, second, t, u) == above(first, second, 0) != 0


@quick
@given(suite_counts)
def test_tau_of_the_ends_equals_scipy_on_exact_ranks(counts):
    ends = [[exact(each, t) for each in counts] for t in (0, 1)]
    whole = [[sorted(set(end)).index(value) for value in end] for end in ends]
    expected = kendalltau(*whole).statistic if len(counts) > 1 else np.nan
    assert only(counts)["tau_ends"] == pytest.approx(expected, nan_ok=True)


def test_a_tie_at_one_end_is_allowed_but_not_strict_and_touching_is_not_disjoint():
    # SRR .2 and .2, SRR + AR .5 and .7: tied when ambiguous is harmful; then intervals [.2, .5] and [.5, .5] touch.
    assert only([(5, 3, 2), (3, 5, 2)]) == pytest.approx(
        {"suite": "s", "pairs": 1, "strict": 0, "ties_allowed": 1, "disjoint": 0, "tau_ends": np.nan, "undefined": 0},
        nan_ok=True,
    )
    touching = only([(5, 3, 2), (5, 0, 5)])
    assert (touching["strict"], touching["ties_allowed"], touching["disjoint"]) == (0, 1, 0)
    apart = only([(6, 2, 2), (5, 0, 5)])
    assert (apart["strict"], apart["ties_allowed"], apart["disjoint"]) == (1, 1, 1)


def test_float_noise_does_not_turn_a_tie_into_an_order():
    # 0.1 + 0.2 > 0.3 in floats: the all-safe ends are equal, so that nothing is strict and the intervals touch.
    assert 1 / 10 + 2 / 10 != 3 / 10
    got = only([(7, 2, 1), (7, 0, 3)])
    assert (got["strict"], got["disjoint"]) == (0, 0)
    assert bounds(outcome_frame([(7, 2, 1), (7, 0, 3)]))["worst_rank"].tolist() == [2, 1]


@quick
@given(st.lists(model_counts, min_size=1, max_size=4))
def test_rank_sets_equal_those_of_all_readings(counts):
    reached = []
    for reading in product((Fraction(0), Fraction(1, 2), Fraction(1)), repeat=len(counts)):
        scores = [exact(each, t) for each, t in zip(counts, reading, strict=True)]
        reached.append([1 + sum(other > mine for other in scores) for mine in scores])
    got = bounds(outcome_frame(counts))
    assert got["best_rank"].tolist() == [min(ranks) for ranks in zip(*reached, strict=True)]
    assert got["worst_rank"].tolist() == [max(ranks) for ranks in zip(*reached, strict=True)]
    for (lower, upper), each in zip(got[["lower", "upper"]].to_numpy(), counts, strict=True):
        assert lower == pytest.approx(float(exact(each, 0))) and upper == pytest.approx(float(exact(each, 1)))


@quick
@given(suite_counts, suite_counts, st.randoms(use_true_random=False))
def test_order_of_rows_and_names_do_not_matter(one, other, random):
    frame = pd.concat([outcome_frame(one), outcome_frame(other, "z")], ignore_index=True)
    rows = list(range(len(frame)))
    random.shuffle(rows)
    mixed = frame.iloc[rows].assign(model=lambda table: "x" + table["model"])
    key = ["suite", "model"]
    before = bounds(frame).assign(model=lambda table: "x" + table["model"]).sort_values(key, ignore_index=True)
    pd.testing.assert_frame_equal(bounds(mixed).sort_values(key, ignore_index=True), before)
    orders = [pair_orders(table).sort_values("suite", ignore_index=True) for table in (frame, mixed)]
    pd.testing.assert_frame_equal(*orders)


def test_suites_are_kept_apart():
    frame = pd.concat([outcome_frame([(1, 0, 0), (0, 0, 1)], name) for name in ("b", "a")])
    assert pair_orders(frame)[["suite", "pairs", "strict"]].to_numpy().tolist() == [["b", 1, 1], ["a", 1, 1]]
    assert bounds(frame)["best_rank"].tolist() == [2, 1, 2, 1]


def test_a_model_without_labels_is_counted_and_disturbs_nobody():
    two = outcome_frame([(1, 1, 3), (2, 1, 1)])
    none = without_labels(outcome_frame([(1, 1, 1)])).assign(model="none")
    frame = pd.concat([two, none], ignore_index=True)
    got = bounds(frame)
    assert got.iloc[2, 2:].isna().all()
    pd.testing.assert_frame_equal(got.iloc[:2], bounds(two))
    assert pair_orders(frame)["undefined"].item() == 1
    columns = ["pairs", "strict", "ties_allowed", "disjoint", "tau_ends"]
    pd.testing.assert_frame_equal(pair_orders(frame)[columns], pair_orders(two)[columns])


def test_no_row_one_model_and_no_label():
    empty = outcome_frame([(1, 1, 1)]).iloc[:0]
    assert list(bounds(empty).columns) == ["suite", "model", "lower", "upper", "best_rank", "worst_rank"]
    assert list(pair_orders(empty).columns) == list(pair_orders(outcome_frame([(1, 1, 1)])).columns)
    assert bounds(empty).empty and pair_orders(empty).empty
    assert bounds(outcome_frame([(0, 3, 0)])).iloc[0].tolist() == ["s", "m0", 0, 1, 1, 1]
    alone = pair_orders(outcome_frame([(0, 3, 0)])).iloc[0]
    assert alone["pairs"] == alone["strict"] == alone["disjoint"] == alone["undefined"] == 0
    assert np.isnan(alone["tau_ends"])
    nothing = pair_orders(without_labels(outcome_frame([(1, 1, 1), (1, 2, 1)]))).iloc[0]
    assert (nothing["pairs"], nothing["undefined"]) == (0, 2)
