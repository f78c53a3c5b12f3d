from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from reply_tables import planted_rows
from scipy.stats import t as student
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.generalized_linear_model import GLM
from statsmodels.stats.multitest import multipletests

from slmsafety.analysis.drivers.ambiguity_effects import metric_changes, odds_ratios, standardized_rates
from slmsafety.analysis.drivers.ambiguity_model import ambiguity_model
from slmsafety.analysis.drivers.metric_rows import metric_names

METRICS = ["prompt tokens", "prompt gunning_fog", "reply tokens", "reply lexical_density"]


def raw_design(rows: pd.DataFrame) -> np.ndarray:
    """Metrics as they are (tokens after log(1 + x)), then dummies: no column standardised."""
    metrics = [np.log1p(rows[name]) if name.endswith("tokens") else rows[name] for name in METRICS]
    dummies = pd.get_dummies(rows[["model", "suite"]], drop_first=True).to_numpy(float)
    return np.column_stack([np.ones(len(rows)), *metrics, dummies])


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return planted_rows()


@pytest.fixture(scope="module")
def glm(rows):
    """The same model by another way: iteratively reweighted least squares on raw columns."""
    return GLM(rows["ambiguous"], raw_design(rows), family=Binomial()).fit(tol=1e-12)


@pytest.fixture(scope="module")
def covariance(rows, glm) -> np.ndarray:
    """The sum of squared changes by one step of Newton's method without one kind, from raw columns."""
    x, chance = raw_design(rows), glm.fittedvalues.to_numpy()
    kinds, changes = rows["kind"].to_numpy(), []
    for kind in np.unique(kinds):
        rest = kinds != kind
        information = x[rest].T @ (x[rest] * (chance * (1 - chance))[rest, None])
        changes.append(np.linalg.solve(information, x[rest].T @ (rows["ambiguous"].to_numpy() - chance)[rest]))
    return 35 / 36 * np.array(changes).T @ np.array(changes)


T35 = 2.030108  # 97.5 % of Student's t with 35 degrees of freedom, from a printed table


def test_odds_ratios_equal_a_generalised_linear_model(rows, glm, covariance):
    got = odds_ratios(ambiguity_model(rows)).set_index("metric")
    assert got.index.tolist() == METRICS
    for place, name in enumerate(METRICS, start=1):
        raw = np.log1p(rows[name]) if name.endswith("tokens") else rows[name]
        b, se = glm.params.iloc[place] * raw.std(ddof=0), np.sqrt(covariance[place, place]) * raw.std(ddof=0)
        limits = np.exp([b, b - T35 * se, b + T35 * se])
        assert got.loc[name, ["odds_ratio", "low", "high"]].tolist() == pytest.approx(limits.tolist(), rel=1e-5)
        assert got.loc[name, "p"] == pytest.approx(2 * student.sf(abs(b) / se, 35), rel=1e-4)
    assert got.loc["reply lexical_density", "low"] > 1.5 and got.loc["reply lexical_density", "q"] < 0.001


def test_an_odds_ratio_by_hand():
    # One model and suite: of 40 replies with the mark 30 are ambiguous, of 60 without it 20: (30/10)/(20/40) = 6
    mark = np.repeat([1.0, 1.0, 0.0, 0.0], [30, 10, 20, 40])
    ambiguous = np.repeat([1.0, 0.0, 1.0, 0.0], [30, 10, 20, 40])
    frame = pd.DataFrame({"ambiguous": ambiguous, "reply mark": mark, "suite": "s", "model": "m"})
    model = ambiguity_model(frame.assign(prompt=np.arange(100), kind=np.arange(100)))
    got = odds_ratios(model).iloc[0]
    assert got["odds_ratio"] == pytest.approx(6 ** mark.std())
    changed = metric_changes(model, {"reply mark": 1.0}).iloc[0]
    # From the rates .75 and .33 of this population to log odds one unit of the mark higher, for everyone
    up = [1 / (1 + np.exp(-(np.log(odds) + np.log(6)))) for odds in (3, 0.5)]
    assert changed["change"] == pytest.approx(0.4 * up[0] + 0.6 * up[1] - 0.5)
    half = (changed["high"] - changed["low"]) / 2
    # The limits lie 1.984217 standard errors away, by t with 99 degrees of freedom.
    assert changed["p"] == pytest.approx(2 * student.sf(changed["change"] / half * 1.984217, 99), rel=1e-4)
    assert changed["q"] == changed["p"], "of one test"


