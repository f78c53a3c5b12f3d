"""What the analysis recovers from studies with planted effects, and how often its 95 % intervals hold the truth.

    OMP_NUM_THREADS=1 python benchmarks/simulation.py [--draws 200]

A study of one suite, 6 models and 80,000 prompts is drawn (`simulate.py`); each draw takes 300 of its
prompts. Truths: the planted coefficients; r with a prompt's AR, and the balanced accuracy of the very classifier that
was fitted, in 20,000 prompts set apart; for repeated splits, the mean of that balanced accuracy over the draws. At the
end errors with and without clusters of prompts are compared, in that study and in one whose prompts have intercepts of
their own (1.5 log-odds); the truth is there the model's own fit to all prompts, as an intercept that the model lacks
shrinks the effects. What it draws is no result.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm
from simulate import COEFFICIENTS, PROMPT_SCALES, REPLY_SCALES, simulate

from slmsafety.analysis.drivers.ambiguity_model import ambiguity_model
from slmsafety.analysis.drivers.association_checks import clustered_intervals
from slmsafety.analysis.drivers.associations import correlations, metric_points, prompt_means
from slmsafety.analysis.drivers.metric_rows import reply_rows
from slmsafety.analysis.prediction.checks import over_repeats
from slmsafety.analysis.prediction.classifiers import Fitting, fit, score
from slmsafety.analysis.prediction.evaluation import evaluate
from slmsafety.analysis.prediction.features import METRICS, feature_sets, labelled_replies
from slmsafety.analysis.prediction.splits import within_suite

MODELS, POPULATION, APART, PROMPTS, REPEATS = 6, 80_000, 20_000, 300, 5
PROMPT_SD = 1.5
CLASSIFIER = "Logistic regression"
RATES = pd.DataFrame({"suite": "s", "model": [f"m{n}" for n in range(MODELS)], "n": POPULATION, "accuracy": np.nan})
RATES = RATES.assign(ar=np.linspace(0.2, 0.7, MODELS), hcr=0.1, srr=lambda frame: 0.9 - frame["ar"])
SPREADS = np.array([scale.spread for scale in (*PROMPT_SCALES.values(), *REPLY_SCALES.values())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--smallest", dest="draws", action="store_const", const=1, help="one draw, to try it")
    draws = parser.parse_args().draws
    rng = np.random.default_rng(1337)
    study = simulate(RATES, rng)
    rows = reply_rows(study.labels(), study.prompt_metrics, study.reply_metrics)
    apart = rows[rows["prompt"] < APART]
    truth = correlations(metric_points(prompt_means(apart))).set_index("metric")["r"]
    found = []
    for seed in range(draws):
        prompts = APART + rng.choice(POPULATION - APART, PROMPTS, replace=False)
        found.append(draw(seed, rows[rows["prompt"].isin(prompts)], apart, truth))
    effects = pd.concat([effect for effect, _ in found]).groupby("metric", sort=False)
    table = effects.agg(
        planted=("planted", "first"),
        mean=("effect", "mean"),
        sd=("effect", "std"),
        error=("error", "mean"),
        covered=("covered", "mean"),
        sign=("sign", "mean"),
        r=("r", "mean"),
        r_covered=("r_covered", "mean"),
    )
    print(f"{draws} studies of {MODELS} models and {PROMPTS} prompts\n\n{table.round(3).to_string()}\n")
    scores = pd.DataFrame([one for _, one in found])
    expected = scores["true"].mean()
    repeated = (scores["repeats_low"] <= expected) & (expected <= scores["repeats_high"])
    held = (scores["low"] <= scores["true"]) & (scores["true"] <= scores["high"])
    print(f"all coefficients: {pd.concat([one for one, _ in found])['covered'].mean():.3f} of the intervals cover")
    print(f"balanced accuracy, one split, prompts drawn anew: {held.mean():.3f} of the intervals cover")
    print(f"balanced accuracy, {REPEATS} splits, corrected t: {repeated.mean():.3f} of the intervals cover")
    print(f"a share of .95 has a standard error of {np.sqrt(0.95 * 0.05 / draws):.3f} over {draws} draws\n")
    other = simulate(RATES, rng, prompt_sd=PROMPT_SD)
    other_rows = reply_rows(other.labels(), other.prompt_metrics, other.reply_metrics)
    covered = {"no prompt effect": coverage(rows, draws), "prompt effect": coverage(other_rows, draws)}
    print(f"shares of intervals that cover, by the kind of error\n{pd.concat(covered).round(3).to_string()}")


def draw(seed: int, rows: pd.DataFrame, apart: pd.DataFrame, truth: pd.Series) -> tuple[pd.DataFrame, dict[str, float]]:
    """The effects of one study, each with its interval's verdict, and its scores of prediction."""
    rng = np.random.default_rng(seed)
    effects = effects_of(rows).drop(columns="plain").rename(columns={"clustered": "error"})
    effects["planted"] = planted = np.array([*COEFFICIENTS.values()])
    effect, errors = effects["effect"], effects["error"]
    effects["covered"] = np.abs(effect - planted) <= norm.ppf(0.975) * errors
    effects["sign"] = np.where(planted == 0, np.nan, np.sign(effect) == np.sign(planted))
    means = prompt_means(rows)
    r = correlations(metric_points(means)).set_index("metric")["r"]
    limits = clustered_intervals(means, means["instance_id"], rng, resamples=500).set_index("metric")
    limits, true_r = limits.loc[effects["metric"]], truth[effects["metric"]].to_numpy()
    effects["r"] = r[effects["metric"]].to_numpy()
    effects["r_covered"] = (limits["low"].to_numpy() <= true_r) & (true_r <= limits["high"].to_numpy())
    return effects, prediction_of(rows, apart, seed)


