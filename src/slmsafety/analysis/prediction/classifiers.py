"""The classifiers of Tables 1-3, under one way to fit, to decide and to score.

The paper's tables name four; logistic regression is beside them as the simplest.

Nothing here weighs classes: a classifier gives the probability that a label is ambiguous, and the decision is
"ambiguous" where that is above the share of ambiguous training rows, which is what balanced accuracy asks for (Menon et
al. 2013). So one fit serves balanced accuracy and calibration. The paper does not say how it treats the imbalance, but
it must: its accuracy on SALAD is below the share of decisive labels there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from scipy.stats import t as student
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score, brier_score_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from xgboost import XGBClassifier

from slmsafety.analysis.arrays import Flags, Floats, Rows
from slmsafety.analysis.calibration import expected_calibration_error
from slmsafety.analysis.resampling import FEWEST_CLUSTERS
from slmsafety.errors import unknown

MAJORITY = "none"
"""The classifier without a feature: the training rows' majority, always."""

_TREES, _RATE, _DEPTH, _FOREST_LEAF = 100, 0.1, 4, 20
"""Small trees: larger ones know the few ambiguous rows of a small suite by heart."""
_FOREST_ROWS = 20_000
"""A tree of the forest draws at most so many rows: half a million rows otherwise cost an hour."""


class Fitting(NamedTuple):
    """How classifiers are fitted: `threads` is what one may use; other threads can move the last digits."""

    seed: int
    threads: int = 1


class Fitted(NamedTuple):
    """A fitted classifier: `share` is that of ambiguous training rows, `note` says why there is no model."""

    model: Any
    share: float
    seconds: float
    note: str

    def probability(self, features: Floats) -> Floats:
        """Return each row's probability of an ambiguous label; nan where the training rows allow no model."""
        if self.model is None or not len(features):
            return np.full(len(features), np.nan if self.note else self.share)
        return np.asarray(self.model.predict_proba(features)[:, 1], np.float64)

    def decide(self, probability: Floats) -> Flags:
        """Return whether each row is called ambiguous."""
        return probability > (0.5 if self.model is None else self.share)


class Scores(NamedTuple):
    """How well ambiguity is predicted, each 0..1; nan without rows, the second to fifth also with one class.

    low and high are a 95 % interval of balanced_accuracy for this very classifier and these models over groups of
    prompts drawn anew (Student's t with one less than the groups); nan below `resampling.FEWEST_CLUSTERS` groups, and
    where the standard error is 0 and says nothing. brier and ece (ten bins of equal width) judge the probabilities.
    """

    accuracy: float
    balanced_accuracy: float
    low: float
    high: float
    roc_auc: float
    brier: float
    ece: float


def fit(name: str, features: Floats, ambiguous: Flags, fitting: Fitting) -> Fitted:
    """Return a classifier fitted to metrics and to whether each row's label is ambiguous.

    Trees send a missing value down the branch that fits best; logistic regression takes the training rows' median and
    an indicator of what was missing. The same rows, seed and threads give the same model.

    Parameters
    ----------
    name : str
        A key of CLASSIFIERS, or MAJORITY.
    features : array of float, shape (n, k)
        The metrics; nan where one is missing.
    ambiguous : array of bool, shape (n,)
        Whether the label is ambiguous.
    fitting : Fitting
        Seed and threads.

    Returns
    -------
    Fitted
        Without a model but with a note for rows of one class, and for no row.

    Raises
    ------
    InputError
        For another name.
    """
    if name not in (*CLASSIFIERS, MAJORITY):
        raise unknown("classifier", name, CLASSIFIERS)
    share = float(ambiguous.mean()) if len(ambiguous) else np.nan
    if name == MAJORITY and len(ambiguous):
        return Fitted(None, share, 0.0, "")
    if note := one_class("training", ambiguous):
        return Fitted(None, share, 0.0, note)
    started = time.perf_counter()
    model = CLASSIFIERS[name](fitting, len(ambiguous)).fit(features, ambiguous.astype(int))
    return Fitted(model, share, time.perf_counter() - started, "")


