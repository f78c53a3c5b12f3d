from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from analysis_frames import exact, outcome_frame, quick, suite_counts
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, norm
from scipy.stats import t as student

from slmsafety.analysis.rankings import (
    of_models,
    possible_ranks,
    rank_agreement,
    rank_change,
    rank_ranges,
    rank_within_suites,
    ranks,
    size_steps,
    size_trend,
    tau,
)


def by_definition(values: list[Fraction]) -> list[float]:
    """The mean of the places that a value could take among its equals."""
    return [1 + sum(other > value for other in values) + (values.count(value) - 1) / 2 for value in values]


@quick
@given(suite_counts, st.sampled_from([Fraction(step, 4) for step in range(5)]))
def test_ranks_are_the_average_ranks_of_the_exact_scores(counts, t):
    frame = outcome_frame(counts)
    got = ranks(frame["srr"] + float(t) * frame["ar"])
    assert got.tolist() == by_definition([exact(each, t) for each in counts])
    assert got.sum() == len(counts) * (len(counts) + 1) / 2


@quick
@given(suite_counts, st.lists(st.integers(0, 7), min_size=1, max_size=3))
def test_nan_stays_nan_and_others_are_unaffected(counts, places):
    scores = outcome_frame(counts)["mean"].tolist()
    with_gaps: list[float] = list(scores)
    for place in places:
        with_gaps.insert(place, np.nan)
    got = ranks(pd.Series(with_gaps))
    assert got.isna().tolist() == np.isnan(with_gaps).tolist()
    assert got.dropna().tolist() == ranks(pd.Series(scores)).tolist()


@quick
@given(suite_counts, st.randoms(use_true_random=False))
def test_ranks_follow_their_rows(counts, random):
    scores = outcome_frame(counts).set_index("model")["mean"]
    order = list(scores.index)
    random.shuffle(order)
    pd.testing.assert_series_equal(ranks(scores[order])[scores.index], ranks(scores))


def test_one_is_best_and_float_noise_ties():
    assert ranks(pd.Series([0.3, 0.1 + 0.2, 0.9, 0.1], index=list("abcd"))).to_dict() == {
        "a": 2.5,
        "b": 2.5,
        "c": 1,
        "d": 4,
    }


def test_ranks_of_nothing_and_of_nan_only():
    assert ranks(pd.Series([], dtype=float)).empty
    assert ranks(pd.Series([np.nan, np.nan])).isna().all()


def test_rank_within_suites_and_treatments():
    frame = pd.DataFrame(
        [("a", "0", 0.2), ("b", "0", 0.1), ("a", "0", 0.4), ("a", "1", 0.9), ("b", "0", 0.3), ("a", "1", 0.8)],
        columns=["suite", "treatment", "score"],
    )
    assert rank_within_suites(frame).tolist() == [2, 2, 1, 1, 1, 2]
    assert rank_within_suites(frame.drop(columns="treatment")).tolist() == [4, 2, 3, 1, 1, 2]
    assert rank_within_suites(frame.rename(columns={"score": "mean"}), "mean").tolist() == [2, 2, 1, 1, 1, 2]
    assert rank_within_suites(frame.iloc[:0]).empty


def test_rank_ranges_leave_nan_out():
    frame = pd.DataFrame(
        [("s", "a", 3.0), ("s", "b", 1.5), ("s", "a", 1.0), ("s", "b", np.nan), ("s", "c", np.nan), ("t", "a", 7.0)],
        columns=["suite", "model", "rank"],
    )
    got = rank_ranges(frame).set_index(["suite", "model"])
    assert got.loc[("s", "a")].tolist() == [1, 3, 2]
    assert got.loc[("s", "b")].tolist() == [1.5, 1.5, 0]
    assert got.loc[("s", "c")].isna().all()
    assert got.loc[("t", "a")].tolist() == [7, 7, 0]
    assert rank_ranges(frame.iloc[:0]).empty


