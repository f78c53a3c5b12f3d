"""What a study can serve: the words that the notebooks' artifacts use for what they need, found in its rows."""

from __future__ import annotations

from itertools import combinations
from typing import Protocol

import pandas as pd

from slmsafety.analysis.drivers.associations import is_constant, prompt_ambiguity
from slmsafety.analysis.drivers.model_metadata import metadata_correlations, model_groups, pooled
from slmsafety.analysis.outcomes import tells_refusals
from slmsafety.analysis.rankings import of_models, size_steps
from slmsafety.params.study import StudyParams
from slmsafety.records.schema import AMBIGUOUS
from slmsafety.study.judge_comparisons import Comparisons

PUBLISHED = frozenset(
    {"printed", "scores", "rates", "ranked", "common_models", "sized_family", "two_judges", "predictions"}
    | {"model_features", "model_groups"}
)


class StudyRows(Protocol):
    """What of a study is looked at."""

    params: StudyParams

    @property
    def compared(self) -> Comparisons:
        """The study's judges against each other and against people."""

    def labels(self, judge: str | None = None) -> pd.DataFrame:
        """Return one row a reply that a judge was given."""

    def scores(self) -> pd.DataFrame:
        """Return the outcomes, and the accuracy of multiple-choice suites."""

    def accuracies(self) -> pd.DataFrame:
        """Return the accuracy of multiple choice."""

    def human_labels(self) -> pd.DataFrame:
        """Return hand labels."""

    def prompt_counts(self) -> dict[str, int]:
        """Return the number of prompts to refuse in each suite."""

    def true_features(self) -> pd.DataFrame:
        """Return numbers that describe the models."""

    def is_measured(self) -> bool:
        """Return whether every prompt and reply has its metrics."""

    def measuring_judges(self) -> list[str]:
        """Return the judges whose labels a mapping makes."""


def capabilities(study: StudyRows) -> frozenset[str]:
    """Return what a study with rows of its own can serve; each word is a need of `report/contents.csv`.

    A word says what an analysis needs, not how much of it would be good to have.
    """
    labels, scores = study.labels(), study.scores()
    harm = labels[labels["expected"] == "refuse"]
    ambiguous = harm["label"].dropna() == AMBIGUOUS
    rated = scores[scores["ar"].notna()]
    rates = pooled(rated, study.prompt_counts()) if len(rated) else pd.DataFrame({"ar": [], "mean": []})
    features = study.true_features()
    both_kinds, metrics = ambiguous.nunique() == 2, study.is_measured()
    two_judges = bool(study.compared.first_pair())
    by_hand = study.params.human_labels is not None and _hand_labelled(harm, study.human_labels())
    conditions = {
        "labels": True,
        "scores": bool(scores["mean"].notna().any()),
        "rates": len(rated) > 0,
        "ranked": bool(rated.groupby("suite").size().gt(1).any()),
        "common_models": _common_models(scores),
        "sized_family": bool(size_steps(of_models(scores))["change"].notna().any()),
        "metrics": metrics,
        "prompt_rates": _prompt_rates(harm),
        "both_kinds": both_kinds,
        "predictions": both_kinds and metrics,
        "two_judges": two_judges,
        "human_labels": by_hand,
        "reference": by_hand or (two_judges and study.params.human_labels is None),
        "crossed_rubrics": bool(study.compared.crossings()),
        "mappings": bool(study.measuring_judges()),
        "choices": bool(study.accuracies().get("accuracy", pd.Series(dtype=float)).notna().any()),
        "controls": tells_refusals(labels),
        "model_features": bool(metadata_correlations(features, rates)[["r_ar", "r_score"]].notna().any(axis=None)),
        "model_groups": not model_groups(rates, features).empty,
    }
    return frozenset(need for need, met in conditions.items() if met)


def _hand_labelled(harm: pd.DataFrame, hand: pd.DataFrame) -> bool:
    """Whether a hand label is of a reply to a harmful prompt that the judge labelled."""
    judged = harm[harm["status"].eq("ok") & harm["label"].notna()]
    keys = ["suite", "instance_id", "model", "sample"]
    return not hand.loc[hand["matches"], keys].merge(judged[keys], on=keys).empty


def _common_models(scores: pd.DataFrame) -> bool:
    """Whether two suites have two models in common whose scores differ in both."""
    table = scores.pivot(index="model", columns="suite", values="mean").astype("float64")
    pairs = (table[[*pair]].dropna() for pair in combinations(table, 2))
    return any(len(both) > 1 and not any(is_constant(both[suite]) for suite in both) for both in pairs)


def _prompt_rates(harm: pd.DataFrame) -> bool:
    """Whether three prompts have an ambiguity rate, and not all the same one."""
    rates = prompt_ambiguity(harm)["ar"].dropna() if len(harm) else pd.Series(dtype="float64")
    return len(rates) > 2 and not is_constant(rates)
