from __future__ import annotations

import pandas as pd
import pytest
from analysis_frames import outcome_frame, quick, suite_counts
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.analysis.bounds import pair_orders
from slmsafety.analysis.rankings import ranks
from slmsafety.analysis.rounding import gaps, identities, rank_change_check, strict_pair_range
from slmsafety.analysis.treatments import adjusted_score

NUMBERS = ["mean", "hcr", "ar", "srr", "s_adj"]


@quick
@given(suite_counts)
def test_numbers_that_were_only_rounded_satisfy_every_identity(counts):
    frame = outcome_frame(counts)
    printed = frame.assign(s_adj=adjusted_score(frame))[NUMBERS].round(2)
    assert identities(printed).all(axis=None)


def test_a_number_too_far_off_breaks_its_identity_only():
    # SRR + AR / 2 reaches .5075 at most, so that a print of .51 (from .505) still meets it and .52 does not.
    good = pd.DataFrame([{"mean": 0.50, "hcr": 0.30, "ar": 0.40, "srr": 0.30, "s_adj": 0.30}])
    assert identities(good).iloc[0].tolist() == [True, True, True]
    shifted = good.assign(mean=[0.51])
    assert identities(shifted)["mean_can_hold"].item()
    assert not identities(good.assign(mean=0.52))["mean_can_hold"].item()
    assert identities(good.assign(hcr=0.31)).iloc[0].tolist() == [True, True, True]
    assert identities(good.assign(hcr=0.32)).iloc[0].tolist() == [True, False, True]
    assert identities(good.assign(hcr=0.28)).iloc[0].tolist() == [True, False, True]
    # mean (1 - AR) lies in [.495 x .595, .505 x .605] = [.2945, .3055], prints of .29 to .31
    assert [
        bool(identities(good.assign(s_adj=value))["s_adj_can_hold"].item()) for value in (0.28, 0.29, 0.31, 0.32)
    ] == [
        False,
        True,
        True,
        False,
    ]


def test_identities_of_nothing():
    assert list(identities(pd.DataFrame(columns=NUMBERS, dtype=float)).columns) == [
        "mean_can_hold",
        "shares_can_hold",
        "s_adj_can_hold",
    ]


@quick
@given(suite_counts, st.integers(0, 3))
def test_true_rank_changes_are_always_allowed(counts, decimals):
    frame = outcome_frame(counts)
    frame = frame.assign(s_adj=adjusted_score(frame))
    change = ranks(frame["mean"]) - ranks(frame["s_adj"])
    printed = frame.assign(rank_change=change, mean=frame["mean"].round(decimals), s_adj=frame["s_adj"].round(decimals))
    got = rank_change_check(printed)
    assert got["allowed"].all()
    assert (got["lowest"] <= got["rank_change"]).all() and (got["rank_change"] <= got["highest"]).all()


def printed_ranks() -> pd.DataFrame:
    rows = [("b", "x", 0.9, 0.1, -2), ("a", "x", 0.5, 0.5, 0), ("b", "y", 0.8, 0.3, 1), ("b", "z", 0.7, 0.3, 1)]
    return pd.DataFrame(rows, columns=["suite", "model", "mean", "s_adj", "rank_change"])


def test_rank_change_is_checked_within_the_suite_and_up_is_positive():
    got = rank_change_check(printed_ranks()).set_index(["suite", "model"])
    assert got.loc["b", "rank_change"].to_dict() == {"x": -2, "y": 0.5, "z": 1.5}
    assert got.loc["b", "lowest"].to_dict() == {"x": -2, "y": 0, "z": 1}
    assert got.loc["b", "highest"].to_dict() == {"x": -2, "y": 1, "z": 2}
    assert got["allowed"].all() and got.loc[("a", "x"), "rank_change"] == 0
    wrong = rank_change_check(printed_ranks().assign(rank_change=[2, 0, 1, 1]))
    assert wrong.loc[~wrong["allowed"], "model"].tolist() == ["x"]


def test_a_missing_score_leaves_its_own_row_open():
    got = rank_change_check(
        printed_ranks().assign(mean=[None, 0.5, 0.8, 0.7], rank_change=[-2, 0, 0, 0]).astype({"mean": float})
    )
    assert got["allowed"].isna().tolist() == [True, False, False, False]


def test_rank_change_of_nothing():
    got = rank_change_check(printed_ranks().iloc[:0])
    assert got.empty and list(got.columns) == list(rank_change_check(printed_ranks()).columns)


@quick
@given(suite_counts, st.integers(1, 3))
def test_the_pairs_that_keep_their_order_lie_in_what_rounding_allows(counts, decimals):
    frame = outcome_frame(counts)
    true = pair_orders(frame).set_index("suite")["strict"]
    printed = frame.assign(hcr=frame["hcr"].round(decimals), srr=frame["srr"].round(decimals))
    got = strict_pair_range(printed).set_index("suite")
    assert (got["fewest"] <= true).all() and (true <= got["most"]).all() and (got["most"] <= got["pairs"]).all()


def test_equal_prints_leave_a_pair_open():
    rows = [("x", 0.5, 0.3), ("y", 0.4, 0.3), ("z", 0.3, 0.1)]
    got = strict_pair_range(pd.DataFrame(rows, columns=["model", "srr", "hcr"]).assign(suite="s"))
    # x and y are level at the upper end; z is below both at the lower end and above both at the upper one.
    assert got.to_dict("records") == [{"suite": "s", "pairs": 3, "fewest": 0, "most": 1}]


def test_gaps_are_recomputed_minus_printed_in_the_order_of_print():
    printed = pd.DataFrame({"key": ["y", "x", "z"], "r": [0.1, 0.2, 0.3], "p": [1.0, 1.0, 1.0]})
    recomputed = pd.DataFrame({"r": [0.25, 0.15, 0.9], "key": ["x", "y", "other"]})
    got = gaps(recomputed, printed, "key", ["r"])
    assert list(got.columns) == ["key", "r"] and got["key"].tolist() == ["y", "x", "z"]
    assert got["r"].tolist() == pytest.approx([0.05, 0.05, float("nan")], nan_ok=True)
    assert gaps(recomputed.iloc[:0], printed.iloc[:0], "key", ["r"]).empty
