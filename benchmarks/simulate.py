"""A simulated study with planted causes of ambiguity, to check the statistics and to measure speed; never a result.

Every model has the rates it is given, and within a model and suite the log-odds of an ambiguous label are linear in the
metrics with the planted coefficients. Everything drawn says "simulated" where a study names its judge and revision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from slmsafety.records.schema import (
    AMBIGUOUS,
    HARMFUL,
    JUDGMENTS,
    PROMPT_METRICS,
    PROMPTS,
    REPLY_METRICS,
    SAFE,
    typed,
)

SIMULATED = "simulated"
CHOICES_JUDGE = "bbq_letter"
_UNSPLIT = 0.1
"""Share of replies of one sentence, which have no self-coherence."""
_SHARED = 0.3
"""Share of a reply metric's variance, within a model and suite, that the prompt accounts for."""


class Scale(NamedTuple):
    """How a metric is drawn: normal, as log(1 + x) where it is logged, and then rounded where it is a whole number."""

    centre: float
    spread: float
    logged: bool = False
    whole: bool = False


PROMPT_SCALES = {
    "tokens": Scale(4.1, 0.6, logged=True, whole=True),
    "flesch_kincaid": Scale(10, 3),
    "gunning_fog": Scale(12, 3.5),
    "perplexity": Scale(4.0, 0.5, logged=True),
    "instruction_verbs": Scale(4, 1, whole=True),
    "dependency_distance": Scale(2.5, 0.4),
}
REPLY_SCALES = {
    "tokens": Scale(5.0, 0.7, logged=True, whole=True),
    "perplexity": Scale(3.0, 0.5, logged=True),
    "similarity": Scale(0.45, 0.12),
    "self_coherence": Scale(0.45, 0.12),
    "lexical_sophistication": Scale(0.3, 0.05),
    "lexical_density": Scale(0.5, 0.06),
}
COEFFICIENTS = {
    "prompt tokens": 0.2,
    "prompt flesch_kincaid": 0.1,
    "prompt gunning_fog": 0.0,
    "prompt perplexity": 0.15,
    "prompt instruction_verbs": 0.0,
    "prompt dependency_distance": 0.1,
    "reply tokens": 0.4,
    "reply perplexity": 0.6,
    "reply similarity": -0.7,
    "reply self_coherence": -0.5,
    "reply lexical_sophistication": -0.4,
    "reply lexical_density": 0.5,
}
"""Log-odds of ambiguity per spread of each metric; the signs of the reply metrics are those of the paper's Figure 5."""


class Simulated(NamedTuple):
    """The tables of a study, in its columns; no reply has a text."""

    prompts: pd.DataFrame
    judgments: pd.DataFrame
    prompt_metrics: pd.DataFrame
    reply_metrics: pd.DataFrame

    def labels(self) -> pd.DataFrame:
        """Return the judged replies of the safety suites with what their prompts expect, as a study's labels are."""
        columns = ["suite", "instance_id", "model", "generation_id", "judge_id", "judge", "status", "label", "reason"]
        judged = self.judgments.loc[self.judgments["judge"] == SIMULATED, columns]
        about = self.prompts[["suite", "instance_id", "expected", "category", "subcategory"]]
        return judged.merge(about, on=["suite", "instance_id"], how="left", validate="many_to_one")


def with_assumed_suites(
    outcomes: pd.DataFrame, sst_shares: list[float], params_m: pd.Series, rng: np.random.Generator
) -> pd.DataFrame:
    """Return the outcomes of Table A1's three suites and, by assumption, of the two that it lacks.

    Simple Safety Tests (sst, 100 prompts): each model's rates are drawn from a Dirichlet distribution around the shares
    of harmful, ambiguous and safe (Table 6) with the weight of 20 prompts. BBQ (1,000 questions): accuracy rises with
    the logarithm of `params_m` (indexed by model) from .25 to .65.
    """
    models = sorted(outcomes["model"].unique())
    size = np.log(params_m.reindex(models).to_numpy(float))
    drawn = rng.dirichlet(20 * np.asarray(sst_shares), len(models))
    sst = pd.DataFrame(drawn, columns=["hcr", "ar", "srr"]).assign(suite="sst", model=models, n=100)
    accuracy = 0.25 + 0.4 * (size - size.min()) / np.ptp(size)
    bbq = pd.DataFrame({"suite": "bbq", "model": models, "n": 1000, "accuracy": accuracy})
    return pd.concat([outcomes[["suite", "model", "n", "hcr", "ar", "srr", "accuracy"]], sst, bbq], ignore_index=True)


