"""Sentences about what models are made of and how ambiguous they are: each function takes a frame of the analysis.

A number that is undefined is not told.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.report.text import counted


def strongest_features(found: pd.DataFrame) -> list[str]:
    """Name the four strongest correlations of a model's features with AR.

    Parameters
    ----------
    found : DataFrame
        One row a feature: feature (text) and r_ar (float, -1 to 1).

    Returns
    -------
    list of str
        The sentences.
    """
    order = found["r_ar"].dropna().abs().nlargest(4).index
    if not len(order):
        return []
    strongest = "; ".join(f"{row.feature} {row.r_ar:.2f}" for row in found.loc[order].itertuples())
    return [f"With the true architecture, the strongest correlations with AR: {strongest}."]


def undefined_features(found: pd.DataFrame) -> list[str]:
    """Name the features of models that have no correlation.

    Parameters
    ----------
    found : DataFrame
        One row a feature: feature (text), n (models with the feature and a rate), r_ar and r_score (nan where
        undefined).

    Returns
    -------
    list of str
        The sentence; none where every feature has one.
    """
    lacking = found[found["r_ar"].isna() & found["r_score"].isna()]
    told = ", ".join(f"{feature} (n = {n})" for feature, n in lacking[["feature", "n"]].itertuples(index=False))
    return [f"No correlation, with fewer than three models or one value of either side: {told}."] if told else []


def paper_families(families: int) -> str:
    """Say how the families that are counted here go with those that the paper counts.

    Parameters
    ----------
    families : int
        The families of the paper's models by their cards.

    Returns
    -------
    str
        The sentence.
    """
    return (
        f"The paper counts 14 model families and does not list them; the cards of its models name {families}, with"
        " Gemma 2 and Gemma 3 apart and DeepSeek-R1-Qwen a family of its own."
    )


def table4_gaps(gap: pd.DataFrame) -> list[str]:
    """Say how far the recomputed correlations of Table 4 are from the printed ones.

    Parameters
    ----------
    gap : DataFrame
        r_ar and r_score: recomputed minus printed, a row a feature.

    Returns
    -------
    list of str
        The sentence.
    """
    worst = gap[["r_ar", "r_score"]].abs().max()
    return [
        "Printed correlations come from unrounded rates and cannot be reached exactly: recomputed from the printed"
        f" rates they differ by at most {worst['r_ar']:.3f} (AR) and {worst['r_score']:.3f} (score)."
    ]


def no_range(ranges: pd.DataFrame) -> str:
    """Return why no correlation has a range; "" where one has.

    Parameters
    ----------
    ranges : DataFrame
        low_ar and low_score (nan where undefined), a row a feature.

    Returns
    -------
    str
        The reason.
    """
    known = ranges[["low_ar", "low_score"]].notna().any(axis=None)
    return "" if known else "without one family its models have no correlation left"


def family_ranges(ranges: pd.DataFrame) -> list[str]:
    """Count the correlations that keep their sign whichever model family is left out.

    Parameters
    ----------
    ranges : DataFrame
        One row an encoding and feature: encoding, feature, r_ar, low_ar, high_ar (float, -1 to 1) and without_ar (the
        family whose absence moves it most).

    Returns
    -------
    list of str
        The sentences.
    """
    told = []
    for encoding, group in ranges.dropna(subset=["r_ar", "low_ar"]).groupby("encoding", sort=False):
        firm = (group["low_ar"] > 0) | (group["high_ar"] < 0)
        row = group.iloc[int((group["high_ar"] - group["low_ar"]).to_numpy().argmax())]
        told.append(
            f"Features, {encoding}: {int(firm.sum())} of {len(group)} correlations with AR keep their sign"
            f" whichever family is left out; {row['feature']} moves most ({row['low_ar']:.2f} to {row['high_ar']:.2f}, "
            f"most without {row['without_ar']})."
        )
    return told


def model_groups(value: float, low: float, high: float, families: int, year: pd.Series) -> list[str]:
    """Compare tuned with base models, and give the correlations with the year of release.

    Parameters
    ----------
    value, low, high : float
        The difference of mean AR and its 95 % interval; nan where undefined.
    families : int
        The families of the models.
    year : Series
        n (models), r_ar and r_score (-1 to 1, or nan).

    Returns
    -------
    list of str
        The sentences.
    """
    interval = "no interval" if np.isnan(low) else f"{low:+.2f} to {high:+.2f}, over families"
    tuned = f"Tuned against base: AR {value:+.2f} ({interval}; {counted(families, 'family', 'families')})."
    sides = {"AR": year["r_ar"], "the score": year["r_score"]}
    known = ", ".join(f"r = {r:.2f} with {name}" for name, r in sides.items() if not np.isnan(r))
    years = f"Year of release: {known} ({counted(year['n'], 'model')})."
    needs = "An interval over families needs ten of them, and two on either side."
    told = ((tuned, not np.isnan(value)), (needs, not np.isnan(value) and np.isnan(low)), (years, known))
    return [sentence for sentence, applies in told if applies]
