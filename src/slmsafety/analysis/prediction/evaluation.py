"""Can ambiguity be predicted from metrics of prompts and replies? (paper section 4.2, Tables 1-3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from slmsafety.analysis.prediction.classifiers import CLASSIFIERS, MAJORITY, Fitting, Scores, fit, one_class, score
from slmsafety.analysis.prediction.features import METRICS, WITH_MODEL, feature_sets
from slmsafety.analysis.prediction.nested import nested_choice
from slmsafety.analysis.prediction.splits import FAMILIES, GROUPS, MODELS, PROMPTS, SUITES, Split, same_rows

ABOUT = ("unit", "source", "target", "features", "classifier")
"""What tells one result from another: what its sides do not share, trained on, tested on, with which metrics, by what.
"""
INTERVALS = {
    PROMPTS: "for these models; over groups of prompts",
    GROUPS: "for these models; over groups of prompts",
    SUITES: "for these suites and models; over groups of prompts",
    MODELS: "for these models; over groups of prompts",
    FAMILIES: "for this model; over groups of prompts",
}
"""What the interval low to high of a result is for, by the unit of its split."""


def evaluate(
    rows: pd.DataFrame,
    splits: Iterable[Split],
    features: Mapping[str, list[str]],
    fitting: Fitting,
    classifiers: Iterable[str] = tuple(CLASSIFIERS),
) -> pd.DataFrame:
    """Return the scores of every split, test suite, set of features and classifier, one row each.

    Parameters
    ----------
    rows : DataFrame
        From `features.labelled_replies`.
    splits : iterable of Split
        The row numbers that train and that test.
    features : mapping of str to list of str
        The columns of each set of features; a set without columns is predicted by the majority.
    fitting : Fitting
        Seed and threads.
    classifiers : iterable of str
        Keys of `classifiers.CLASSIFIERS`.

    Returns
    -------
    DataFrame
        unit (of the split), source, target, features, classifier ("none" without features), those of
        `classifiers.Scores`, train_rows, test_rows (replies), train_groups, test_groups (of prompts), ambiguous (share
        of the test rows, 0..1), incomplete (test rows that lack a metric in use), fit_seconds, note (why scores are
        nan, else "").
    """
    ambiguous, group = rows["ambiguous"].to_numpy(bool), rows["group"].to_numpy()
    classifiers, records = tuple(classifiers), []
    for split in splits:
        for name, columns in features.items():
            values = rows[columns].to_numpy(float)
            for classifier in classifiers if columns else (MAJORITY,):
                fitted = fit(classifier, values[split.train], ambiguous[split.train], fitting)
                for target, test in split.tests.items():
                    truth, chance = ambiguous[test], fitted.probability(values[test])
                    scores = score(truth, chance, fitted.decide(chance), group[test])
                    incomplete = int(np.isnan(values[test]).any(axis=1).sum())
                    share = float(truth.mean()) if len(test) else np.nan
                    groups = (len(np.unique(group[split.train])), len(np.unique(group[test])))
                    counts = (len(split.train), len(test), *groups, share, incomplete, fitted.seconds)
                    about = (split.unit, split.source, target, name, classifier)
                    records.append((*about, *scores, *counts, fitted.note or one_class("test", truth)))
    sides = ("train_rows", "test_rows", "train_groups", "test_groups")
    counted = (*sides, "ambiguous", "incomplete", "fit_seconds", "note")
    return pd.DataFrame(records, columns=[*ABOUT, *Scores._fields, *counted])


def best(results: pd.DataFrame) -> pd.DataFrame:
    """Return the row of `evaluate` with the highest balanced accuracy for each unit, source, target and features.

    The choice is made on the test rows, as in the paper, which flatters it a little; `worst` is added, the lowest
    balanced accuracy that a classifier had. Where none has one, the first classifier's row stands.
    """
    by = ["unit", "source", "target", "features"]
    worst = results.groupby(by, sort=False)["balanced_accuracy"].transform("min")
    found = results.assign(worst=worst, order=results["balanced_accuracy"].fillna(-1))
    top = found.sort_values("order", ascending=False, kind="stable").drop_duplicates(by).sort_index()
    return top.drop(columns="order").reset_index(drop=True)


def prediction_table(
    rows: pd.DataFrame, splits: Iterable[Split], fitting: Fitting, nested: bool = False
) -> pd.DataFrame:
    """Return, for each split and test suite, the best classifier on all metrics, and the same with model metadata.

    Parameters
    ----------
    rows : DataFrame
        From `features.labelled_replies`.
    splits : iterable of Split
        The row numbers that train and that test. A split with the rows of an earlier one has the results of that one.
    fitting : Fitting
        Seed and threads.
    nested : bool
        Whether a classifier is also chosen inside the training rows (`nested.nested_choice`).

    Returns
    -------
    DataFrame
        As `best`, without the seconds, and interval (what low to high is for; "" without one). `worst` is nan beside
        model metadata, where nothing was chosen. With `nested` also, for the metrics: nested_classifier ("" where none
        could be chosen), nested_balanced_accuracy, nested_low, nested_high (its scores on the test rows, fitted to all
        training rows) and optimism (balanced_accuracy less nested_balanced_accuracy, never below 0).
    """
    parts: list[tuple[Split, pd.DataFrame]] = []
    for split in splits:
        same = [found for other, found in parts if same_rows(split, other)]
        parts.append((split, (same or [_of_split(rows, split, fitting, nested)])[0].assign(unit=split.unit)))
    empty = best(evaluate(rows, [], {}, fitting))
    table = pd.concat([found for _, found in parts] or [empty], ignore_index=True)
    interval = table["unit"].map(INTERVALS).where(table["low"].notna(), "")
    table.insert(list(table).index("high") + 1, "interval", interval)
    # Prompts before groups: the paper's split is first.
    by = ["source", "target", "unit", "features"]
    return table.sort_values(by, ascending=[True, True, False, True], ignore_index=True).drop(columns="fit_seconds")


def best_classifiers(table: pd.DataFrame) -> dict[str, str]:
    """Return the classifier of each suite that trains; `table` comes from `prediction_table`.

    The one chosen inside the training rows where there is one, else the best on the test rows; of the split by groups
    where the table has it.
    """
    found = table[table["features"] == METRICS].sort_values("unit", ascending=False, kind="stable")
    chosen = found["classifier"]
    if "nested_classifier" in found:
        chosen = found["nested_classifier"].where(found["nested_classifier"].fillna("").ne(""), chosen)
    return dict(zip(found["source"].astype("str"), chosen.astype("str"), strict=True))


def _of_split(rows: pd.DataFrame, split: Split, fitting: Fitting, nested: bool) -> pd.DataFrame:
    sets = feature_sets(rows)
    every = evaluate(rows, [split], {METRICS: sets[METRICS]}, fitting)
    found = best(every)
    if nested:
        found = _with_nested(found, every, nested_choice(rows, split.train, sets[METRICS], fitting))
    parts = [found]
    for target, classifier in zip(found["target"], found["classifier"], strict=True):
        one = split._replace(tests={target: split.tests[target]})
        parts.append(evaluate(rows, [one], {WITH_MODEL: sets[WITH_MODEL]}, fitting, [classifier]))
    return pd.concat(parts, ignore_index=True)


def _with_nested(found: pd.DataFrame, every: pd.DataFrame, chosen: str) -> pd.DataFrame:
    """The best of a split beside the results of the classifier that was chosen without its test rows."""
    scores = ["balanced_accuracy", "low", "high"]
    own = every[every["classifier"] == chosen].set_index("target")[scores].reindex(found["target"])
    found = found.assign(nested_classifier=chosen)
    for name in scores:
        found[f"nested_{name}"] = own[name].to_numpy()
    return found.assign(optimism=found["balanced_accuracy"] - found["nested_balanced_accuracy"])