def numeric_interval(value, params, covariance) -> list[float]:
    """The delta method with a numerical gradient."""
    steps = 1e-6 * np.eye(len(params))
    gradient = np.array([(value(params + step) - value(params - step)) / 2e-6 for step in steps])
    half = T35 * np.sqrt(gradient @ covariance @ gradient)
    return [value(params), value(params) - half, value(params) + half]


def chances(design: np.ndarray, params: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-design @ params))


def test_rates_at_a_common_quality_are_those_of_all_replies_given_to_one_model(rows, glm, covariance):
    got = standardized_rates(ambiguity_model(rows), rows).set_index("model")
    for name in ("m0", "m3"):
        given = raw_design(rows.assign(model=pd.Categorical([name] * len(rows), rows["model"].cat.categories)))
        expected = numeric_interval(lambda b, given=given: chances(given, b).mean(), glm.params.to_numpy(), covariance)
        assert got.loc[name, ["common", "common_low", "common_high"]].tolist() == pytest.approx(expected, abs=1e-6)
    own = rows.groupby("model", observed=True)["ambiguous"].mean()
    assert got["ar"].to_dict() == pytest.approx({str(name): rate for name, rate in own.items()})
    for rank, rate in (("rank", "own"), ("rank_common", "common")):
        ordered = got.sort_values(rank)
        assert ordered[rank].tolist() == [1, 2, 3, 4] and ordered[rate].is_monotonic_increasing


def test_a_mixture_of_suites_is_no_quality():
    """Suite s has AR .2, t .8, the same for every model; one lacks t, and the only metric is noise."""
    rng = np.random.default_rng(9)
    parts = [
        pd.DataFrame(
            {"suite": suite, "model": model, "prompt": start + np.arange(100), "ambiguous": np.arange(100) < n}
        )
        for suite, start, counts in (("s", 0, {"m0": 19, "m1": 20, "m2": 21}), ("t", 100, {"m0": 79, "m1": 80}))
        for model, n in counts.items()
    ]
    rows = pd.concat(parts).astype({"ambiguous": float})
    rows["kind"] = rows["prompt"]
    rows["reply noise"] = rng.normal(size=len(rows))
    got = standardized_rates(ambiguity_model(rows), rows).set_index("model")
    assert got["ar"].to_dict() == pytest.approx({"m0": 0.49, "m1": 0.5, "m2": 0.21}), "as observed it looks better"
    assert got["rank"].tolist() == got["rank_common"].tolist() == [1, 2, 3]
    assert got["own"].tolist() == pytest.approx(got["common"].tolist(), abs=0.01)
    # Logits of .2 and .8 are -/+ log 4: a model of both effects is nearly exact, and 300 of 500 replies are to s.
    assert got["own"]["m1"] == pytest.approx(0.6 * 0.2 + 0.4 * 0.8, abs=0.01)


def test_a_model_without_metrics_has_the_effects_of_models_and_suites_only(rows):
    model = ambiguity_model(rows, [])
    assert model.metrics == [] and model.columns == ["constant", "model m1", "model m2", "model m3", "suite t"]
    design = np.column_stack([np.ones(len(rows)), pd.get_dummies(rows[["model", "suite"]], drop_first=True)])
    expected = GLM(rows["ambiguous"], design.astype(float), family=Binomial()).fit(tol=1e-12).params
    assert model.params == pytest.approx(expected.to_numpy(), abs=1e-6)


def test_both_rates_are_over_the_rows_of_the_fit(rows):
    """Rows whose rare gap leaves them out of the fit are left out of a model's own rate too."""
    gaps = rows.copy()
    gaps.loc[[4, 8, 12], "prompt gunning_fog"] = np.nan
    kept = gaps.drop(index=[4, 8, 12])
    got, expected = (standardized_rates(ambiguity_model(frame), frame).set_index("model") for frame in (gaps, kept))
    assert got["own"].tolist() == pytest.approx(expected["own"].tolist(), abs=1e-9)
    assert got["n"]["m0"] == 120 and expected["n"]["m0"] == 117


def test_quality_that_makes_the_difference_takes_it_away():
    rows = planted_rows(400, 2, effect=2.0)
    # The second model writes denser text, and is ambiguous only for that.
    second = rows["model"] == "m1"
    rows["reply lexical_density"] += 0.1 * second
    chance = chances(np.c_[(rows["reply lexical_density"] - 0.5) / 0.05], np.array([1.0]))
    rows["ambiguous"] = (np.random.default_rng(1).random(len(rows)) < chance).astype(float)
    got = standardized_rates(ambiguity_model(rows), rows).set_index("model")
    assert got["own"]["m1"] - got["own"]["m0"] > 0.2
    assert abs(got["common"]["m1"] - got["common"]["m0"]) < 0.05


