"""What a study can serve: the words that the notebooks' artifacts use for what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slmsafety.analysis.outcomes import tells_refusals
from slmsafety.suites.catalogue import MULTIPLE_CHOICE

if TYPE_CHECKING:
    from slmsafety.study.study import Study

PUBLISHED = frozenset({"outcomes", "printed", "predictions", "two_suites", "two_judges", "many_models"})
MANY_MODELS = 10


def capabilities(study: Study) -> frozenset[str]:
    """Return what a study can serve.

    Each word is a need of `report/contents.csv`. Raises InputError for a study without any judgment yet.
    """
    if study.printed_only:
        return PUBLISHED
    labels = study.labels()
    suites, models, pair = set(labels["suite"].unique()), labels["model"].unique(), study.compared.first_pair()
    choices = any(suite.name in MULTIPLE_CHOICE for suite in study.params.suites)
    suites |= {suite.name for suite in study.params.suites if suite.name in MULTIPLE_CHOICE}
    measured = study.is_measured()
    conditions = {
        "outcomes": True,
        "labels": True,
        "metrics": measured,
        "predictions": measured,
        "human_labels": study.params.human_labels is not None,
        "controls": tells_refusals(labels),
        "mappings": any(judge in study.mappings.judges for judge in study.judges()),
        "choices": choices,
        "two_suites": len(suites) > 1,
        "many_models": len(models) >= MANY_MODELS,
        "two_judges": bool(pair),
        "reference": study.params.human_labels is not None or bool(pair),
        "crossed_rubrics": bool(study.compared.crossings()),
    }
    return frozenset(need for need, met in conditions.items() if met)
