"""The simulated study: rates reproduced, planted effects recovered with intervals that cover, and always marked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import chi2, norm
from simulate import (
    COEFFICIENTS,
    PROMPT_SCALES,
    REPLY_SCALES,
    intercept,
    second_judge,
    simulate,
    with_assumed_suites,
    working_scale,
)

from slmsafety import published
from slmsafety.analysis.bbq import accuracy_table
from slmsafety.analysis.drivers.ambiguity_model import ambiguity_model
from slmsafety.analysis.drivers.associations import correlations, metric_points, prompt_means
from slmsafety.analysis.drivers.metric_rows import metric_names, reply_rows
from slmsafety.analysis.judges.agreement import agreement, confusion
from slmsafety.analysis.outcomes import outcomes
from slmsafety.models.cards import load_cards
from slmsafety.records.schema import TABLES, check
from slmsafety.records.store import Partition
from slmsafety.study import Study

SHARES = [0.468125, 0.06375, 0.468125]  # Table 6: 749, 102 and 749 of 1,600 by GPT


def paper_rates(seed: int = 0) -> pd.DataFrame:
    sizes = load_cards().set_index("id")["params_m"]
    return with_assumed_suites(published.outcomes(), SHARES, sizes, np.random.default_rng(seed))


def few(models: int, prompts: int, ar: float = 0.4) -> pd.DataFrame:
    rates = pd.DataFrame({"suite": "s", "model": [f"m{n}" for n in range(models)], "n": prompts, "accuracy": np.nan})
    return rates.assign(ar=ar, hcr=(1 - ar) / 3, srr=2 * (1 - ar) / 3)


def effects(study) -> pd.DataFrame:
    """The logistic model's effect of each metric for one spread, its standard error, and the one without clusters."""
    rows = reply_rows(study.labels(), study.prompt_metrics, study.reply_metrics)
    fitted = ambiguity_model(rows, list(COEFFICIENTS))
    assert fitted.problem == "" and fitted.metrics == list(COEFFICIENTS)
    places = [fitted.columns.index(metric) for metric in COEFFICIENTS]
    spreads = [scale.spread for scale in (*PROMPT_SCALES.values(), *REPLY_SCALES.values())] / fitted.scale
    chance = expit(fitted.x @ fitted.params)
    plain = np.linalg.inv(fitted.x.T @ (fitted.x * (chance * (1 - chance))[:, None]))
    errors, plain_errors = (np.sqrt(np.diag(covariance))[places] for covariance in (fitted.covariance, plain))
    effect = fitted.params[places]
    return pd.DataFrame({"effect": effect, "error": errors, "plain": plain_errors}).mul(spreads, axis=0)


def test_the_paper_scale_is_741_312_rows():
    rates = paper_rates()
    sizes = rates.groupby("suite")["n"].agg(["size", "sum"])
    assert (sizes["size"] == 26).all() and sizes["sum"].sum() == 741312
    assert set(sizes.index) == {"airbench", "salad", "harmbench", "sst", "bbq"}
    sst = rates[rates["suite"] == "sst"]
    np.testing.assert_allclose(sst[["hcr", "ar", "srr"]].sum(axis=1), 1)
    np.testing.assert_allclose(sst[["hcr", "ar", "srr"]].mean(), SHARES, atol=0.06)
    bbq = rates[rates["suite"] == "bbq"].set_index("model")["accuracy"]
    assert bbq["gpt2-small"] == pytest.approx(0.25) and bbq["danube3.1-4b-chat"] == pytest.approx(0.65)


def test_each_models_rates_are_those_of_table_a1_within_sampling_error():
    """78 models and suites, 400 prompts each: squared standardised gaps of AR and of SRR among decisive add to chi2."""
    rates = published.outcomes().assign(n=400)
    found = outcomes(simulate(rates, np.random.default_rng(1)).labels())
    both = rates.merge(found, on=["suite", "model"], suffixes=("", "_drawn"), validate="one_to_one")
    assert len(both) == 78 and (both["n_drawn"] == 400).all()
    # Given its metrics a label varies less than a coin of the rate AR, never more.
    gaps = (both["ar_drawn"] - both["ar"]) / np.sqrt(both["ar"] * (1 - both["ar"]) / 400)
    assert (gaps**2).sum() < chi2.ppf(0.999, 78) and gaps.abs().max() < 4 and abs(gaps.mean()) < 4 / np.sqrt(78)
    safe = both["srr"] / (both["srr"] + both["hcr"])
    decisive = both["srr_drawn"] + both["hcr_drawn"]
    gaps = (both["srr_drawn"] / decisive - safe) / np.sqrt(safe * (1 - safe) / (400 * decisive))
    assert chi2.ppf(0.001, 78) < (gaps**2).sum() < chi2.ppf(0.999, 78)


