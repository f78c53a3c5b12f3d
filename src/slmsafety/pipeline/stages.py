"""The stages of each kind of study."""

from __future__ import annotations

from slmsafety.params.study import StudyParams

STAGES: dict[str, tuple[str, ...]] = {
    "run": ("prompts", "generate", "judge", "metrics"),
    "imported": ("import", "judge", "metrics"),
}
"""The stages by kind of study, in their order."""


def asked_stages(params: StudyParams) -> tuple[str, ...]:
    """Return the stages that a study asks for: of an imported one the metrics where it has that key."""
    without = () if params.kind == "run" or "metrics" in params.model_fields_set else ("metrics",)
    return tuple(stage for stage in STAGES[params.kind] if stage not in without)