def simulate(
    rates: pd.DataFrame,
    rng: np.random.Generator,
    coefficients: Mapping[str, float] | None = None,
    prompt_sd: float = 0.0,
) -> Simulated:
    """Return a study drawn from the rates: suite, model, n (prompts), hcr, ar, srr, and accuracy for multiple choice.

    Of each suite all models answer the same n prompts. Within a model and suite the intercept is solved for, so that
    the expected AR over the drawn metrics is `ar`; a decisive reply is safe with probability srr / (srr + hcr) whatever
    its metrics. Suites differ in their prompts' metrics and models in their replies', by fixed offsets of up to half a
    spread; a prompt accounts for three tenths of the variance of a reply metric; one reply in ten has no self-coherence
    (and there adds nothing to the log-odds). With a `prompt_sd` each prompt adds an intercept of its own, the same for
    all models, drawn from a normal distribution of that SD in log-odds, so that a prompt's labels depend on each other
    beyond the metrics. A suite with an accuracy gets right and wrong letters and no labels.
    """
    planted = {**dict.fromkeys(COEFFICIENTS, 0.0), **(COEFFICIENTS if coefficients is None else coefficients)}
    causes = _Causes(sorted(rates["model"].unique()), planted, prompt_sd)
    parts: list[Simulated] = []
    for number, (suite, group) in enumerate(rates.groupby("suite", sort=True)):
        parts.append(_suite(str(suite), number, group.set_index("model"), causes, rng))
    return Simulated(*(pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True)))


def second_judge(
    judgments: pd.DataFrame, counts: Mapping[str, NDArray[np.int64]], rng: np.random.Generator
) -> pd.DataFrame:
    """Return another judge's judgments of the suites in `counts`, drawn given the first judge's label.

    `counts` holds 3 x 3 confusion counts by suite, rows the first judge's labels; each of its rows must hold some.
    """
    parts = []
    for suite, table in counts.items():
        part = judgments[judgments["suite"] == suite]
        steps = np.cumsum(table / table.sum(axis=1, keepdims=True), axis=1)
        chances = steps[part["label"].to_numpy(int)]
        label = (rng.random(len(part))[:, None] > chances[:, :2]).sum(axis=1)
        parts.append(part.assign(label=label, judge_id=f"{SIMULATED}_2", judge=f"{SIMULATED}_2"))
    return typed(pd.concat(parts, ignore_index=True), JUDGMENTS)


def working_scale(metrics: pd.DataFrame, scales: Mapping[str, Scale]) -> NDArray[np.float64]:
    """Return each metric in spreads from its centre, the scale of the coefficients; 0 where it is missing."""
    columns = []
    for name, scale in scales.items():
        values = metrics[name].to_numpy(float)
        columns.append(((np.log1p(values) if scale.logged else values) - scale.centre) / scale.spread)
    return np.asarray(np.nan_to_num(np.column_stack(columns)), float)


def intercept(log_odds: NDArray[np.float64], rate: float) -> float:
    """Return what must be added to the log-odds so that the mean probability is the rate; infinite at 0 and 1."""
    if rate in (0, 1):
        return float(np.inf if rate else -np.inf)
    reach = float(np.abs(log_odds).max()) + 40
    return float(brentq(lambda shift: expit(log_odds + shift).mean() - rate, -reach, reach))


class _Causes(NamedTuple):
    """What is planted in every suite: the models of all suites in order, the coefficients, the SD of a prompt's own."""

    models: list[str]
    coefficients: Mapping[str, float]
    prompt_sd: float


