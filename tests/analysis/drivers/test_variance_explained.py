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


@pytest.mark.parametrize("seed", range(4))
def test_blocks_are_left_out_as_in_real_refits(seed):
    rng = np.random.default_rng(seed)
    block = rng.permutation(np.repeat(np.arange(8), [1, 2, 3, 4, 5, 6, 7, 1]))
    n, suite = len(block), np.arange(len(block)) % 3
    base = pd.get_dummies(suite, drop_first=True).to_numpy(float)
    x, y = rng.normal(size=(n, 2)), rng.normal(size=n)

    def left_out(design: np.ndarray) -> float:
        errors = 0.0
        for one in np.unique(block):
            b = np.linalg.lstsq(design[block != one], y[block != one], rcond=None)[0]
            errors += np.square(y[block == one] - design[block == one] @ b).sum()
        return errors

    small = np.column_stack([np.ones(n), base])
    expected = 1 - left_out(np.column_stack([small, x])) / left_out(small)
    got = variance_explained(y, x, base, [f"b{one}" for one in block])
    assert got.unseen == pytest.approx(expected, abs=1e-8)
    assert got[:4] == variance_explained(y, x, base)[:4], "what is seen knows no blocks"


def test_a_block_that_alone_makes_an_effect_leaves_unseen_undefined():
    rng = np.random.default_rng(2)
    block, y = np.repeat(np.arange(6), 3), rng.normal(size=18)
    lone = variance_explained(y, (block == 2).astype(float)[:, None], blocks=block)
    assert np.isnan(lone.unseen) and lone.r2 > 0
    assert np.isnan(variance_explained(y, rng.normal(size=(18, 1)), blocks=np.zeros(18)).unseen), "one block: no other"


def test_where_quality_explains_nothing_it_explains_nothing_of_an_unseen_model():
    """Models differ in AR and in quality in all of three suites, without relation: two systems of each model."""
    rng, new, seen = np.random.default_rng(5), [], []
    for _ in range(60):
        card = np.tile(np.repeat(np.arange(13), 2), 3)
        own = rng.normal(size=(13, 5))[card] + 0.3 * rng.normal(size=(78, 5))
        frame = pd.DataFrame(own[:, 1:], columns=[f"reply x{k}" for k in range(4)])
        frame = frame.assign(ar=own[:, 0], suite=np.repeat(["s", "t", "u"], 26), card=card)
        frame = frame.assign(model=[f"m{k}" for k in np.tile(np.arange(26), 3)])
        ranges = frame[["suite", "model"]].assign(range=frame["ar"])
        got = explained_models(frame, ranges).set_index(["suite", "of"])["unseen"]
        new.append(got[[("all", "AR"), ("s", "AR"), ("t", "rank movement")]].to_numpy())
        seen.append(
            explained_models(frame.drop(columns="card").assign(model=range(78)), ranges.assign(model=range(78)))
        )
    assert (np.mean(new, axis=0) < 0).all(), "on average worse than the mean"
    one = frame[frame["suite"] == "s"]
    alone = variance_explained(one["ar"], one[[f"reply x{k}" for k in range(4)]], blocks=one["card"])
    assert new[-1][1] == pytest.approx(alone.unseen), "in one suite a model is left out with both of its systems"
    rows_alone = pd.concat(seen).query("suite == 'all' and of == 'AR'")["unseen"]
    assert rows_alone.mean() > 0.05, "a row whose model the fit has seen in other suites looks explained"


def test_where_kinds_alone_differ_metrics_explain_nothing_of_an_unseen_kind():
    rng, found = np.random.default_rng(6), []
    for _ in range(40):
        kind = np.repeat(np.arange(25), 8)
        shared = rng.normal(size=(25, 4))[kind]
        means = pd.DataFrame(
            shared[:, 1:] + 0.2 * rng.normal(size=(200, 3)), columns=["prompt x", "reply y", "reply z"]
        )
        means = means.assign(ar=shared[:, 0], kind=kind, suite="s")
        got = explained_prompts(means).set_index("by")
        found.append(got.loc["all metrics", "unseen"])
        assert got["kinds"].eq(25).all()
    assert np.mean(found) <= 0


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
    frame = {
        "suite": "s",
        "instance_id": map(str, range(61)),
        "kind": range(61),
        "ar": ar,
        "reply perplexity": perplexity,
    }
    table = explained_prompts(pd.DataFrame(frame)).set_index("by")
    assert table.loc["reply metrics", "unseen"] > 0.99