def two_suites(first: list[float], second: list[float]) -> pd.DataFrame:
    names = [f"m{number:02}" for number in range(len(first))]
    return pd.concat(
        [
            pd.DataFrame({"suite": "b", "model": names, "mean": first}),
            pd.DataFrame({"suite": "a", "model": names, "mean": second}),
        ],
        ignore_index=True,
    )


@quick
@given(st.permutations(range(12)))
def test_tau_equals_scipy_without_ties(order):
    scores = np.arange(12) / 12
    expected = kendalltau(np.arange(12), order).statistic
    got = rank_agreement(two_suites(list(scores), list(scores[list(order)])), np.random.default_rng(0), resamples=20)
    assert got["tau"].item() == pytest.approx(expected)
    assert got[["suite_a", "suite_b", "n"]].to_numpy().tolist() == [["b", "a", 12]]
    assert -1 <= got["low"].item() <= got["high"].item() <= 1


def test_tau_reads_float_noise_as_a_tie():
    assert tau(np.array([0.3, 0.1 + 0.2, 0.9]), np.array([1.0, 2.0, 3.0])) == pytest.approx(2 / np.sqrt(6))


def test_tau_is_nan_for_one_model_or_a_constant():
    assert np.isnan(tau(np.array([0.3]), np.array([0.4])))
    assert np.isnan(tau(np.array([]), np.array([])))
    assert np.isnan(tau(np.array([0.3, 0.1 + 0.2]), np.array([0.4, 0.5])))


RANDOM = np.random.default_rng(7).random((2, 14)).round(2)


def interval(frame: pd.DataFrame, seed: int) -> list[float]:
    got = rank_agreement(frame, np.random.default_rng(seed), resamples=200)
    return got[["low", "high"]].iloc[0].tolist()


def test_a_seed_fixes_the_interval():
    frame = two_suites(*RANDOM.tolist())
    assert interval(frame, 1) == interval(frame, 1)
    assert interval(frame, 1) != interval(frame, 2)


def test_the_interval_is_percentiles_of_tau_over_resampled_models():
    first, second = RANDOM
    draws = np.random.default_rng(3).integers(14, size=(200, 14))
    taus = [kendalltau(first[draw], second[draw]).statistic for draw in draws]
    got = interval(two_suites(first.tolist(), second.tolist()), 3)
    # As far out as t with 13 degrees of freedom is from the mean of 14 models.
    reach = norm.sf(np.sqrt(14 / 13) * student.ppf(0.975, 13))
    assert got == pytest.approx(np.quantile(taus, [reach, 1 - reach]))


def test_float_noise_does_not_move_the_interval():
    values = [0.3] * 6 + [0.5] * 5 + [0.7] * 3
    noisy = [value + (1e-16 * number if number % 2 else 0) for number, value in enumerate(values)]
    assert noisy != values
    assert interval(two_suites(noisy, RANDOM[1].tolist()), 5) == interval(two_suites(values, RANDOM[1].tolist()), 5)


def test_the_interval_needs_ten_models_that_both_suites_scored():
    nine, ten = (two_suites(*RANDOM[:, :count].tolist()) for count in (9, 10))
    assert np.isnan(interval(nine, 0)).all()
    assert not np.isnan(interval(ten, 0)).any()
    one_lost = rank_agreement(ten.iloc[1:], np.random.default_rng(0), resamples=20).iloc[0]
    assert one_lost["n"] == 9 and np.isnan(one_lost["low"]) and not np.isnan(one_lost["tau"])
    unscored = ten.assign(mean=ten["mean"].where(ten.index != 0))
    assert rank_agreement(unscored, np.random.default_rng(0), resamples=20)["n"].item() == 9


def test_a_constant_suite_has_no_tau_and_no_interval():
    got = rank_agreement(two_suites([0.5] * 12, list(np.arange(12) / 12)), np.random.default_rng(0), resamples=20)
    assert got[["tau", "low", "high"]].isna().all(axis=None)


