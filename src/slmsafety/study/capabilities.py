"""What a study can serve: the words that the notebooks' artifacts use for what they need."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from slmsafety.analysis.outcomes import tells_refusals
from slmsafety.params.study import StudyParams
from slmsafety.suites.catalogue import MULTIPLE_CHOICE

PUBLISHED = frozenset({"outcomes", "printed", "predictions", "two_suites", "two_judges", "many_models"})
MANY_MODELS = 10


def capabilities(params: StudyParams, labels: pd.DataFrame, facts: Mapping[str, bool]) -> frozenset[str]:
    """Return what a study with rows of its own can serve; each word is a need of `report/contents.csv`.

    Parameters
    ----------
    params : StudyParams
        The study's parameters.
    labels : DataFrame
        Its labels by the first judge of each suite (`Study.labels`).
    facts : mapping of str to bool
        What else is known of its tables: metrics, two_judges, crossed_rubrics and mappings.
    """
    choices = {suite.name for suite in params.suites} & set(MULTIPLE_CHOICE)
    suites = {*labels["suite"].unique(), *choices}
    conditions = {
        **facts,
        "outcomes": True,
        "labels": True,
        "predictions": facts["metrics"],
        "human_labels": params.human_labels is not None,
        "reference": params.human_labels is not None or facts["two_judges"],
        "controls": tells_refusals(labels),
        "choices": bool(choices),
        "two_suites": len(suites) > 1,
        "many_models": labels["model"].nunique() >= MANY_MODELS,
    }
    return frozenset(need for need, met in conditions.items() if met)
