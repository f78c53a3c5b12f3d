"""The choice of a classifier inside the training rows, beside the paper's choice on the test rows.

The best of several classifiers on the test rows has a score that is too high, since the test rows took part in the
choice. Here the training rows are cut into folds, each group of prompts in one fold; every classifier predicts each
fold from the others; the one with the highest balanced accuracy over these predictions is chosen. No test row is read.

References
----------
Stone, M. (1974). Cross-validatory choice and assessment of statistical predictions. JRSS B 36, 111-147.
Varma, S. and Simon, R. (2006). Bias in error estimation when using cross-validation for model selection. BMC
Bioinformatics 7, 91.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GroupKFold

from slmsafety.analysis.arrays import Flags, Floats, Rows
from slmsafety.analysis.prediction.classifiers import CLASSIFIERS, Fitting, fit, one_class
from slmsafety.analysis.prediction.splits import sampled_groups

FOLDS = 5
"""The inner folds, fewer where there are fewer groups."""


def nested_choice(
    rows: pd.DataFrame,
    train: Rows,
    columns: list[str],
    fitting: Fitting,
    classifiers: Iterable[str] = tuple(CLASSIFIERS),
) -> str:
    """Return the classifier with the highest `inner_accuracy`, the first of equals; "" where none has one.

    Parameters
    ----------
    rows : DataFrame
        From `features.labelled_replies`. Only the training rows are read.
    train : array of int
        The row numbers that train; of more than `splits.TRAIN_ROWS`, whole groups drawn with the seed.
    columns : list of str
        The features.
    fitting : Fitting
        Seed and threads.
    classifiers : iterable of str
        Keys of `classifiers.CLASSIFIERS`.

    Returns
    -------
    str
        The classifier's name; "" below two groups, and where each fold leaves labels of one class only.
    """
    group = rows["group"].to_numpy()
    kept = sampled_groups(train, group, fitting.seed)
    values, ambiguous = rows[columns].iloc[kept].to_numpy(float), rows["ambiguous"].iloc[kept].to_numpy(bool)
    found = {name: inner_accuracy(name, values, ambiguous, group[kept], fitting) for name in classifiers}
    known = {name: value for name, value in found.items() if not np.isnan(value)}
    return max(known, key=known.__getitem__) if known else ""


def inner_accuracy(name: str, values: Floats, ambiguous: Flags, group: Rows, fitting: Fitting) -> float:
    """Return a classifier's balanced accuracy (0..1) on rows that are predicted fold by fold, from the other folds.

    All rows of a group are in one fold. A fold is left out where the others hold one class; nan where none is left, and
    where the predicted rows hold one class.
    """
    folds = min(FOLDS, len(np.unique(group)))
    if folds < 2 or one_class("training", ambiguous):
        return float("nan")
    decided, known = np.zeros(len(ambiguous), bool), np.zeros(len(ambiguous), bool)
    for rest, fold in GroupKFold(folds).split(values, groups=group):
        fitted = fit(name, values[rest], ambiguous[rest], fitting)
        if not fitted.note:
            decided[fold], known[fold] = fitted.decide(fitted.probability(values[fold])), True
    truth = ambiguous[known]
    return float("nan") if one_class("inner", truth) else float(balanced_accuracy_score(truth, decided[known]))
