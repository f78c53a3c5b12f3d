"""How far a prediction of ambiguity can be trusted: repeated splits, fewer or shuffled metrics, leaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from scipy.stats import t as student
from sklearn.metrics import balanced_accuracy_score
from sklearn.tree import DecisionTreeClassifier

from slmsafety.analysis.arrays import Flags, Floats, Rows
from slmsafety.analysis.drivers.metric_rows import metric_names
from slmsafety.analysis.prediction.classifiers import Fitted, Fitting, fit, one_class
from slmsafety.analysis.prediction.evaluation import ABOUT, evaluate
from slmsafety.analysis.prediction.features import KINDS, WITH_MODEL, feature_names, feature_sets
from slmsafety.analysis.prediction.splits import Split
from slmsafety.analysis.resampling import FEWEST_CLUSTERS

_CHANCE = 3
"""How many standard errors from one half a prediction of shuffled labels may be."""
TELLING = 0.95
"""The balanced accuracy from which on a feature alone may hold the label."""
_SAMPLE = 20_000
"""The most training rows that a feature alone is fitted to."""


def baselines(
    rows: pd.DataFrame, splits: Iterable[Split], classifiers: Mapping[str, str], fitting: Fitting
) -> pd.DataFrame:
    """Return `over_repeats` of each suite's classifier (by its name) with every one of `feature_sets`."""
    sets = feature_sets(rows)
    parts = [evaluate(rows, [one], sets, fitting, [classifiers[one.source]]) for one in splits]
    return over_repeats(pd.concat(parts or [evaluate(rows, [], {}, fitting)], ignore_index=True))


def over_repeats(results: pd.DataFrame) -> pd.DataFrame:
    """Return the mean scores of `evaluate` over repeated splits, by unit, source, target, features and classifier.

    Columns: these, balanced_accuracy with low and high, roc_auc, brier, ece, repeats (splits with a balanced accuracy,
    which the means are over) and undefined (the others). The 95 % interval is the corrected resampled t of Nadeau and
    Bengio (2003): splits share rows, so that the usual one is too narrow. It ends at 0 and 1, and is nan below two
    repeats and where both sides hold fewer than `resampling.FEWEST_CLUSTERS` groups of prompts.
    """
    records = []
    for key, group in results.groupby(list(ABOUT), sort=False):
        done = group[group["balanced_accuracy"].notna()]
        n, margin, means = len(done), np.nan, done[["balanced_accuracy", "roc_auc", "brier", "ece"]].mean()
        if n > 1 and (done["train_groups"] + done["test_groups"]).min() >= FEWEST_CLUSTERS:
            spread = done["balanced_accuracy"].var() * (1 / n + (done["test_rows"] / done["train_rows"]).mean())
            margin = student.ppf(0.975, n - 1) * np.sqrt(spread)
        mean, *others = means
        limits = np.clip([mean - margin, mean + margin], 0, 1)
        records.append((*key, mean, *limits, *others, n, len(group) - n))
    columns = [*ABOUT, "balanced_accuracy", "low", "high", "roc_auc", "brier", "ece", "repeats", "undefined"]
    return pd.DataFrame(records, columns=columns)


def importance(
    rows: pd.DataFrame, splits: Iterable[Split], classifiers: Mapping[str, str], fitting: Fitting, repeats: int = 10
) -> pd.DataFrame:
    """Return by how much balanced accuracy falls when one group of metrics is shuffled over the test rows.

    Parameters
    ----------
    rows : DataFrame
        From `features.labelled_replies`.
    splits : iterable of Split
        The row numbers that train and that test.
    classifiers : mapping of str to str
        The classifier of each suite that trains (`evaluation.best_classifiers`).
    fitting : Fitting
        Seed (also of the shuffling) and threads.
    repeats : int
        How often each group is shuffled.

    Returns
    -------
    DataFrame
        source, target, group (prompt, reply, model: its metrics are shuffled as a block, so that those of a block still
        fit each other), metrics (how many), balanced_accuracy (before), drop (mean over the repeats; 0: the group adds
        nothing, 0.5: it is all that there was), lowest, highest, note. nan where there is no balanced accuracy; then
        the note says why.

    References
    ----------
    Breiman, L. (2001). Random forests. Machine Learning 45, 5-32; here by groups of columns.
    """
    rng = np.random.default_rng(fitting.seed)
    columns, ambiguous = feature_sets(rows)[WITH_MODEL], rows["ambiguous"].to_numpy(bool)
    groups = {kind: names for kind in KINDS if (names := metric_names(rows[columns], kind))}
    values, records = rows[columns].to_numpy(float), []
    for split in splits:
        fitted = fit(classifiers[split.source], values[split.train], ambiguous[split.train], fitting)
        for target, test in split.tests.items():
            truth, note = ambiguous[test], fitted.note or one_class("test", ambiguous[test])
            before = np.nan if note else _accuracy(fitted, values[test], truth)
            for kind, names in groups.items():
                block = [columns.index(name) for name in names]
                drops = np.full(repeats, np.nan)
                for number in range(0 if note else repeats):
                    shuffled = values[test]
                    shuffled[:, block] = rng.permutation(shuffled[:, block])
                    drops[number] = before - _accuracy(fitted, shuffled, truth)
                spread = (drops.mean(), drops.min(), drops.max())
                records.append((split.source, target, kind, len(names), before, *spread, note))
    names = ["source", "target", "group", "metrics", "balanced_accuracy", "drop", "lowest", "highest", "note"]
    return pd.DataFrame(records, columns=names)