def effects_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Each metric's effect for one spread, and its standard errors with clusters of prompts and without (plain)."""
    model = ambiguity_model(rows, list(COEFFICIENTS))
    places = [model.columns.index(metric) for metric in COEFFICIENTS]
    chance = expit(model.x @ model.params)
    plain = np.linalg.inv(model.x.T @ (model.x * (chance * (1 - chance))[:, None]))
    errors = {"clustered": model.covariance, "plain": plain}
    columns = {"effect": model.params} | {name: np.sqrt(np.diag(matrix)) for name, matrix in errors.items()}
    units = SPREADS / model.scale
    return pd.DataFrame({"metric": [*COEFFICIENTS]} | {name: of[places] * units for name, of in columns.items()})


def coverage(rows: pd.DataFrame, draws: int) -> pd.DataFrame:
    """The shares of 95 % intervals that hold the effect in all rows, of prompt and of reply metrics, by the error."""
    truth, found = effects_of(rows)["effect"], []
    for seed in range(draws):
        prompts = np.random.default_rng(seed).choice(POPULATION, PROMPTS, replace=False)
        effects = effects_of(rows[rows["prompt"].isin(prompts)])
        gaps = (effects["effect"] - truth).abs()
        held = effects[["clustered", "plain"]].mul(norm.ppf(0.975)).ge(gaps, axis=0)
        found.append(held.groupby(effects["metric"].str.split().str[0]).mean())
    return pd.concat(found).groupby(level=0).mean()


def prediction_of(rows: pd.DataFrame, apart: pd.DataFrame, seed: int) -> dict[str, float]:
    """Both intervals of balanced accuracy, and the balanced accuracy of the classifier of one split in rows apart."""
    replies = labelled_replies(rows, pd.DataFrame(index=RATES["model"]))
    splits, metrics = within_suite(replies, seed, REPEATS), feature_sets(replies)[METRICS]
    values, labels = replies[metrics].to_numpy(float), replies["ambiguous"].to_numpy(bool)
    results = evaluate(replies, splits, {METRICS: metrics}, Fitting(seed), [CLASSIFIER])
    ((repeated),) = over_repeats(results).to_dict("records")
    train = splits[0].train
    fitted = fit(CLASSIFIER, values[train], labels[train], Fitting(seed))
    chance = fitted.probability(apart[metrics].to_numpy(float))
    ambiguous = apart["ambiguous"].to_numpy(bool)
    true = score(ambiguous, chance, fitted.decide(chance), apart["prompt"].to_numpy(np.intp)).balanced_accuracy
    own = {"low": results["low"].iloc[0], "high": results["high"].iloc[0], "true": true}
    return own | {"repeats_low": repeated["low"], "repeats_high": repeated["high"]}


if __name__ == "__main__":
    main()