def test_changes_are_those_of_every_row_moved(rows, glm, covariance):
    steps = {"prompt tokens": 10.0, "prompt gunning_fog": 1.0, "prompt unknown": 1.0}
    got = metric_changes(ambiguity_model(rows), steps).set_index("metric")
    assert got.index.tolist() == METRICS, "a metric without a step is moved by its SD only"
    assert got["step"].dropna().to_dict() == {"prompt tokens": 10.0, "prompt gunning_fog": 1.0}
    assert got["q"].tolist() == pytest.approx(multipletests(got["p"], method="fdr_bh")[1].tolist())
    params, before = glm.params.to_numpy(), raw_design(rows)
    for name, step in list(steps.items())[:2]:
        after = raw_design(rows.assign(**{name: rows[name] + step}))
        expected = numeric_interval(
            lambda b, after=after: (chances(after, b) - chances(before, b)).mean(), params, covariance
        )
        assert got.loc[name, ["change", "low", "high"]].tolist() == pytest.approx(expected, abs=1e-6)
        column = 1 + METRICS.index(name)
        after = before.copy()
        after[:, column] += before[:, column].std()
        expected = numeric_interval(
            lambda b, after=after: (chances(after, b) - chances(before, b)).mean(), params, covariance
        )
        assert got.loc[name, ["change_sd", "low_sd", "high_sd"]].tolist() == pytest.approx(expected, abs=1e-6)


def test_replies_to_one_kind_of_prompts_are_one_cluster(rows):
    """Every reply three times says no more than once."""
    thrice = pd.concat([rows] * 3, ignore_index=True)
    one, three = (ambiguity_model(frame) for frame in (rows, thrice))
    assert one.prompts == three.prompts == 120 and one.clusters == three.clusters == 36
    assert three.params == pytest.approx(one.params, abs=1e-6)
    assert np.sqrt(np.diag(three.covariance)) == pytest.approx(np.sqrt(np.diag(one.covariance)), rel=1e-6)


def test_below_ten_kinds_there_are_effects_and_no_intervals(rows):
    few, enough = (ambiguity_model(rows.assign(kind=rows["prompt"] % count)) for count in (9, 10))
    assert few.about()["no_interval"].endswith("9 kinds of prompts, and 10 are needed.")
    assert enough.about()["no_interval"] == "" and not few.problem
    got, other = odds_ratios(few), odds_ratios(enough)
    assert got["odds_ratio"].tolist() == pytest.approx(other["odds_ratio"].tolist())
    assert got[["low", "high", "p", "q"]].isna().all(axis=None) and other.notna().all(axis=None)
    rates, steps = standardized_rates(few, rows), metric_changes(few)
    assert rates["common"].notna().all() and rates[["common_low", "common_high", "turned"]].isna().all(axis=None)
    assert steps["change_sd"].notna().all() and steps[["low_sd", "high_sd", "p"]].isna().all(axis=None)


def test_an_effect_that_one_kind_alone_determines_has_no_interval_and_the_others_have(rows):
    lone = rows.assign(suite=np.where(rows["kind"] == 5, "u", "s"))
    model = ambiguity_model(lone)
    assert model.about()["no_interval"].endswith("one kind of prompts alone determines suite u.")
    assert odds_ratios(model).notna().all(axis=None)
    assert np.isnan(np.diag(model.covariance)).sum() == 1


def test_intervals_cover_where_kinds_have_effects_of_their_own():
    """15 kinds of unequal size, 10 models, 6 metrics without effect: 16 effects, more than there are kinds."""
    rng, held = np.random.default_rng(7), []
    for _ in range(60):
        size = np.maximum(2, rng.lognormal(2.2, 0.8, 15).astype(int))
        kind = np.repeat(np.arange(15), size)
        metrics = 0.7 * rng.normal(size=(15, 6))[kind] + 0.7 * rng.normal(size=(len(kind), 6))
        prompts = pd.DataFrame(metrics, columns=[f"prompt x{k}" for k in range(6)])
        prompts = prompts.assign(kind=kind, prompt=np.arange(len(kind)), suite="s", of=rng.normal(0, 0.8, 15)[kind])
        rows = prompts.merge(pd.DataFrame({"model": [f"m{k}" for k in range(10)]}), how="cross")
        rows["ambiguous"] = (rng.random(len(rows)) < 1 / (1 + np.exp(0.3 - rows["of"]))).astype(float)
        got = odds_ratios(ambiguity_model(rows.drop(columns="of")))
        held.append(((got["low"] < 1) & (got["high"] > 1)).mean())
    assert np.mean(held) > 0.92, "that of the sandwich is .84"