def score(ambiguous: Flags, probability: Floats, decision: Flags, group: Rows) -> Scores:
    """Return the scores of predicted probabilities and decisions; `group` numbers each row's group of prompts."""
    if not len(ambiguous) or np.isnan(probability).any():
        return Scores(*[np.nan] * 7)
    accuracy = float(accuracy_score(ambiguous, decision))
    brier, ece = float(brier_score_loss(ambiguous, probability)), expected_calibration_error(probability, ambiguous)
    if ambiguous.all() or not ambiguous.any():
        return Scores(accuracy, np.nan, np.nan, np.nan, np.nan, brier, ece)
    balanced, margin = float(balanced_accuracy_score(ambiguous, decision)), np.nan
    if (groups := len(np.unique(group))) >= FEWEST_CLUSTERS:
        error = balanced_accuracy_error(ambiguous, decision, group)
        margin = student.ppf(0.975, groups - 1) * (error or np.nan)
    low, high = np.clip([balanced - margin, balanced + margin], 0, 1).tolist()
    return Scores(accuracy, balanced, low, high, float(roc_auc_score(ambiguous, probability)), brier, ece)


def balanced_accuracy_error(ambiguous: Flags, decision: Flags, group: Rows) -> float:
    """Return the standard error of balanced accuracy when groups, with all their rows, are the independent draws.

    Linearised ratio estimator over clusters (Cochran 1977, section 6.3); nan below two groups or with one class.
    """
    _, code = np.unique(group, return_inverse=True)
    n = int(code.max()) + 1
    if n < 2 or ambiguous.all() or not ambiguous.any():
        return float("nan")
    right = ambiguous == decision
    influence = np.zeros(n)
    for part in (ambiguous, ~ambiguous):
        recall = right[part].mean()
        influence += np.bincount(code[part], right[part] - recall, minlength=n) / part.sum() / 2
    return float(np.sqrt(n / (n - 1) * (influence**2).sum()))


def one_class(part: str, ambiguous: Flags) -> str:
    """Return why rows of a single class, or no row, give no score; "" where there are two classes."""
    if not len(ambiguous):
        return f"no {part} row"
    if ambiguous.all() or not ambiguous.any():
        return f"every {part} row is {'ambiguous' if ambiguous.all() else 'decisive'}"
    return ""


def _logistic(fitting: Fitting, rows: int) -> Any:
    # arcsinh is a logarithm for large values and linear for small ones: token counts and perplexities are skewed.
    return make_pipeline(
        FunctionTransformer(np.arcsinh),
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
        LogisticRegression(max_iter=1000),
    )


def _forest(fitting: Fitting, rows: int) -> Any:
    return RandomForestClassifier(
        _TREES,
        min_samples_leaf=_FOREST_LEAF,
        max_samples=min(rows, _FOREST_ROWS),
        random_state=fitting.seed,
        n_jobs=fitting.threads,
    )


def _xgboost(fitting: Fitting, rows: int) -> Any:
    options = {"max_depth": _DEPTH, "n_jobs": fitting.threads}
    return XGBClassifier(n_estimators=_TREES, learning_rate=_RATE, random_state=fitting.seed, **options)


def _catboost(fitting: Fitting, rows: int) -> Any:
    options = {"depth": _DEPTH, "verbose": 0, "allow_writing_files": False, "thread_count": fitting.threads}
    return CatBoostClassifier(iterations=_TREES, learning_rate=_RATE, random_seed=fitting.seed, **options)


def _lightgbm(fitting: Fitting, rows: int) -> Any:
    # Row-wise without a trial run, so that the same rows give the same trees.
    options = {
        "num_leaves": 2**_DEPTH,
        "n_jobs": fitting.threads,
        "deterministic": True,
        "force_row_wise": True,
        "verbose": -1,
    }
    return LGBMClassifier(n_estimators=_TREES, learning_rate=_RATE, random_state=fitting.seed, **options)


CLASSIFIERS: dict[str, Callable[[Fitting, int], Any]] = {
    "Logistic regression": _logistic,
    "Random forest": _forest,
    "XGBoost": _xgboost,
    "CatBoost": _catboost,
    "LightGBM": _lightgbm,
}
"""The four that the paper's tables name and logistic regression; a draw between them goes to the first."""
