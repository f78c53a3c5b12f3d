from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analysis_frames import outcome_frame, quick, without_labels
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from slmsafety.analysis.drivers.model_metadata import (
    encoded_ranges,
    family_difference,
    group_rates,
    leave_one_family_out,
    metadata_correlations,
    model_groups,
    pooled,
)

WEIGHTS = {"s": 300, "t": 100}


def rates_of(ar: list[float], mean: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        {"ar": ar, "mean": mean}, index=pd.Index([f"m{number}" for number in range(len(ar))], name="model")
    )


def test_pooled_weighs_suites_by_their_prompts():
    frame = pd.concat(
        [outcome_frame([(1, 1, 2)], "t"), outcome_frame([(1, 3, 0)], "s"), outcome_frame([(1, 0, 0)], "other")]
    )
    got = pooled(frame, WEIGHTS)
    assert got.index.tolist() == ["m0"]
    assert got.loc["m0"].to_dict() == pytest.approx(
        {"ar": 0.75 * 0.75 + 0.25 * 0.25, "mean": 0.75 * 0.375 + 0.25 * 0.625}
    )


def test_pooled_equals_the_rate_over_all_rows():
    # 3 of 4 and 1 of 2 ambiguous: 4 of 6 over all rows
    frame = pd.concat([outcome_frame([(1, 3, 0)], "s"), outcome_frame([(0, 1, 1)], "t")])
    assert pooled(frame, {"s": 4, "t": 2})["ar"].item() == pytest.approx(4 / 6)


def test_a_model_without_one_suite_has_no_pooled_rate():
    one, both = outcome_frame([(1, 1, 1), (1, 1, 1)], "s"), outcome_frame([(1, 2, 1)], "t")
    assert pooled(pd.concat([one, both]), WEIGHTS)["ar"].isna().to_dict() == {"m0": False, "m1": True}
    assert pooled(one, WEIGHTS).isna().all(axis=None), "no model was run on t"
    assert pooled(pd.concat([one, without_labels(both)]), WEIGHTS).isna().all(axis=None)


def test_simple_safety_tests_stay_out_of_pooled_rates_as_in_table_a1():
    frame = pd.concat([outcome_frame([(1, 3, 0)], "s"), outcome_frame([(0, 0, 1)], "sst")])
    assert pooled(frame, {"s": 4, "sst": 100})["ar"].item() == pytest.approx(3 / 4)
    assert pooled(frame, {"sst": 100}).isna().all(axis=None) and pooled(frame, {}).isna().all(axis=None)


def test_systems_of_one_card_are_one_model_with_the_means_of_their_rates():
    """They share every feature: six systems of two cards give no correlation over six models."""
    frame = outcome_frame([(1, 1, 2), (0, 1, 0), (1, 3, 0), (0, 0, 1)], "s")
    got = pooled(frame.assign(card=["a", "a", "b", "m3"]), {"s": 4})
    assert got.index.tolist() == ["a", "b", "m3"] and got.index.name == "model"
    assert got["ar"].tolist() == pytest.approx([(0.25 + 1) / 2, 0.75, 0])
    assert got["mean"].tolist() == pytest.approx([(0.625 + 0.5) / 2, 0.375, 1])
    features = pd.DataFrame({"x": [1.0, 2, 3]}, index=["a", "b", "m3"])
    assert metadata_correlations(features, got)["n"].item() == 3


def test_pooled_of_nothing():
    got = pooled(outcome_frame([(1, 1, 1)]).iloc[:0], WEIGHTS)
    assert got.empty and list(got.columns) == ["ar", "mean"]


@quick
@given(st.lists(st.tuples(*[st.integers(-20, 20)] * 4), min_size=3, max_size=26))
def test_correlations_equal_numpy_and_statsmodels(rows):
    one, two, ar, mean = np.array(rows, float).T
    assume(min(np.ptp(each) for each in (one, two, ar, mean)) > 0)
    rates = rates_of(list(ar), list(mean))
    features = pd.DataFrame({"one": one, "two": two}, index=rates.index)
    got = metadata_correlations(features.iloc[::-1], rates).set_index("feature")
    for name, column in (("one", one), ("two", two)):
        assert got.loc[name, "n"] == len(rows)
        assert got.loc[name, "r_ar"] == pytest.approx(np.corrcoef(column, ar)[0, 1], abs=1e-9)
        assert got.loc[name, "r_score"] == pytest.approx(np.corrcoef(column, mean)[0, 1], abs=1e-9)
    for rate in ("ar", "score"):
        assert got[f"q_{rate}"].tolist() == pytest.approx(multipletests(got[f"p_{rate}"], method="fdr_bh")[1].tolist())