def test_equal_models_do_not_turn_and_one_that_quality_turns_does():
    """Twelve models alike: by the estimates half of them change rank, by the intervals none."""
    moved, turned = [], []
    for seed in range(5):
        rows = planted_rows(120, 12, effect=0.7, seed=seed)
        rng = np.random.default_rng(seed)
        chance = 1 / (1 + np.exp(-7 * (rows["reply lexical_density"] - 0.5)))
        rows["ambiguous"] = (rng.random(len(rows)) < chance).astype(float)
        got = standardized_rates(ambiguity_model(rows), rows)
        moved.append((got["rank"] != got["rank_common"]).sum())
        turned.append(got["turned"].sum())
    assert np.mean(moved) > 3 and np.mean(turned) < 0.5
    rows = planted_rows(300, 3, seed=1)
    # m0 writes far denser text, and is less ambiguous at equal density: more ambiguous only as it writes.
    rows["reply lexical_density"] += 0.3 * (rows["model"] == "m0")
    linear = (rows["reply lexical_density"] - 0.5) / 0.1 - 1.5 * (rows["model"] == "m0")
    rows["ambiguous"] = (np.random.default_rng(1).random(len(rows)) < 1 / (1 + np.exp(-linear))).astype(float)
    got = standardized_rates(ambiguity_model(rows), rows).set_index("model")
    assert got["turned"].to_dict() == {"m0": 2, "m1": 1, "m2": 1}


def test_the_order_of_rows_changes_nothing(rows):
    shuffled = rows.sample(frac=1, random_state=2)
    first, second = (odds_ratios(ambiguity_model(frame)) for frame in (rows, shuffled))
    pd.testing.assert_frame_equal(first, second, rtol=1e-6)


def undefined(model) -> bool:
    return bool(np.isnan(model.params).all() and np.isnan(model.covariance).all() and model.problem)


def test_perfect_separation_is_said_and_nothing_crashes(rows):
    split = rows.assign(ambiguous=(rows["reply lexical_density"] > 0.5).astype(float))
    model = ambiguity_model(split)
    assert undefined(model) and "separate" in model.problem
    assert odds_ratios(model)["odds_ratio"].isna().all()
    assert metric_changes(model, {"prompt tokens": 1.0})["change"].isna().all()
    got = standardized_rates(model, split)
    assert got[["common", "rank_common"]].isna().all(axis=None) and got["ar"].notna().all()


def test_separation_by_a_part_of_the_rows_is_found_too(rows):
    # Above a cut every reply is ambiguous, below it either: the effect has no upper limit.
    mark = (rows["reply lexical_density"] > 0.55).astype(float)
    split = rows.assign(ambiguous=rows["ambiguous"].where(mark == 0, 1.0), **{"reply lexical_density": mark})
    assert undefined(ambiguity_model(split))


def test_metrics_that_determine_each_other_and_too_few_prompts_are_said(rows):
    twice = ambiguity_model(rows.assign(**{"reply twice": 2 * rows["reply lexical_density"] + 1}))
    assert undefined(twice) and "determine each other" in twice.problem
    noise = 1e-4 * np.random.default_rng(0).normal(size=len(rows))
    nearly = ambiguity_model(rows.assign(**{"reply twice": rows["reply lexical_density"] + 0.1 * noise}))
    assert undefined(nearly) and "nearly determine each other" in nearly.problem
    few = ambiguity_model(planted_rows(8))
    assert undefined(few) and few.problem == "9 effects cannot be told from the labels of 8 prompts"