def _suite(suite: str, number: int, rates: pd.DataFrame, causes: _Causes, rng: np.random.Generator) -> Simulated:
    """One suite's tables; `rates` is indexed by model."""
    models, planted, prompt_sd = causes
    n, answered = int(rates["n"].iloc[0]), [model for model in models if model in rates.index]
    ids = np.array([f"{SIMULATED}{index}" for index in range(n)])
    prompt_metrics = _drawn(rng.normal(size=(n, len(PROMPT_SCALES))) + _offset(number, PROMPT_SCALES), PROMPT_SCALES)
    on_prompt = working_scale(prompt_metrics, PROMPT_SCALES) @ _planted(planted, "prompt", PROMPT_SCALES)
    if prompt_sd:
        on_prompt = on_prompt + rng.normal(scale=prompt_sd, size=n)
    by_prompt, replies, log_odds = rng.normal(size=(n, len(REPLY_SCALES))), [], []
    for model in answered:
        spread = np.sqrt(_SHARED) * by_prompt + np.sqrt(1 - _SHARED) * rng.normal(size=by_prompt.shape)
        own = _drawn(spread + _offset(models.index(model), REPLY_SCALES), REPLY_SCALES)
        own["self_coherence"] = own["self_coherence"].where(rng.random(n) >= _UNSPLIT)
        replies.append(own)
        log_odds.append(on_prompt + working_scale(own, REPLY_SCALES) @ _planted(planted, "reply", REPLY_SCALES))
    judged = {"suite": suite, "instance_id": np.tile(ids, len(answered)), "model": np.repeat(answered, n)}
    judged |= {"generation_id": SIMULATED}
    reply_metrics = pd.concat([pd.DataFrame(judged), pd.concat(replies, ignore_index=True)], axis=1)
    metrics = (
        typed(prompt_metrics.assign(suite=suite, instance_id=ids, metrics_id=SIMULATED), PROMPT_METRICS),
        typed(reply_metrics.assign(metrics_id=SIMULATED), REPLY_METRICS),
    )
    judged |= {"judge_id": SIMULATED, "status": "ok"}
    prompts = {"suite": suite, "instance_id": ids, "suite_revision": SIMULATED, "expected": "refuse"}
    prompts |= dict.fromkeys(("prompt", "category", "subcategory"), SIMULATED)
    if rates["accuracy"].notna().any():
        meta, chosen = _choices(n, rates.loc[answered, "accuracy"], rng)
        prompts, judged = prompts | {"expected": "answer", "meta": meta}, judged | {"judge": CHOICES_JUDGE} | chosen
    else:
        shares = rates.loc[answered, ["hcr", "ar", "srr"]].to_numpy(float)
        labels = [_labels(one, odds, rng) for one, odds in zip(shares, log_odds, strict=True)]
        judged |= {"judge": SIMULATED, "label": np.concatenate(labels)}
    return Simulated(typed(pd.DataFrame(prompts), PROMPTS), typed(pd.DataFrame(judged), JUDGMENTS), *metrics)


def _labels(shares: NDArray[np.float64], log_odds: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One model's labels from its HCR, AR and SRR: ambiguous by the log-odds, else safe or harmful by a coin."""
    hcr, ar, srr = shares.tolist()
    ambiguous = rng.random(len(log_odds)) < expit(log_odds + intercept(log_odds, ar))
    safe = rng.random(len(log_odds)) < (srr / (srr + hcr) if srr + hcr > 0 else 0.5)
    return np.where(ambiguous, AMBIGUOUS, np.where(safe, SAFE, HARMFUL))


def _choices(n: int, accuracy: pd.Series, rng: np.random.Generator) -> tuple[list[str], dict[str, Any]]:
    """The questions' meta, and the judgments' raw_value and meta, for one model after the other.

    A is the target's letter, B the other group's, C says that one cannot know.
    """
    ambiguous, target, negative = rng.random((3, n)) < 0.5
    right = np.where(ambiguous, "C", np.where(target, "A", "B"))
    items = [
        {"sources": [], "label": label, "target": "A", "non_target": "B", "unknown": "C"}
        | {"condition": "ambig" if unclear else "disambig", "polarity": "neg" if minus else "nonneg"}
        for label, unclear, minus in zip(right.tolist(), ambiguous, negative, strict=True)
    ]
    hit = np.concatenate([rng.random(n) < rate for rate in accuracy])
    keys = np.tile(right, len(accuracy))
    said = np.where(hit, keys, np.where(keys == "A", "B", "A"))
    meta = [json.dumps({"exact": letter, "tolerant": letter}) for letter in said.tolist()]
    return [json.dumps(item) for item in items], {"raw_value": hit.astype(float), "meta": meta}


def _drawn(normal: NDArray[np.float64], scales: Mapping[str, Scale]) -> pd.DataFrame:
    """Metrics as recorded, from draws in spreads from the centre."""
    columns: dict[str, Any] = {}
    for (name, scale), column in zip(scales.items(), normal.T, strict=True):
        values = scale.centre + scale.spread * column
        recorded = np.expm1(values) if scale.logged else values
        columns[name] = np.maximum(np.rint(recorded), 0).astype(np.int64) if scale.whole else recorded
    return pd.DataFrame(columns)


def _offset(number: int, scales: Mapping[str, Scale]) -> NDArray[np.float64]:
    """Fixed offsets, one a metric, between minus and plus half a spread, that look unrelated from number to number."""
    return np.asarray(np.sin(np.outer(number + 1, np.arange(len(scales)) + 1) * 2.4).ravel() / 2, float)


def _planted(coefficients: Mapping[str, float], kind: str, scales: Mapping[str, Scale]) -> NDArray[np.float64]:
    return np.array([coefficients[f"{kind} {name}"] for name in scales])
