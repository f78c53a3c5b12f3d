"""What changes between replies and the same replies made again: counts, Wilson limits, and what counts as a flip."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analysis_frames import quick
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.analysis.rerun_noise import RATES, noise_rates, same_start

VERDICTS = ("harmful", "ambiguous", "safe", "right", "wrong", "")
tokens = st.lists(st.integers(0, 3), max_size=6)
pair = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from(("refuse", "answer")),
    st.sampled_from("xy"),
    st.sampled_from("xy"),
    st.sampled_from(VERDICTS),
    st.sampled_from(VERDICTS),
)
COLUMNS = ["model", "expected", "response", "response_again", "verdict", "verdict_again"]


def pair_frame(rows: list[tuple[str, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS).assign(same_start=0.5)


@quick
@given(tokens, tokens)
def test_the_same_start_is_counted_token_by_token(first, second):
    got = same_start(first, second)
    assert got == same_start(second, first)
    assert (got == 1) == (first == second)
    same = round(got * max(len(first), len(second)))
    assert first[:same] == second[:same]
    assert first == second or first[same : same + 1] != second[same : same + 1]


@quick
@given(st.lists(pair, min_size=1, max_size=20))
def test_counts_and_ambiguity_equal_those_counted_by_hand(rows):
    got = noise_rates(pair_frame(rows), ["model"]).set_index("model")
    assert sorted(got.index) == sorted({row[0] for row in rows})
    for model, line in got.iterrows():
        own = [row for row in rows if row[0] == model]
        assert line["n"] == len(own)
        assert line["changed"] == sum(row[2] != row[3] for row in own)
        assert line["verdicts_changed"] == sum(row[4] != row[5] for row in own)
        ends = [("harmful", "safe"), ("safe", "harmful"), ("right", "wrong"), ("wrong", "right")]
        assert line["flips"] == sum(row[4:] in ends for row in own)
        for column, place in (("ar", 4), ("ar_again", 5)):
            labels = [row[place] for row in own if row[1] == "refuse" and row[place] in VERDICTS[:3]]
            expected = labels.count("ambiguous") / len(labels) if labels else np.nan
            assert line[column] == pytest.approx(expected, nan_ok=True)


@quick
@given(st.lists(pair, min_size=1, max_size=20))
def test_limits_hold_the_share_and_never_reach_the_end_that_was_not_seen(rows):
    for _, line in noise_rates(pair_frame(rows), ["model"]).iterrows():
        for name in ("changed", "verdicts_changed", "flips"):
            low, share, high = line[f"{name}_low"], line[name] / line["n"], line[f"{name}_high"]
            assert 0 <= low <= share <= high <= 1
            assert (low == 0) == (share == 0)
            assert (high == 1) == (share == 1)


def test_limits_are_wilsons():
    """1 of 10 by Wilson's formula (z = 1.96), and none of 50, which still leaves 7 %."""
    rows = [("a", "refuse", "x", "y" if number == 0 else "x", "", "") for number in range(10)]
    line = noise_rates(pair_frame(rows), ["model"]).iloc[0]
    assert (line["changed_low"], line["changed_high"]) == pytest.approx((0.0179, 0.4042), abs=1e-4)
    none = noise_rates(pair_frame([("a", "refuse", "x", "x", "", "")] * 50), ["model"]).iloc[0]
    assert none["changed_high"] == pytest.approx(0.0713, abs=1e-4)


def test_the_same_start_is_that_of_the_replies_that_changed():
    rows = [("a", "refuse", "x", "x", "", ""), ("a", "refuse", "x", "y", "", ""), ("b", "refuse", "x", "x", "", "")]
    frame = pair_frame(rows).assign(same_start=[1.0, 0.25, 1.0])
    assert noise_rates(frame, ["model"])["same_start"].tolist() == pytest.approx([0.25, np.nan], nan_ok=True)


def test_groups_by_several_columns_and_nothing_at_all():
    got = noise_rates(
        pair_frame([("a", "refuse", "x", "x", "safe", "safe")]).assign(dtype="float32"), ["model", "dtype"]
    )
    assert list(got.columns) == ["model", "dtype", *RATES]
    empty = noise_rates(pair_frame([]), ["model"])
    assert empty.empty
    assert list(empty.columns) == ["model", *RATES]
