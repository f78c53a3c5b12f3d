"""Prediction for models that the classifier has not seen: each family is left out in turn (beside the paper's Table 3).

An interval over prompts says how sure the score of these very models is. How well ambiguity can be predicted for
another model is a claim about models, and models of one family depend on each other: here each model has one value, and
families are the independent draws. All values rest on the same prompts, and training rows are shared, so that
dependence through these is not in the interval.

References
----------
Cochran, W. G. (1977). Sampling Techniques, section 9A (clusters that count the same).
Bengio, Y. and Grandvalet, Y. (2004). No unbiased estimator of the variance of K-fold cross-validation. JMLR 5,
1089-1105.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import t as student

from slmsafety.analysis.prediction.classifiers import Fitting
from slmsafety.analysis.prediction.evaluation import evaluate
from slmsafety.analysis.prediction.features import METRICS, feature_sets
from slmsafety.analysis.prediction.splits import Split
from slmsafety.analysis.resampling import FEWEST_CLUSTERS


class OverFamilies(NamedTuple):
    """A score of models, summed up over their families; every one but the counts is 0..1.

    mean is over families, each counting the same; low and high are its 95 % interval over families drawn anew; new_low
    and new_high are to hold the value of one further model of a new family in 95 of 100 cases. Limits are nan below
    `resampling.FEWEST_CLUSTERS` families and where all families have one mean; without a value all but the counts are.
    """

    families: int
    models: int
    mean: float
    low: float
    high: float
    new_low: float
    new_high: float


def family_values(
    rows: pd.DataFrame, splits: Iterable[Split], classifiers: Mapping[str, str], fitting: Fitting
) -> pd.DataFrame:
    """Return how well ambiguity is predicted for each model when its family is left out of the training rows.

    Parameters
    ----------
    rows : DataFrame
        From `features.labelled_replies`, with card and family (text; systems of one card are one model), and model_name
        where there are names.
    splits : iterable of Split
        From `splits.unseen_families`.
    classifiers : mapping of str to str
        The classifier of each suite (`evaluation.best_classifiers`).
    fitting : Fitting
        Seed and threads.

    Returns
    -------
    DataFrame
        suite, family (left out), card (of it), model_name, systems (int), classifier, balanced_accuracy, low, high (for
        this model; over groups of prompts), roc_auc, train_rows (of other families; at most `splits.TRAIN_ROWS`),
        test_rows, test_groups, ambiguous (share of the test rows), note (why there is no score, else "").
    """
    metrics, parts = {METRICS: feature_sets(rows)[METRICS]}, [evaluate(rows, [], {}, fitting)]
    for split in splits:
        parts.append(evaluate(rows, [split], metrics, fitting, [classifiers[split.source]]))
    found = pd.concat(parts[1:] or parts, ignore_index=True).rename(columns={"source": "suite", "target": "card"})
    names = _cards(rows)
    for name in ("family", "model_name", "systems"):
        found[name] = found["card"].map(names[name])
    scores = ["classifier", "balanced_accuracy", "low", "high", "roc_auc"]
    counts = ["train_rows", "test_rows", "test_groups", "ambiguous", "note"]
    return found[["suite", "family", "card", "model_name", "systems", *scores, *counts]]


def summary(values: pd.DataFrame) -> pd.DataFrame:
    """Return `over_families` of each suite's balanced accuracies.

    Parameters
    ----------
    values : DataFrame
        From `family_values`.

    Returns
    -------
    DataFrame
        A row a suite: suite, classifier, families, models (with a value), undefined (int: models without), train_rows
        (the most for a family), balanced_accuracy (the mean over families), low, high, new_low, new_high, lowest,
        highest (of a model).
    """
    records = []
    for suite, part in values.groupby("suite", sort=False):
        known = part["balanced_accuracy"]
        found = over_families(known, part["family"])
        undefined, most = int(known.isna().sum()), part["train_rows"].max()
        about = (suite, part["classifier"].iloc[0], found.families, found.models, undefined, most)
        records.append((*about, *found[2:], known.min(), known.max()))
    limits = ["balanced_accuracy", "low", "high", "new_low", "new_high", "lowest", "highest"]
    names = ["suite", "classifier", "families", "models", "undefined", "train_rows", *limits]
    return pd.DataFrame(records, columns=names)


def over_families(values: ArrayLike, families: ArrayLike) -> OverFamilies:
    """Return the mean of models' scores over families, its interval, and one for a model of a new family.

    The mean of F families' means has the standard error s / sqrt(F), s their standard deviation, and Student's t with
    F - 1. A further model differs from the mean by its family and by itself: the variance of that is the mean over
    families of their models' squared distance from the mean, times F / (F - 1), which is a little too large where
    families have several models; the error of the mean is added.

    Parameters
    ----------
    values : array of float, shape (models,)
        A score a model, 0..1; nan where it has none.
    families : array, shape (models,)
        Names each model's family.

    Returns
    -------
    OverFamilies
        Models without a score do not count. Limits end at 0 and 1.
    """
    known = ~np.isnan(scores := np.asarray(values, float))
    scores, code = scores[known], pd.factorize(np.asarray(families)[known])[0]
    sizes = np.bincount(code)
    means = np.bincount(code, scores) / sizes
    n, mean = len(means), float(means.mean()) if len(means) else np.nan
    limits = np.full(4, np.nan)
    if n >= FEWEST_CLUSTERS and (error := means.var(ddof=1) / n) > 0:
        own = float((np.bincount(code, (scores - mean) ** 2) / sizes).sum()) / (n - 1)
        margin, wide = student.ppf(0.975, n - 1) * np.sqrt([error, error + own])
        limits = np.clip([mean - margin, mean + margin, mean - wide, mean + wide], 0, 1)
    return OverFamilies(n, len(scores), mean, *limits.tolist())


def _cards(rows: pd.DataFrame) -> pd.DataFrame:
    """The family, name and systems (number) of each card; the name is that of the card's own id, else of its first."""
    systems = rows.drop_duplicates("model").astype({"model": "str"})
    systems["model_name"] = systems["model_name"] if "model_name" in systems else systems["model"]
    systems["other"] = systems["model"] != systems["card"]
    named = systems.sort_values(["other", "model"]).drop_duplicates("card").set_index("card")
    named["family"] = rows.groupby("card")["family"].first()
    return named[["family", "model_name"]].assign(systems=systems.groupby("card").size())
