"""Do design features of models go with ambiguity or with the score? (paper Table 4)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import pearsonr

from slmsafety.analysis.drivers.associations import benjamini_hochberg, is_constant
from slmsafety.analysis.drivers.cluster_errors import difference_interval

NOT_POOLED = "sst"
"""Simple Safety Tests: Table A1, which Table 4 is made of, has no rates of it."""


def pooled(outcomes: pd.DataFrame, weights: dict[str, int]) -> pd.DataFrame:
    """Return ar and mean per model, pooled over the suites in `weights` but `NOT_POOLED` by their prompt counts.

    A model that lacks one of those suites has nan: rates over different suites are not comparable. So has every model
    where no suite is left. Where `outcomes` has a column `card`, the systems of one card are one model, named by the
    card: its rates are the means of theirs, since they share every feature and are no models of their own.
    """
    suites = [suite for suite in weights if suite != NOT_POOLED]
    counts = np.array([weights[suite] for suite in suites], float)
    shares = counts / counts.sum()
    tables = {
        name: outcomes.pivot(index="model", columns="suite", values=name).reindex(columns=suites)
        for name in ("ar", "mean")
    }
    found = pd.DataFrame({name: table.astype(float) @ shares for name, table in tables.items()})
    found = found if suites else found.assign(ar=np.nan, mean=np.nan)
    if "card" not in outcomes:
        return found
    cards = outcomes.drop_duplicates("model").set_index("model")["card"].reindex(found.index)
    return found.groupby(cards.rename("model").to_numpy()).mean().rename_axis("model")


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
    frame["q_ar"], frame["q_score"] = benjamini_hochberg(frame["p_ar"]), benjamini_hochberg(frame["p_score"])
    return frame[["feature", "n", "r_ar", "p_ar", "q_ar", "r_score", "p_score", "q_score"]]


def encoded_ranges(encodings: dict[str, pd.DataFrame], rates: pd.DataFrame, families: pd.Series) -> pd.DataFrame:
    """Return `leave_one_family_out` under each encoding of the features, in a column before; sorted by r with AR."""
    parts = {name: leave_one_family_out(features, rates, families) for name, features in encodings.items()}
    frames = [frame.sort_values(["r_ar", "feature"]).assign(encoding=name) for name, frame in parts.items()]
    frame = pd.concat(frames, ignore_index=True)
    return frame[["encoding", *frame.columns.drop("encoding")]]


def leave_one_family_out(features: pd.DataFrame, rates: pd.DataFrame, families: pd.Series) -> pd.DataFrame:
    """Return the range of every correlation of `metadata_correlations` when the models of one family are left out.

    `families` is indexed by model. Columns: feature, n, families (of those models), r_ar, low_ar, high_ar, without_ar
    (the family whose absence moves r most), and the same for the score; nan (and no family) where r is undefined.
    """
    every = metadata_correlations(features, rates).set_index("feature")
    known = families.reindex(rates.index)
    fewer = {
        str(family): metadata_correlations(features, rates[known != family]).set_index("feature")
        for family in sorted(known.dropna().unique())
    }
    found = every[["n"]].assign(families=_families(features, rates, known))
    for name in ("ar", "score"):
        table = pd.DataFrame({family: one[f"r_{name}"] for family, one in fewer.items()}, index=every.index)
        moves = table.sub(every[f"r_{name}"], axis=0).abs()
        most = moves.fillna(-1).idxmax(axis=1).where(moves.notna().any(axis=1), None) if fewer else None
        found[f"r_{name}"] = every[f"r_{name}"]
        found[f"low_{name}"], found[f"high_{name}"] = table.min(axis=1), table.max(axis=1)
        found[f"without_{name}"] = most
    return found.reset_index()


def _families(features: pd.DataFrame, rates: pd.DataFrame, families: pd.Series) -> pd.Series:
    """Return the number of families among the models with each feature and a rate."""
    rated = rates[["ar", "mean"]].notna().all(axis=1)
    known = features.reindex(rates.index)[rated].notna()
    counts = {feature: families[known.index][known[feature]].nunique() for feature in known}
    return pd.Series(counts, known.columns, dtype="int64")


def group_rates(rates: pd.DataFrame, groups: pd.Series) -> pd.DataFrame:
    """Return group, models, and the mean, lowest and highest AR and the mean score of each group of models.

    `rates` has ar and mean by model; `groups` names each model's group. Models without a rate or a group are left out.
    """
    known = rates.dropna(subset=["ar", "mean"]).assign(group=groups).dropna(subset=["group"])
    grouped = known.groupby("group", sort=True)
    named = {"ar": ("ar", "mean"), "lowest": ("ar", "min"), "highest": ("ar", "max"), "score": ("mean", "mean")}
    return grouped.agg(models=("ar", "size"), **named).reset_index()


def model_groups(rates: pd.DataFrame, features: pd.DataFrame) -> pd.DataFrame:
    """Return `group_rates` of base and tuned models (by "training") and of each year of release (by "year").

    `features` is indexed by model and holds Tuned (1 or 0) and Year.
    """
    own = features.reindex(rates.index)
    years = own["Year"].astype("Int64").astype("str").where(own["Year"].notna())
    kinds = {"training": own["Tuned"].map({0.0: "base", 1.0: "tuned"}), "year": years}
    parts = [group_rates(rates, names).assign(by=kind) for kind, names in kinds.items()]
    frame = pd.concat(parts, ignore_index=True)
    return frame[["by", *frame.columns.drop("by")]]


class Difference(NamedTuple):
    """How much higher a mean is in one group of models than in the other; the interval is over families."""

    value: float
    low: float
    high: float
    families: int


def family_difference(values: pd.Series, flag: pd.Series, families: pd.Series) -> Difference:
    """Return the mean of `values` over models with the flag minus the mean over those without.

    All three are indexed by model, the flag is 1 or 0; models without a value, flag (nan) or family are left out. The
    95 % interval is over families (`cluster_errors.difference_interval`): nan below ten, and where the models of a side
    are all of one family. The value is nan when a side has no model.
    """
    frame = pd.DataFrame({"value": values, "flag": flag, "family": families}).dropna()
    value, on = frame["value"].to_numpy(float), frame["flag"].to_numpy(bool)
    family, names = pd.factorize(frame["family"])
    if on.all() or not on.any():
        return Difference(np.nan, np.nan, np.nan, len(names))
    low, high = difference_interval(value, on, family)
    return Difference(float(value[on].mean() - value[~on].mean()), low, high, len(names))


def _pearson(a: pd.Series, b: pd.Series) -> tuple[float, float]:
    """Return r and its p value."""
    if len(a) < 3 or is_constant(a) or is_constant(b):
        return np.nan, np.nan
    result = pearsonr(a, b)
    return float(result.statistic), float(result.pvalue)