def test_features_without_a_correlation_have_nan():
    rates = rates_of([0.1, 0.4, 0.2, 0.3], [0.5, 0.1, 0.2, 0.6])
    features = pd.DataFrame(
        {
            "flag": [True, False, True, False],
            "constant": 1,
            "short": [1, 2, None, None],
            "gap": pd.array([1, 5, None, 3], "Int64"),
        },
        index=rates.index,
    ).astype({"short": "float64"})
    got = metadata_correlations(features, rates).set_index("feature")
    assert got["n"].to_dict() == {"flag": 4, "constant": 4, "short": 2, "gap": 3}
    assert got.loc[["constant", "short"], "r_ar":].isna().all(axis=None)
    assert got.loc[["flag", "gap"], "r_ar":].notna().all(axis=None)
    # Two tests, not four: the smaller p counts double.
    assert got["q_ar"].min() == pytest.approx(min(2 * got["p_ar"].min(), got["p_ar"].max()))


def test_models_without_a_rate_or_without_features_are_left_out_of_n():
    rates = rates_of([0.1, 0.4, 0.2, np.nan], [0.5, 0.1, 0.2, np.nan])
    features = pd.DataFrame({"x": [1, 2, 3, 4, 5]}, index=["m0", "m1", "m2", "m3", "m9"])
    assert metadata_correlations(features, rates)["n"].item() == 3


def test_a_constant_rate_takes_only_its_own_correlation_away():
    rates = rates_of([0.3, 0.1 + 0.2, 0.3, 0.3], [0.5, 0.1, 0.2, 0.6])
    features = pd.DataFrame({"x": [1.0, 2, 3, 4]}, index=rates.index)
    got = metadata_correlations(features, rates).iloc[0]
    assert got[["r_ar", "p_ar", "q_ar"]].isna().all()
    assert got["r_score"] == pytest.approx(np.corrcoef([1, 2, 3, 4], [0.5, 0.1, 0.2, 0.6])[0, 1])


def test_correlations_of_nothing():
    rates = rates_of([0.3, 0.2, 0.1], [0.5, 0.1, 0.2])
    assert metadata_correlations(pd.DataFrame(index=rates.index), rates).empty
    none = metadata_correlations(pd.DataFrame({"x": [1.0, 2, 3]}, index=rates.index).iloc[:0], rates.iloc[:0])
    assert none["n"].item() == 0 and np.isnan(none["r_ar"].item())


def some_models(seed: int = 3) -> tuple[pd.DataFrame, pd.DataFrame, pd.Series]:
    """Features, rates and families of nine models in four families."""
    rng = np.random.default_rng(seed)
    rates = rates_of(list(rng.random(9)), list(rng.random(9)))
    features = pd.DataFrame({"x": rng.normal(size=9), "flag": [0.0, 1] * 4 + [1]}, index=rates.index)
    return features, rates, pd.Series(list("aabbccddd"), index=rates.index)


def test_family_ranges_are_those_of_real_leaving_out():
    features, rates, families = some_models()
    got = leave_one_family_out(features, rates, families).set_index("feature")
    for name in ("x", "flag"):
        for side, rate in (("ar", "ar"), ("score", "mean")):
            r = {f: np.corrcoef(features[name][families != f], rates[rate][families != f])[0, 1] for f in "abcd"}
            whole = np.corrcoef(features[name], rates[rate])[0, 1]
            found = got.loc[name, [f"r_{side}", f"low_{side}", f"high_{side}"]].tolist()
            assert found == pytest.approx([whole, min(r.values()), max(r.values())])
            assert got.loc[name, f"without_{side}"] == max(r, key=lambda f, r=r, whole=whole: abs(r[f] - whole))
    assert got["n"].tolist() == [9, 9] and got["families"].tolist() == [4, 4]


