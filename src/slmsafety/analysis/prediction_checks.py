"""How far a prediction of ambiguity can be trusted: repeated splits, fewer metrics, shuffled metrics and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from scipy.stats import t as student
from sklearn.metrics import balanced_accuracy_score

from slmsafety.analysis.classifiers import fit
from slmsafety.analysis.prediction import (
    ABOUT,
    WITH_MODEL,
    feature_names,
    feature_sets,
    one_class,
    predict,
)
from slmsafety.analysis.splits import Split

_CHANCE = 3
"""How many standard errors from one half a prediction of shuffled labels may be."""


def baselines(
    rows: pd.DataFrame, splits: Iterable[Split], chosen: Mapping[str, str], *, seed: int, threads: int = 1
) -> pd.DataFrame:
    """Return `over_repeats` of each suite's `chosen` classifier with every one of `feature_sets`."""
    sets = feature_sets(rows)
    parts = [predict(rows, [one], sets, [chosen[one.source]], seed=seed, threads=threads) for one in splits]
    return over_repeats(pd.concat(parts or [predict(rows, [], {}, seed=seed)], ignore_index=True))


def over_repeats(results: pd.DataFrame) -> pd.DataFrame:
    """Return the mean scores of `predict` over repeated splits, by source, target, features and classifier.

    Columns: these, balanced_accuracy with low and high, roc_auc, brier, ece, repeats (splits with a balanced accuracy,
    which the means are over) and undefined (the others). The 95 % interval is the corrected resampled t of Nadeau and
    Bengio (2003): splits share rows, so that the usual one is too narrow. It is nan below two repeats.
    """
    records = []
    for key, group in results.groupby(list(ABOUT), sort=False):
        done = group[group["balanced_accuracy"].notna()]
        n, margin, means = len(done), np.nan, done[["balanced_accuracy", "roc_auc", "brier", "ece"]].mean()
        if n > 1:
            spread = done["balanced_accuracy"].var() * (1 / n + (done["test_rows"] / done["train_rows"]).mean())
            margin = student.ppf(0.975, n - 1) * np.sqrt(spread)
        mean, *others = means
        records.append((*key, mean, mean - margin, mean + margin, *others, n, len(group) - n))
    columns = [*ABOUT, "balanced_accuracy", "low", "high", "roc_auc", "brier", "ece", "repeats", "undefined"]
    return pd.DataFrame(records, columns=columns)


def importance(
    rows: pd.DataFrame,
    splits: Iterable[Split],
    chosen: Mapping[str, str],
    *,
    seed: int,
    repeats: int = 10,
    threads: int = 1,
) -> pd.DataFrame:
    """Return by how much balanced accuracy falls when one group of metrics is shuffled over the test rows.

    The prompt's, the reply's and the model's metrics are shuffled each as a block, so that those of a block still fit
    each other (Breiman 2001, by group). Columns: source, target, group, metrics (how many), balanced_accuracy (before),
    drop (mean over the repeats), lowest and highest; nan where there is no balanced accuracy, and then a note.
    """
    rng = np.random.default_rng(seed)
    columns, ambiguous = feature_names(rows), rows["ambiguous"].to_numpy(bool)
    values, records = rows[columns].to_numpy(float), []
    for split in splits:
        fitted = fit(chosen[split.source], values[split.train], ambiguous[split.train], seed, threads)
        for target, test in split.tests.items():
            truth, note = ambiguous[test], fitted.note or one_class("test", ambiguous[test])
            falls = {kind: names for kind in ("prompt", "reply", "model") if (names := feature_names(rows, kind))}
            for kind, names in falls.items():
                found, drops = np.nan, np.full(repeats, np.nan)
                if not note:
                    found = balanced_accuracy_score(truth, fitted.decide(fitted.probability(values[test])))
                    block = [columns.index(name) for name in names]
                    for number in range(repeats):
                        other = values[test]
                        other[:, block] = rng.permutation(other[:, block])
                        decided = fitted.decide(fitted.probability(other))
                        drops[number] = found - balanced_accuracy_score(truth, decided)
                records.append(
                    (split.source, target, kind, len(names), found, drops.mean(), drops.min(), drops.max(), note)
                )
    names = ["source", "target", "group", "metrics", "balanced_accuracy", "drop", "lowest", "highest", "note"]
    return pd.DataFrame(records, columns=names)


def leakage(
    rows: pd.DataFrame, splits: Iterable[Split], chosen: Mapping[str, str], *, seed: int, threads: int = 1
) -> pd.DataFrame:
    """Return what the two sides of each split share, and how well labels shuffled within each suite are predicted.

    Columns: source, target, shared_prompts and shared_models (on both sides), shuffled (balanced accuracy on all
    metrics and the model's), chance_low and chance_high (one half, and three standard errors either way), clean: no
    prompt or no model is shared, and `shuffled` lies in that range (missing where it is nan).
    """
    rng, records = np.random.default_rng(seed), []
    mixed = rows.assign(
        ambiguous=rows.groupby("suite", observed=True)["ambiguous"].transform(lambda part: rng.permutation(part))
    )
    keys = {"prompts": rows["prompt"].to_numpy(), "models": pd.factorize(rows["model"])[0]}
    features = {WITH_MODEL: feature_names(rows)}
    for split in splits:
        found = predict(mixed, [split], features, [chosen[split.source]], seed=seed, threads=threads)
        for (target, test), value in zip(split.tests.items(), found["balanced_accuracy"], strict=True):
            shared = [len(np.intersect1d(key[split.train], key[test])) for key in keys.values()]
            ones = int(mixed["ambiguous"].to_numpy(bool)[test].sum())
            # With the labels in random order the variance is at most (1 / ones + 1 / zeros) / 16.
            margin = _CHANCE / 4 * np.sqrt(1 / ones + 1 / (len(test) - ones)) if 0 < ones < len(test) else np.nan
            clean = None if np.isnan(value) else min(shared) == 0 and abs(value - 0.5) <= margin
            records.append((split.source, target, *shared, value, 0.5 - margin, 0.5 + margin, clean))
    names = ["source", "target", "shared_prompts", "shared_models", "shuffled", "chance_low", "chance_high", "clean"]
    return pd.DataFrame(records, columns=names).astype({"clean": "boolean"})
