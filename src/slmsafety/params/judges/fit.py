"""Whether a study's judges fit what they are to read: its suites, its models, and what their mappings need."""

from __future__ import annotations

from collections.abc import Sequence

from slmsafety.errors import InputError, unknown
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.base import REFUSALS, JudgeEntry


def check_judges(
    judges: Sequence[JudgeEntry], suites: Sequence[SuiteParams], models: Sequence[str], has_human_labels: bool
) -> None:
    """Raise InputError for a judge that nobody knows, and one that is to read what the study does not have."""
    for judge in judges:
        for name in judge.suites:
            entry = next((entry for entry in suites if entry.name == name), None)
            if entry is None:
                raise unknown("suite", name, [entry.name for entry in suites], f"judge '{judge.name}'")
            if not judge.reads(entry):
                raise InputError(f"judge '{judge.name}' cannot read suite '{name}'")
        read = [suite for suite in suites if judge.reads(suite)]
        judge.check_suites(read)
        for model in judge.models:
            if model not in models:
                raise unknown("model", model, models, f"judge '{judge.name}'")
        if judge.label_mapping in ("platt", "isotonic") and not has_human_labels:
            raise InputError(f"mapping {judge.label_mapping} of judge '{judge.name}' needs the key 'human_labels'")
        if judge.label_mapping == "semantic":
            rules = [other for other in judges if other.name == REFUSALS]
            for suite in read:
                known = {model for other in rules if other.reads(suite) for model in other.models or models}
                if not known.issuperset(judge.models or models):
                    raise InputError(
                        f"mapping semantic of judge '{judge.name}' needs {REFUSALS} on {suite.name} too, and its models"
                    )