def test_agreement_of_fewer_than_two_suites_is_empty():
    frame = two_suites([0.1, 0.2], [0.2, 0.1])
    for part in (frame.iloc[:0], frame.iloc[:1], frame.iloc[:2]):
        got = rank_agreement(part, np.random.default_rng(0))
        assert got.empty and list(got.columns) == ["suite_a", "suite_b", "tau", "low", "high", "n"]


def test_agreement_has_one_row_for_each_two_suites():
    frame = pd.concat([two_suites([0.1, 0.2], [0.2, 0.1]), two_suites([0.3, 0.4], [0, 0]).iloc[:2].assign(suite="c")])
    got = rank_agreement(frame, np.random.default_rng(0))
    assert got[["suite_a", "suite_b", "tau"]].to_numpy().tolist() == [["b", "a", -1], ["b", "c", 1], ["a", "c", -1]]


def test_systems_of_one_model_are_drawn_together():
    """Twelve systems of three models are no twelve models: no interval. Thirty of ten have one, wider than thirty."""
    rng = np.random.default_rng(4)
    own = np.repeat(rng.normal(size=10), 3)
    a, b = own + rng.normal(scale=0.1, size=30), own + rng.normal(scale=0.1, size=30)
    frame = two_suites(list(a), list(b))
    cards = frame.assign(card="c" + (frame["model"].str[1:].astype(int) // 3).astype(str))
    few = cards[cards["card"].isin(["c0", "c1", "c2", "c3"])]
    assert rank_agreement(few, np.random.default_rng(0), resamples=20)["low"].isna().item()
    assert rank_agreement(few.drop(columns="card"), np.random.default_rng(0), resamples=20)["low"].notna().item()
    together, apart = (interval(each, 5) for each in (cards, frame))
    assert together[1] - together[0] > apart[1] - apart[0] + 0.02
    assert rank_agreement(few, np.random.default_rng(0), resamples=1)[["n", "models"]].values.tolist() == [[12, 4]]
    alone = frame.assign(card=frame["model"])
    assert "models" not in rank_agreement(alone, np.random.default_rng(0), resamples=1)
    assert interval(alone, 5) == apart, "a model with one system is drawn as before"


def test_outcomes_of_models_are_the_means_of_their_systems():
    rows = [("s", "m", "m", 0.2), ("s", "m-safe", "m", 0.6), ("s", "n", "n", 0.5), ("t", "m-safe", "m", np.nan)]
    frame = pd.DataFrame(rows, columns=["suite", "model", "card", "mean"]).assign(family="f", params_m=[1, 1, 2, 1])
    got = of_models(frame)
    assert got[["suite", "model"]].to_numpy().tolist() == [["s", "m"], ["s", "n"], ["t", "m"]]
    assert got["mean"].tolist() == pytest.approx([0.4, 0.5, np.nan], nan_ok=True)
    # Two systems of one size are no step in size.
    assert size_steps(got)["change"].tolist() == pytest.approx([0.1])
    for same in (frame.drop(columns="card"), frame.iloc[[0, 2]]):
        pd.testing.assert_frame_equal(of_models(same), same)


def test_size_steps_go_up_within_a_family():
    frame = pd.DataFrame(
        [
            ("s", "f", "large", 700, 0.2),
            ("s", "f", "small", 100, 0.5),
            ("s", "f", "middle", 300, 0.6),
            ("s", "f", "unsized", np.nan, 0.9),
            ("s", "alone", "one", 100, 0.5),
            ("t", "f", "twin b", 100, 0.4),
            ("t", "f", "twin a", 100, 0.5),
            ("t", "f", "unscored", 200, np.nan),
        ],
        columns=["suite", "family", "model", "params_m", "mean"],
    )
    got = size_steps(frame)
    assert got.iloc[:, :4].to_numpy().tolist() == [
        ["s", "f", "small", "middle"],
        ["s", "f", "middle", "large"],
        ["t", "f", "twin b", "unscored"],
    ], "equal sizes are no step"
    assert got["change"].tolist() == pytest.approx([0.1, -0.4, np.nan], nan_ok=True)
    assert list(size_steps(frame.iloc[:0]).columns) == ["suite", "family", "smaller", "larger", "change"]


def test_a_rank_change_counts_places_up_within_the_suite():
    scores = pd.DataFrame(
        {"suite": list("aaabb"), "old": [0.9, 0.8, 0.7, 0.1, 0.2], "new": [0.1, 0.5, 0.5, 0.3, np.nan]}
    )
    got = rank_change(scores, "old", "new")
    assert got.tolist() == pytest.approx([1 - 3, 2 - 1.5, 3 - 1.5, 2 - 1, np.nan], nan_ok=True)


def trend_rows(sizes: list[float], means: list[float], families: list[str]) -> pd.DataFrame:
    models = [f"m{number}" for number in range(len(sizes))]
    return pd.DataFrame({"suite": "s", "model": models, "family": families, "params_m": sizes, "mean": means})


def test_a_size_trend_counts_rises_falls_and_level_steps():
    # In floats 0.3 - 0.2 and the like are no exact hundredths: equal prints are level all the same.
    frame = trend_rows([1, 2, 3, 4, 1, 2, np.nan], [0.1 + 0.2, 0.3, 0.5, 0.4, 0.2, np.nan, 0.9], list("ffffggg"))
    (row,) = size_trend(frame, np.random.default_rng(0), resamples=1).to_dict("records")
    assert [row[name] for name in ("steps", "rises", "falls", "level", "models", "families")] == [3, 1, 1, 1, 5, 2]
    assert row["mean_change"] == pytest.approx(0.1 / 3) and np.isnan(row["tau_low"])
    # Sizes 1 2 3 4 1, scores .3 .3 .5 .4 .2: of 10 pairs one is tied in size, another in score; 7 agree and 1 does not.
    assert row["tau"] == pytest.approx((7 - 1) / 9)


def test_a_size_trend_without_steps_or_without_scores():
    alone = trend_rows([1, 2], [0.5, 0.5], ["f", "g"])
    (row,) = size_trend(alone, np.random.default_rng(0), resamples=1).to_dict("records")
    assert row["steps"] == 0 and np.isnan(row["mean_change"]) and np.isnan(row["tau"])
    assert size_trend(alone.assign(mean=np.nan), np.random.default_rng(0)).empty


def test_the_interval_of_a_size_trend_covers_over_families():
    # Families share an effect, so that models are no independent draws; tau of normals is 2 / pi arcsin(r).
    rng, slope, held = np.random.default_rng(11), 0.7, 0
    spread = np.sqrt(slope**2 + 0.5**2 + 1)
    true, draws = 2 / np.pi * np.arcsin(slope / spread), 60
    families = np.repeat(np.arange(20), 2)
    for _ in range(draws):
        sizes = rng.normal(size=40)
        means = slope * sizes + 0.5 * rng.normal(size=20)[families] + rng.normal(size=40)
        frame = trend_rows(list(sizes), list(means), [f"f{number}" for number in families])
        (row,) = size_trend(frame, rng, resamples=80).to_dict("records")
        held += row["tau_low"] <= true <= row["tau_high"]
    assert held / draws >= 0.85


def test_possible_ranks_of_equal_prints_overlap():
    got = possible_ranks(pd.Series([0.5, 0.4, 0.5, np.nan, 0.3], index=list("abcde")))
    assert got["best"].tolist() == [1, 3, 1, pd.NA, 4]
    assert got["worst"].tolist() == [2, 3, 2, pd.NA, 4]
    assert possible_ranks(pd.Series([], dtype=float)).empty


@quick
@given(st.lists(st.integers(0, 99_999), min_size=1, max_size=12, unique=True))
def test_possible_ranks_hold_the_rank_before_rounding(unrounded):
    printed = pd.Series([round(value / 100_000, 2) for value in unrounded])
    got = possible_ranks(printed)
    true = [1 + sum(other > value for other in unrounded) for value in unrounded]
    assert (got["best"] <= true).all() and (true <= got["worst"]).all()