def test_family_ranges_where_a_correlation_is_undefined():
    features, rates, families = some_models()
    features = features.assign(constant=1.0, rare=[1.0, 1, 0, 0, 0, 0, 0, 0, 0], short=[1.0, 2, 4] + [np.nan] * 6)
    got = leave_one_family_out(features, rates, families).set_index("feature")
    assert got.loc["constant", "r_ar":].isna().all()
    # Without family a the flag is constant: the range is over the other three.
    assert got.loc["rare", ["low_ar", "high_ar"]].notna().all()
    assert got.loc["short", "families"] == 2 and got.loc["short", "n"] == 3
    assert got.loc["short", "r_ar"] == pytest.approx(np.corrcoef([1, 2, 4], rates["ar"].iloc[:3])[0, 1])
    assert got.loc["short", ["low_ar", "high_ar"]].tolist() == [got.loc["short", "r_ar"]] * 2, "c or d leave as it is"
    none = leave_one_family_out(features, rates, pd.Series(dtype=object)).set_index("feature")
    assert none.loc["x", "r_ar"] == got.loc["x", "r_ar"] and none[["low_ar", "without_ar"]].isna().all(axis=None)


def test_encodings_stand_below_each_other():
    features, rates, families = some_models()
    got = encoded_ranges({"one": features, "other": features[["x"]]}, rates, families)
    assert got["encoding"].tolist() == ["one", "one", "other"]
    assert got["r_ar"].iloc[:2].is_monotonic_increasing
    assert list(got.columns)[:2] == ["encoding", "feature"]


def test_group_rates_by_hand():
    rates = rates_of([0.1, 0.3, 0.5, np.nan, 0.9], [1, 0.5, 0.6, np.nan, 0.2])
    groups = pd.Series({"m0": "base", "m1": "base", "m2": "tuned", "m3": "tuned", "m9": "tuned"})
    got = group_rates(rates, groups).set_index("group")
    assert got.loc["base"].tolist() == pytest.approx([2, 0.2, 0.1, 0.3, 0.75])
    assert got.loc["tuned"].tolist() == pytest.approx([1, 0.5, 0.5, 0.5, 0.6])


def test_model_groups_are_training_and_year():
    rates = rates_of([0.1, 0.3, 0.5], [1, 0.5, 0.6])
    features = pd.DataFrame({"Tuned": [1.0, 0, 1], "Year": [2024.0, np.nan, 2023]}, index=rates.index)
    got = model_groups(rates, features)
    assert got[["by", "group", "models"]].to_numpy().tolist() == [
        ["training", "base", 1],
        ["training", "tuned", 2],
        ["year", "2023", 1],
        ["year", "2024", 1],
    ]


def test_the_difference_is_over_families():
    """Twelve families of two models that are alike say no more than twelve models."""
    rng = np.random.default_rng(1)
    family = np.arange(24) % 12
    index = [f"m{number}" for number in range(24)]
    values, flag = pd.Series(rng.random(12)[family], index=index), pd.Series(family < 5, index=index)
    families = pd.Series([f"f{number}" for number in family], index=index)
    got = family_difference(values, flag, families)
    assert got.value == pytest.approx(values[flag].mean() - values[~flag].mean()) and got.families == 12
    half = family_difference(values[:12], flag[:12], families[:12])
    assert (got.low, got.high) == pytest.approx((half.low, half.high))
    apart = family_difference(values, flag, pd.Series(index, index=index))
    assert apart.high - apart.low < 0.8 * (got.high - got.low)
    shuffled = family_difference(values.sample(frac=1, random_state=1), flag, families)
    assert (shuffled.low, shuffled.high) == pytest.approx((got.low, got.high))


def test_a_difference_without_two_sides_or_with_few_families():
    index = list("abcd")
    values, families = pd.Series([1.0, 2, 3, np.nan], index=index), pd.Series(index, index=index)
    few = family_difference(values, pd.Series([True, False, False, True], index=index), families)
    assert few.value == pytest.approx(1 - 2.5) and np.isnan(few.low) and few.families == 3
    unknown = family_difference(values, pd.Series([1.0, 0, np.nan, 1], index=index), families)
    assert unknown.value == 1 - 2 and unknown.families == 2, "a model of unknown kind is on neither side"
    one = family_difference(values, pd.Series(True, index=index), families)
    assert np.isnan(one.value) and np.isnan(one.high)
    nothing = family_difference(values.iloc[:0], pd.Series(dtype=bool), families)
    assert np.isnan(nothing.value) and nothing.families == 0


def test_a_side_of_one_family_has_a_difference_and_no_interval():
    index = [f"m{number}" for number in range(14)]
    families = pd.Series([f"f{max(number, 2)}" for number in range(14)], index=index)
    values = pd.Series(np.random.default_rng(0).random(14), index=index)
    got = family_difference(values, pd.Series(np.arange(14) < 3, index=index), families)
    assert got.families == 12 and not np.isnan(got.value) and np.isnan(got.low) and np.isnan(got.high)