def _accuracy(fitted: Fitted, values: Floats, truth: Flags) -> float:
    return float(balanced_accuracy_score(truth, fitted.decide(fitted.probability(values))))


def leakage(
    rows: pd.DataFrame, splits: Iterable[Split], classifiers: Mapping[str, str], fitting: Fitting
) -> pd.DataFrame:
    """Return what the two sides of each split share, and whether any single feature predicts the label.

    Rows on both sides show in shared prompts, groups and models, and in shuffled labels that are predicted. A feature
    that holds the label shows in neither, but by itself.

    Parameters
    ----------
    rows, splits, classifiers, fitting
        As for `importance`; the seed also shuffles the labels. With a column `card`, systems of one card are one model.

    Returns
    -------
    DataFrame
        unit (of the split), source, target, shared_prompts, shared_groups, shared_models (int: on both sides), shuffled
        (balanced accuracy on all metrics and the model's of labels shuffled within each suite; 0.5: chance),
        chance_low, chance_high (one half, and three standard errors either way), clean (bool: no group of prompts or no
        model is shared, and `shuffled` lies in that range; False also without `shuffled` where both are shared, else
        missing there), strongest (the first feature with the highest `single_feature_accuracy`), alone (that accuracy),
        telling (the features that reach `TELLING`, separated by commas).
    """
    rng, records = np.random.default_rng(fitting.seed), []
    mixed = rows.assign(
        ambiguous=rows.groupby("suite", observed=True)["ambiguous"].transform(lambda part: rng.permutation(part))
    )
    models = pd.factorize(rows["card"] if "card" in rows else rows["model"])[0]
    keys = (rows["prompt"].to_numpy(), rows["group"].to_numpy(), models)
    features = {WITH_MODEL: feature_sets(rows)[WITH_MODEL]}
    for split in splits:
        found = evaluate(mixed, [split], features, fitting, [classifiers[split.source]])
        for (target, test), value in zip(split.tests.items(), found["balanced_accuracy"], strict=True):
            _, groups, both_models = shared = [len(np.intersect1d(key[split.train], key[test])) for key in keys]
            ones = int(mixed["ambiguous"].to_numpy(bool)[test].sum())
            # With the labels in random order the variance is at most (1 / ones + 1 / zeros) / 16.
            margin = _CHANCE / 4 * np.sqrt(1 / ones + 1 / (len(test) - ones)) if 0 < ones < len(test) else np.nan
            apart = min(groups, both_models) == 0
            clean = None if apart and np.isnan(value) else apart and abs(value - 0.5) <= margin
            single = single_feature_accuracy(rows, split.train, test, fitting.seed).dropna()
            top = (single.idxmax(), single.max()) if len(single) else ("", np.nan)
            telling, chance = ", ".join(single.index[single >= TELLING]), (0.5 - margin, 0.5 + margin)
            records.append((split.unit, split.source, target, *shared, value, *chance, clean, *top, telling))
    both = ["shared_prompts", "shared_groups", "shared_models"]
    names = ["unit", "source", "target", *both, "shuffled", "chance_low", "chance_high", "clean"]
    return pd.DataFrame(records, columns=[*names, "strongest", "alone", "telling"]).astype({"clean": "boolean"})


def single_feature_accuracy(rows: pd.DataFrame, train: Rows, test: Rows, seed: int) -> pd.Series:
    """Return the balanced accuracy on the test rows of each feature by itself; nan where a side has one class.

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
