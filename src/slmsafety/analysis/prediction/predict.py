"""Can ambiguity be predicted from metrics of prompts and replies? (paper section 4.2, Tables 1-3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from slmsafety.analysis.prediction.classifiers import CLASSIFIERS, MAJORITY, Scores, fit, score
from slmsafety.analysis.prediction.splits import Split
from slmsafety.errors import InputError

METRICS, WITH_MODEL = "metrics", "metrics and model"
ABOUT = ("source", "target", "features", "classifier")
"""What tells one result from another: trained on, tested on, with which metrics, by which classifier."""


def labelled_replies(rows: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """Return the labelled replies of `associations.reply_rows`, sorted by key, with metadata of their models.

    Columns: suite, instance_id, model, prompt (its number), ambiguous (True for label 1, False for a decisive one) and
    the features: "prompt ...", "reply ..." and "model ..." (the columns of `models`, indexed by model; nan where it
    lacks one). Raises InputError for an infinite metric.
    """
    keys = ["suite", "instance_id", "model"]
    kept = rows[rows["ambiguous"].notna()].sort_values(keys, ignore_index=True)
    metadata = models.add_prefix("model ").reindex(kept["model"].astype("str")).reset_index(drop=True)
    found = kept[[*keys, "prompt", "ambiguous", *feature_names(kept)]].astype({"ambiguous": bool})
    found = pd.concat([found, metadata.astype("float64")], axis=1)
    features = feature_names(found)
    endless = np.isinf(found[features].to_numpy())
    if endless.any():
        row, column = np.argwhere(endless)[0]
        where = ", ".join(str(found.at[row, key]) for key in keys)
        raise InputError(f"metric '{features[column]}' of {where} is infinite; valid: a number or nothing")
    return found


def feature_names(rows: pd.DataFrame, *kinds: str) -> list[str]:
    """Return the columns that describe the prompt, the reply or the model (all three kinds by default)."""
    wanted = tuple(f"{kind} " for kind in kinds or ("prompt", "reply", "model"))
    return [column for column in map(str, rows) if column.startswith(wanted)]


def feature_sets(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Return the metrics that each row of a table predicts from: all, with the model's metadata, some, none."""
    return {
        METRICS: feature_names(rows, "prompt", "reply"),
        WITH_MODEL: feature_names(rows),
        "prompt only": feature_names(rows, "prompt"),
        "length only": [name for name in ("prompt tokens", "reply tokens") if name in rows],
        "majority": [],
    }


def predict(
    rows: pd.DataFrame,
    splits: Iterable[Split],
    features: Mapping[str, list[str]],
    classifiers: Iterable[str] = tuple(CLASSIFIERS),
    *,
    seed: int,
    threads: int = 1,
) -> pd.DataFrame:
    """Return the scores of every split, test suite, set of features and classifier, one row each.

    Columns: source, target, features, classifier ("none" without features), those of `classifiers.Scores`, train_rows,
    test_rows, ambiguous (share of the test rows), incomplete (test rows that lack a metric in use), fit_seconds, note
    (why scores are nan, else "").
    """
    ambiguous, prompt = rows["ambiguous"].to_numpy(bool), rows["prompt"].to_numpy(np.intp)
    classifiers, records = tuple(classifiers), []
    for split in splits:
        for name, columns in features.items():
            values = rows[columns].to_numpy(float)
            for classifier in classifiers if columns else (MAJORITY,):
                fitted = fit(classifier, values[split.train], ambiguous[split.train], seed, threads)
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
    """Return the row of `predict` with the highest balanced accuracy for each source, target and set of features.

    The choice is made on the test rows, as in the paper, which flatters it a little; `worst` is added, the lowest
    balanced accuracy that a classifier had. Where none has one, the first classifier's row stands.
    """
    by = ["source", "target", "features"]
    worst = results.groupby(by, sort=False)["balanced_accuracy"].transform("min")
    found = results.assign(worst=worst, order=results["balanced_accuracy"].fillna(-1))
    top = found.sort_values("order", ascending=False, kind="stable").drop_duplicates(by).sort_index()
    return top.drop(columns="order").reset_index(drop=True)


def prediction_table(rows: pd.DataFrame, splits: Iterable[Split], *, seed: int, threads: int = 1) -> pd.DataFrame:
    """Return, for each split and test suite, the best classifier on all metrics, and the same with model metadata.

    Columns as in `best`, without the seconds; `worst` is nan beside model metadata, where nothing was chosen.
    """
    sets, parts = feature_sets(rows), []
    for split in splits:
        found = best(predict(rows, [split], {METRICS: sets[METRICS]}, seed=seed, threads=threads))
        parts.append(found)
        for target, classifier in zip(found["target"], found["classifier"], strict=True):
            one = Split(split.source, split.train, {target: split.tests[target]})
            parts.append(predict(rows, [one], {WITH_MODEL: sets[WITH_MODEL]}, [classifier], seed=seed, threads=threads))
    table = pd.concat(parts or [best(predict(rows, [], {}, seed=seed))], ignore_index=True)
    return table.sort_values(["source", "target", "features"], ignore_index=True).drop(columns="fit_seconds")


def chosen(table: pd.DataFrame) -> dict[str, str]:
    """Return the best classifier on the metrics of each suite that trains; `table` comes from `prediction_table`."""
    found = table.loc[table["features"] == METRICS, ["source", "classifier"]]
    return dict(zip(found["source"].astype("str"), found["classifier"].astype("str"), strict=True))


def one_class(part: str, ambiguous: NDArray[np.bool_]) -> str:
    """Return what rows of a single class are called, "" where there are two."""
    if not len(ambiguous):
        return f"no {part} row"
    if ambiguous.all() or not ambiguous.any():
        return f"every {part} row is {'ambiguous' if ambiguous.all() else 'decisive'}"
    return ""
