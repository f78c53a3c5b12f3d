"""Can ambiguity be predicted from metrics of prompts and replies? (paper section 4.2, Tables 1-3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from slmsafety.analysis.prediction.classifiers import CLASSIFIERS, MAJORITY, Fitting, Scores, fit, one_class, score
from slmsafety.analysis.prediction.features import METRICS, WITH_MODEL, feature_sets
from slmsafety.analysis.prediction.splits import Split

ABOUT = ("source", "target", "features", "classifier")
"""What tells one result from another: trained on, tested on, with which metrics, by which classifier."""


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
        source, target, features, classifier ("none" without features), those of `classifiers.Scores`, train_rows,
        test_rows, ambiguous (share of the test rows, 0..1), incomplete (test rows that lack a metric in use),
        fit_seconds, note (why scores are nan, else "").
    """
    ambiguous, prompt = rows["ambiguous"].to_numpy(bool), rows["prompt"].to_numpy(np.intp)
    classifiers, records = tuple(classifiers), []
    for split in splits:
        for name, columns in features.items():
            values = rows[columns].to_numpy(float)
            for classifier in classifiers if columns else (MAJORITY,):
                fitted = fit(classifier, values[split.train], ambiguous[split.train], fitting)
                for target, test in split.tests.items():
                    truth, chance = ambiguous[test], fitted.probability(values[test])
                    scores = score(truth, chance, fitted.decide(chance), prompt[test])
                    incomplete = int(np.isnan(values[test]).any(axis=1).sum())
                    share = float(truth.mean()) if len(test) else np.nan
                    counts = (len(split.train), len(test), share, incomplete, fitted.seconds)
                    note = fitted.note or one_class("test", truth)
                    records.append((split.source, target, name, classifier, *scores, *counts, note))
    counted = ("train_rows", "test_rows", "ambiguous", "incomplete", "fit_seconds", "note")
    return pd.DataFrame(records, columns=[*ABOUT, *Scores._fields, *counted])


def best(results: pd.DataFrame) -> pd.DataFrame:
    """Return the row of `evaluate` with the highest balanced accuracy for each source, target and set of features.

    The choice is made on the test rows, as in the paper, which flatters it a little; `worst` is added, the lowest
    balanced accuracy that a classifier had. Where none has one, the first classifier's row stands.
    """
    by = ["source", "target", "features"]
    worst = results.groupby(by, sort=False)["balanced_accuracy"].transform("min")
    found = results.assign(worst=worst, order=results["balanced_accuracy"].fillna(-1))
    top = found.sort_values("order", ascending=False, kind="stable").drop_duplicates(by).sort_index()
    return top.drop(columns="order").reset_index(drop=True)


def prediction_table(rows: pd.DataFrame, splits: Iterable[Split], fitting: Fitting) -> pd.DataFrame:
    """Return, for each split and test suite, the best classifier on all metrics, and the same with model metadata.

    Columns as in `best`, without the seconds; `worst` is nan beside model metadata, where nothing was chosen.
    """
    sets, parts = feature_sets(rows), []
    for split in splits:
        found = best(evaluate(rows, [split], {METRICS: sets[METRICS]}, fitting))
        parts.append(found)
        for target, classifier in zip(found["target"], found["classifier"], strict=True):
            one = Split(split.source, split.train, {target: split.tests[target]})
            parts.append(evaluate(rows, [one], {WITH_MODEL: sets[WITH_MODEL]}, fitting, [classifier]))
    table = pd.concat(parts or [best(evaluate(rows, [], {}, fitting))], ignore_index=True)
    return table.sort_values(["source", "target", "features"], ignore_index=True).drop(columns="fit_seconds")


def best_classifiers(table: pd.DataFrame) -> dict[str, str]:
    """Return the best classifier on the metrics of each suite that trains; `table` comes from `prediction_table`."""
    found = table.loc[table["features"] == METRICS, ["source", "classifier"]]
    return dict(zip(found["source"].astype("str"), found["classifier"].astype("str"), strict=True))
