from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analysis_frames import outcome_frame, quick, without_labels
from hypothesis import assume, given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from slmsafety.analysis.metadata import metadata_correlations, pooled

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
