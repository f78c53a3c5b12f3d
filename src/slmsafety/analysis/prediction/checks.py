"""How far a prediction of ambiguity can be trusted: repeated splits, fewer or shuffled metrics, leaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.metrics import balanced_accuracy_score
from sklearn.tree import DecisionTreeClassifier

from slmsafety.analysis.prediction.classifiers import fit
from slmsafety.analysis.prediction.predict import (
    ABOUT,
    WITH_MODEL,
    feature_names,
    feature_sets,
    one_class,
    predict,
)
from slmsafety.analysis.prediction.splits import Split

_CHANCE = 3
"""How many standard errors from one half a prediction of shuffled labels may be."""
TELLING = 0.95
"""The balanced accuracy from which on a feature alone may hold the label."""
_SAMPLE = 20_000
"""The most training rows that a feature alone is fitted to."""


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
    """Return what the two sides of each split share, and whether a feature alone tells the label.

    Rows on both sides show in shared prompts and models and in shuffled labels that are known by heart. A feature that
    holds the label shows in neither, but alone. Columns: source, target, shared_prompts and shared_models (on both
    sides), shuffled (balanced accuracy on all metrics and the model's of labels shuffled within each suite), chance_low
    and chance_high (one half, and three standard errors either way), clean (no prompt or no model is shared, and
    `shuffled` lies in that range; missing where it is nan), strongest (the first feature with the highest balanced
    accuracy of `alone`), alone (that accuracy) and telling (the features that reach `TELLING`, with commas).
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
            single = alone(rows, split.train, test, seed=seed).dropna()
            top = (single.idxmax(), single.max()) if len(single) else ("", np.nan)
            telling = ", ".join(single.index[single >= TELLING])
            records.append((split.source, target, *shared, value, 0.5 - margin, 0.5 + margin, clean, *top, telling))
    names = ["source", "target", "shared_prompts", "shared_models", "shuffled", "chance_low", "chance_high", "clean"]
    return pd.DataFrame(records, columns=[*names, "strongest", "alone", "telling"]).astype({"clean": "boolean"})


def alone(rows: pd.DataFrame, train: NDArray[np.intp], test: NDArray[np.intp], *, seed: int) -> pd.Series:
    """Return the balanced accuracy of each feature alone, by feature, on the test rows; nan where a side has one class.

    A decision tree cuts the feature on the training rows (on a sample of 20,000 where there are more), in two steps:
    what holds a label of three values has the ambiguous one in the middle. A missing value is a value to it.
    """
    features, ambiguous = feature_names(rows), rows["ambiguous"].to_numpy(bool)
    if len(train) > _SAMPLE:
        train = np.random.default_rng(seed).choice(train, _SAMPLE, replace=False)
    found = pd.Series(np.nan, index=features)
    if one_class("training", ambiguous[train]) or one_class("test", ambiguous[test]):
        return found
    for name in features:
        # The tree reads 32-bit floats, which a perplexity can be too large for.
        values = np.arcsinh(rows[[name]].to_numpy(float))
        tree = DecisionTreeClassifier(max_depth=2, class_weight="balanced", random_state=seed)
        tree.fit(values[train], ambiguous[train])
        found[name] = balanced_accuracy_score(ambiguous[test], tree.predict(values[test]))
    return found