def test_a_model_that_is_always_ambiguous_and_rows_without_label_are_left_out_and_counted(rows):
    changed = rows.copy()
    changed.loc[changed["model"] == "m2", "ambiguous"] = 1.0
    changed.loc[(changed["model"] == "m0") & (changed["prompt"] < 5), "ambiguous"] = np.nan
    model = ambiguity_model(changed)
    assert model.left_out == {"no label": 5, "a model that is always or never ambiguous": 120}
    assert len(model.x) == 4 * 120 - 125 and "model m2" not in model.columns and not model.problem
    got = standardized_rates(model, changed).set_index("model")
    assert got.loc["m2", "ar"] == 1 and got.loc["m2", ["common", "rank", "rank_common"]].isna().all()
    assert sorted(got["rank"].dropna()) == [1, 2, 3] and got.loc["m0", "n"] == 115


def test_a_metric_that_many_replies_lack_has_an_effect_for_lacking_it(rows):
    rng = np.random.default_rng(4)
    lacks = rng.random(len(rows)) < 0.3
    gaps = rows.assign(**{"reply lexical_density": rows["reply lexical_density"].where(~lacks)})
    model = ambiguity_model(gaps)
    assert model.columns[1:6] == [*METRICS, "no reply lexical_density"] and not model.left_out
    filled = gaps["reply lexical_density"].fillna(gaps["reply lexical_density"].mean())
    design = np.column_stack([raw_design(gaps.assign(**{"reply lexical_density": filled})), lacks])
    expected = GLM(gaps["ambiguous"], design, family=Binomial()).fit(tol=1e-12).params.iloc[4]
    assert model.params[4] == pytest.approx(expected * gaps["reply lexical_density"].std(ddof=0), rel=1e-5)


def test_two_metrics_that_the_same_replies_lack_share_that_effect_and_a_rare_gap_is_left_out(rows):
    lacks = np.random.default_rng(4).random(len(rows)) < 0.3
    gaps = rows.assign(**{name: rows[name].where(~lacks) for name in ("reply lexical_density", "reply tokens")})
    gaps.loc[:20, "prompt gunning_fog"] = np.nan
    model = ambiguity_model(gaps)
    assert [name for name in model.columns if name.startswith("no ")] == ["no reply tokens"]
    both = int(lacks[:21].sum())
    assert model.left_out == {
        "no prompt gunning_fog": 21 - both,
        "no prompt gunning_fog and reply tokens and reply lexical_density": both,
    }
    assert not model.problem


def test_a_gap_in_a_gap_that_is_all_ambiguous_does_not_separate(rows):
    lacks = np.random.default_rng(4).random(len(rows)) < 0.3
    few = np.flatnonzero(lacks & (rows["ambiguous"] == 1).to_numpy())[:5]
    gaps = rows.assign(**{name: rows[name].where(~lacks) for name in ("reply lexical_density", "reply tokens")})
    gaps.loc[few, "reply tokens"] = rows["reply tokens"][few]
    model = ambiguity_model(gaps)
    assert not model.problem and model.left_out == {"no reply lexical_density": 5}


def test_a_metric_that_one_suite_lacks_is_told_from_the_suite_by_the_other(rows):
    only = rows.assign(**{"reply tokens": rows["reply tokens"].where(rows["suite"] == "t")})
    model = ambiguity_model(only)
    assert not model.problem and not [name for name in model.columns if name.startswith("no ")]
    filled = only["reply tokens"].fillna(np.expm1(np.log1p(only["reply tokens"]).mean()))
    expected = GLM(rows["ambiguous"], raw_design(rows.assign(**{"reply tokens": filled})), family=Binomial()).fit(
        tol=1e-12
    )
    spread = np.log1p(only["reply tokens"]).std(ddof=0)
    assert model.params[3] == pytest.approx(expected.params.iloc[3] * spread, rel=1e-5)


def test_a_constant_metric_and_an_empty_one_have_no_effect(rows):
    flat = rows.assign(**{"prompt gunning_fog": 3.0, "reply tokens": np.nan})
    assert ambiguity_model(flat).metrics == ["prompt tokens", "reply lexical_density"]


@pytest.mark.parametrize("value", [1.0, np.nan])
def test_without_both_kinds_of_label_there_is_no_model(rows, value):
    frame = rows.assign(ambiguous=value)
    model = ambiguity_model(frame)
    assert undefined(model) and model.problem == "no reply is left to fit them to"
    counts = {"n": 0, "prompts": 0, "kinds": 0}
    assert model.about() == {**counts, "left_out": model.left_out, "problem": model.problem, "no_interval": ""}
    assert sum(model.left_out.values()) == len(rows)
    assert odds_ratios(model).empty and metric_changes(model, dict.fromkeys(metric_names(frame), 1.0)).empty
    assert standardized_rates(model, frame)["common"].isna().all()
