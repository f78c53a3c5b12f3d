"""Do design features of models go with ambiguity or with the score? (paper Table 4)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import pearsonr

from slmsafety.analysis.associations import adjusted_p, constant


def pooled(outcomes: pd.DataFrame, weights: dict[str, int]) -> pd.DataFrame:
    """Return ar and mean per model, pooled over the suites in `weights` by their prompt counts.

    A model that lacks one of those suites has nan: rates over different suites are not comparable.
    """
    suites = list(weights)
    shares = np.array([weights[suite] for suite in suites]) / sum(weights.values())
    tables = {
        name: outcomes.pivot(index="model", columns="suite", values=name).reindex(columns=suites)
        for name in ("ar", "mean")
    }
    return pd.DataFrame({name: table.astype(float) @ shares for name, table in tables.items()})


def metadata_correlations(features: pd.DataFrame, rates: pd.DataFrame) -> pd.DataFrame:
    """Return Pearson's r of every feature with ar and with the mean score over models.

    `features` and `rates` are indexed by model. Columns: feature, n (models with the feature and a rate), r_ar, p_ar,
    q_ar, r_score, p_score, q_score; q is Benjamini-Hochberg over the features; nan where n < 3 or one is constant.
    """
    rows = []
    for feature in features.columns:
        both = pd.concat([features[feature].astype(float), rates[["ar", "mean"]]], axis=1).dropna()
        rows.append((feature, len(both), *_pearson(both[feature], both["ar"]), *_pearson(both[feature], both["mean"])))
    frame = pd.DataFrame(rows, columns=["feature", "n", "r_ar", "p_ar", "r_score", "p_score"])
    frame["q_ar"], frame["q_score"] = adjusted_p(frame["p_ar"]), adjusted_p(frame["p_score"])
    return frame[["feature", "n", "r_ar", "p_ar", "q_ar", "r_score", "p_score", "q_score"]]


def _pearson(a: pd.Series, b: pd.Series) -> tuple[float, float]:
    """Return r and its p value."""
    if len(a) < 3 or constant(a) or constant(b):
        return np.nan, np.nan
    result = pearsonr(a, b)
    return float(result.statistic), float(result.pvalue)
