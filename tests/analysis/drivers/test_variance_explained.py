from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analysis_frames import quick
from hypothesis import given
from hypothesis import strategies as st
from reply_tables import planted_rows
from statsmodels.regression.linear_model import OLS

from slmsafety.analysis.drivers.associations import prompt_means
from slmsafety.analysis.drivers.variance_explained import (
    explained_models,
    explained_prompts,
    model_quality,
    variance_explained,
)


def left_one_out(y: np.ndarray, design: np.ndarray) -> float:
    """The squared errors of each row predicted from a fit to the others."""
    errors = []
    for row in range(len(y)):
        others = np.arange(len(y)) != row
        b = np.linalg.lstsq(design[others], y[others], rcond=None)[0]
        errors.append(y[row] - design[row] @ b)
    return float(np.square(errors).sum())


@quick
@given(st.integers(8, 25), st.integers(1, 4), st.integers(0, 10**6))
def test_shares_equal_ordinary_least_squares_and_real_leaving_out(n, k, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, k)) * 10.0 ** rng.integers(-3, 4, k) + 100
    y = rng.normal(size=n) + 5
    design = np.column_stack([np.ones(n), x])
    fit, got = OLS(y, design).fit(), variance_explained(y, x)
    assert (got.n, got.effects) == (n, k)
    assert (got.r2, got.adjusted) == pytest.approx((fit.rsquared, fit.rsquared_adj), abs=1e-6)
    centred = (x - x.mean(axis=0)) / x.std(axis=0)
    press = left_one_out(y, np.column_stack([np.ones(n), centred]))
    assert got.unseen == pytest.approx(1 - press / left_one_out(y, np.ones((n, 1))), abs=1e-6)


def test_a_share_beyond_a_base_is_of_what_the_base_leaves():
    rng = np.random.default_rng(2)
    group, x = np.repeat([0.0, 1, 2], 12), rng.normal(size=(36, 2))
    y = 3 * group**2 + x[:, 0] + rng.normal(size=36)
    base = pd.get_dummies(group, drop_first=True).to_numpy(float)
    whole, alone = variance_explained(y, np.column_stack([base, x])), variance_explained(y, base)
    got = variance_explained(y, x, base)
    assert got.r2 == pytest.approx((whole.r2 - alone.r2) / (1 - alone.r2))
    assert 1 - got.adjusted == pytest.approx((1 - whole.adjusted) / (1 - alone.adjusted))
    assert got.effects == 2


def test_columns_that_say_the_same_count_once():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=30), rng.normal(size=30)
    got = variance_explained(y, np.column_stack([x, 2 * x + 7, np.full(30, 3.0)]))
    assert got.effects == 1 and got.r2 == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2)


def test_shares_that_are_undefined():
    x = np.arange(4.0)
    assert np.isnan(variance_explained([1, 1, 1, 1], x[:, None])[2:]).all(), "nothing to explain"
    assert np.isnan(variance_explained([1, 2, 4, 3], np.column_stack([x, x**2, x**3]))[2:]).all(), (
        "no degree of freedom"
    )
    assert np.isnan(variance_explained([], np.empty((0, 2)))[2:]).all()
    lone = variance_explained([1, 2, 4, 3], np.array([[0.0], [0], [0], [1]]))
    assert lone.r2 == pytest.approx(np.corrcoef([0, 0, 0, 1], [1, 2, 4, 3])[0, 1] ** 2)
    assert np.isnan(lone.unseen), "one row alone makes the effect"


def test_reply_metrics_explain_what_was_planted_and_prompt_metrics_do_not():
    means = prompt_means(planted_rows(400, 6, effect=3.0))
    means.loc[:4, "reply tokens"] = np.nan
    got = explained_prompts(means).set_index("by")
    assert (got["n"].unique().tolist(), got["missing"].unique().tolist()) == ([395], [5])
    assert got["effects"].tolist() == [1, 2, 2, 4, 4]
    assert got["unseen"]["reply metrics"] > 0.3 > 0.02 > got["unseen"]["prompt metrics"]
    assert got["r2"]["all metrics"] >= max(got["r2"]["reply metrics"], got["r2"]["prompt metrics"])


def test_model_quality_is_a_mean_over_replies():
    rows = planted_rows(30, 2)
    rows.loc[rows["prompt"] > 2, "reply tokens"] = np.nan
    got = model_quality(rows).set_index(["suite", "model"])
    one = rows[(rows["suite"] == "t") & (rows["model"] == "m1")]
    assert got.loc[("t", "m1"), "ar"] == one["ambiguous"].mean()
    assert got.loc[("t", "m1"), "reply tokens"] == pytest.approx(one["reply tokens"].iloc[:2].mean())
    assert list(got.columns) == ["ar", "reply tokens", "reply lexical_density"]


def test_models_within_suites():
    rng = np.random.default_rng(0)
    models = [f"m{number}" for number in range(12)]
    quality = pd.concat(
        [pd.DataFrame({"suite": suite, "model": models, "reply density": rng.normal(size=12)}) for suite in ("s", "t")],
        ignore_index=True,
    )
    # AR follows density in both suites, at another level; the ranges of t are unknown for two models.
    quality["ar"] = 0.05 * quality["reply density"] + np.where(quality["suite"] == "s", 0.2, 0.7)
    ranges = quality[["suite", "model"]].assign(range=rng.integers(0, 9, 24).astype(float)).iloc[:-2]
    got = explained_models(quality, ranges).set_index(["of", "suite"])
    assert got.loc["AR", "r2"].tolist() == pytest.approx([1, 1, 1])
    assert got.loc["AR", "n"].tolist() == [12, 12, 24] and got.loc["rank movement", "n"].tolist() == [12, 10, 22]
    assert got.loc["rank movement", "missing"].tolist() == [0, 2, 2]
    both = quality.merge(ranges, on=["suite", "model"])
    centred = both[["reply density", "range"]] - both.groupby("suite")[["reply density", "range"]].transform("mean")
    r = np.corrcoef(centred.to_numpy().T)[0, 1]
    assert got.loc[("rank movement", "all"), "r2"] == pytest.approx(r * r)


def test_an_outlying_perplexity_does_not_spoil_what_its_logarithm_explains():
    # AR follows the logarithm: one text of a huge perplexity must not decide the line of all others
    perplexity = np.concatenate([np.exp(np.linspace(1, 5, 60)), [1e7]])
    ar = np.clip(np.log1p(perplexity) / np.log1p(1e7), 0, 1)
    frame = {"suite": "s", "instance_id": map(str, range(61)), "ar": ar, "reply perplexity": perplexity}
    table = explained_prompts(pd.DataFrame(frame)).set_index("by")
    assert table.loc["reply metrics", "unseen"] > 0.99
