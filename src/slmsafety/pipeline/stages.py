"""The stages of each kind of study, and what a user may ask of them."""

from __future__ import annotations

from collections.abc import Collection

from slmsafety.errors import InputError, unknown
from slmsafety.params.study import StudyParams
from slmsafety.records.schema import STATUSES

STAGES = ("prompts", "generate", "judge", "metrics")
_OF_KIND = {"published": (), "run": STAGES, "imported": ("import", "judge", "metrics")}


def stages_of(params: StudyParams) -> tuple[str, ...]:
    """Return the stages of a study in their order; none where its numbers are printed ones."""
    return _OF_KIND[params.kind]


def asked_stages(params: StudyParams) -> tuple[str, ...]:
    """Return the stages that a study asks for: all, but the metrics of an imported one only where it has that key."""
    left_out = {"metrics"} if params.kind == "imported" and "metrics" not in params.model_fields_set else set()
    return tuple(stage for stage in stages_of(params) if stage not in left_out)


def chosen_stages(
    params: StudyParams, stages: Collection[str] | None = None, retry: Collection[str] = ()
) -> tuple[str, ...]:
    """Return which stages of a study are to run, in their order: those named, or those it asks for.

    Raises InputError for a stage that the study does not have, for a status to retry that is none or needs none, and
    where no stage that runs could retry anything.
    """
    valid, place = stages_of(params), f"a study of kind '{params.kind}'"
    for stage in stages or ():
        if not valid:
            raise InputError(f"study {params.name} is of kind '{params.kind}': it has no stages, and no '{stage}'")
        if stage not in valid:
            raise unknown("stage", stage, valid, "" if params.kind == "run" else place)
    chosen = tuple(stage for stage in valid if stage in (asked_stages(params) if stages is None else stages))
    for status in retry:
        if status not in STATUSES[1:]:
            raise unknown("status to retry", status, STATUSES[1:])
        if "judge" not in chosen:
            without = f"{place} has no stage 'judge'" if "judge" not in valid else "the stage 'judge' is not asked for"
            raise InputError(f"status '{status}' is to be retried, which means judging again; {without}")
    return chosen