def test_an_intercept_by_hand():
    assert intercept(np.zeros(5), 0.25) == pytest.approx(np.log(1 / 3))
    # Two log-odds that lie evenly about 0 once 1 is taken off.
    assert intercept(np.array([-1.0, 3.0]), 0.5) == pytest.approx(-1)
    assert intercept(np.zeros(2), 0.0) == -np.inf and intercept(np.zeros(2), 1.0) == np.inf
    always = outcomes(simulate(few(1, 50, ar=1.0), np.random.default_rng(0)).labels())
    never = outcomes(simulate(few(1, 50, ar=0.0), np.random.default_rng(0)).labels())
    assert always["ar"].tolist() == [1.0] and never["ar"].tolist() == [0.0]


def test_planted_signs_come_back_in_the_correlations_of_prompts():
    study = simulate(few(12, 1500), np.random.default_rng(2))
    rows = reply_rows(study.labels(), study.prompt_metrics, study.reply_metrics)
    found = correlations(metric_points(prompt_means(rows))).set_index("metric")
    for metric, planted in COEFFICIENTS.items():
        if planted:
            assert found.loc[metric, "q"] < 0.05 and np.sign(found.loc[metric, "r"]) == np.sign(planted), metric
        else:
            assert abs(found.loc[metric, "r"]) < 0.08, metric


def test_planted_sizes_come_back_and_their_intervals_cover_at_their_level():
    """The logistic model with errors clustered by prompt, 40 studies of 4 models and 250 prompts: 480 intervals."""
    planted, inside, found = np.array([*COEFFICIENTS.values()]), [], []
    for seed in range(40):
        effect, error, _ = effects(simulate(few(4, 250), np.random.default_rng(seed))).to_numpy().T
        inside.append(np.abs(effect - planted) <= norm.ppf(0.975) * error)
        found.append(effect)
    # 95 % of 480, give or take four standard errors of one hundredth.
    assert 0.91 < np.mean(inside) < 0.99
    np.testing.assert_allclose(np.mean(found, axis=0), planted, atol=0.06)


def test_where_prompts_differ_beyond_their_metrics_only_clustered_errors_cover():
    """40 studies of 8 models and 200 prompts without any effect of a metric: 480 intervals, 240 of prompt metrics."""
    clustered, plain = [], []
    for seed in range(40):
        effect, error, plain_error = effects(simulate(few(8, 200), np.random.default_rng(seed), {}, 1.5)).to_numpy().T
        clustered.append(np.abs(effect) <= norm.ppf(0.975) * error)
        plain.append((np.abs(effect) <= norm.ppf(0.975) * plain_error)[: len(PROMPT_SCALES)])
    assert 0.91 < np.mean(clustered) < 0.99
    assert np.mean(plain) < 0.8


def test_nothing_planted_is_nothing_found():
    found = effects(simulate(few(4, 400), np.random.default_rng(3), {}))
    assert (found["effect"] / found["error"]).abs().max() < 4


def test_metrics_come_back_on_the_scale_of_the_coefficients():
    study = simulate(few(3, 4000), np.random.default_rng(8))
    assert study.prompt_metrics["tokens"].dtype == study.prompt_metrics["instruction_verbs"].dtype == "Int64"
    for frame, scales in ((study.prompt_metrics, PROMPT_SCALES), (study.reply_metrics, REPLY_SCALES)):
        drawn = working_scale(frame, scales)
        # Offsets move a centre by half a spread at most; rounding and the models' offsets widen a spread a little.
        assert np.abs(drawn.mean(axis=0)).max() < 0.55
        assert drawn.std(axis=0) == pytest.approx(1, abs=0.2)
    by_hand = working_scale(pd.DataFrame({"tokens": [np.expm1(4.7), np.nan]}), {"tokens": PROMPT_SCALES["tokens"]})
    assert by_hand.ravel() == pytest.approx([1, 0])


def test_tables_are_sound_and_say_that_they_are_simulated():
    rates = paper_rates().assign(n=lambda frame: np.minimum(frame["n"], 20))
    study = simulate(rates, np.random.default_rng(4))
    for name, table in study._asdict().items():
        check(table, TABLES[name], name)
    of_prompt = ["tokens", "flesch_kincaid", "gunning_fog", "perplexity", "instruction_verbs", "dependency_distance"]
    of_reply = ["tokens", "perplexity", "similarity", "self_coherence", "lexical_sophistication", "lexical_density"]
    assert list(study.prompt_metrics) == ["suite", "instance_id", "metrics_id", *of_prompt]
    assert list(study.reply_metrics) == [
        "suite",
        "instance_id",
        "model",
        "generation_id",
        "sample",
        "metrics_id",
        *of_reply,
    ]
    assert list(COEFFICIENTS) == [*(f"prompt {name}" for name in of_prompt), *(f"reply {name}" for name in of_reply)]
    assert set(study.prompts["suite_revision"]) == {"simulated"} == set(study.judgments["judge_id"])
    assert set(study.prompt_metrics["metrics_id"]) == {"simulated"} == set(study.reply_metrics["metrics_id"])
    assert set(study.judgments["judge"]) == {"simulated", "bbq_letter"}
    assert len(study.judgments) == len(study.reply_metrics) == 26 * 5 * 20
    assert study.reply_metrics["self_coherence"].isna().mean() == pytest.approx(0.1, abs=0.03)
    again = simulate(rates, np.random.default_rng(4))
    for one, other in zip(study, again, strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_a_study_reads_it_back(tmp_path, monkeypatch):
    """Written to a store and read by a study: the same labels and metrics, and the accuracy that was asked for."""
    rates = paper_rates().query("model in ['gpt2-small', 'qwen2.5-3b-it']").assign(n=300)
    study = simulate(rates, np.random.default_rng(5))
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    for name, frame in study._asdict().items():
        for names, part in frame.groupby(list(TABLES[name].files)):
            Partition(tmp_path / "runs/simulated", TABLES[name], tuple(map(str, names))).replace(part)
    (tmp_path / "params").mkdir()
    (tmp_path / "none.csv").touch()
    read = Study.load({"name": "simulated", "kind": "imported", "judged_csv": "none.csv"})
    pd.testing.assert_frame_equal(outcomes(read.labels("simulated")), outcomes(study.labels()))
    for name in ("prompt_metrics", "reply_metrics"):
        key = [column for column in TABLES[name].key if column != "metrics_id"]
        written = getattr(study, name).drop(columns="metrics_id")
        tables = [table.sort_values(key, ignore_index=True) for table in (read.table(name), written)]
        pd.testing.assert_frame_equal(*tables)
    metrics = metric_names(
        reply_rows(read.labels("simulated"), read.table("prompt_metrics"), read.table("reply_metrics"))
    )
    assert metrics == list(COEFFICIENTS)
    judged = study.judgments[study.judgments["judge"] == "bbq_letter"]
    found = accuracy_table(judged, study.prompts).query("reading == 'exact'").set_index("model")["accuracy"]
    expected = rates[rates["suite"] == "bbq"].set_index("model")["accuracy"]
    for model in expected.index:
        assert found[model] == pytest.approx(expected[model], abs=4 * np.sqrt(0.25 / 300))
    both = judged["raw_value"].groupby(judged["model"]).mean()
    pd.testing.assert_series_equal(both, found, check_names=False)


def test_a_second_judge_disagrees_as_the_counts_say():
    """Table 6 of HarmBench: where the first judge says safe, the second says harmful in 261 of 2,435 replies."""
    counts = np.array([[234, 196, 2], [502, 2594, 437], [261, 233, 1941]])
    judgments = simulate(few(5, 2000), np.random.default_rng(6)).judgments
    other = second_judge(judgments, {"s": counts}, np.random.default_rng(7))
    found = confusion(judgments["label"], other["label"])
    for label in range(3):
        expected = counts[label] / counts[label].sum()
        error = np.sqrt(expected * (1 - expected) / found[label].sum())
        assert (np.abs(found[label] / found[label].sum() - expected) < 4 * error).all()
    assert set(other["judge"]) == {"simulated_2"} and agreement(found).first_safe_second_harmful > 100
