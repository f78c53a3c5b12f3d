"""A rubric's scores as other tools keep them: which end is safe, and what a score says.

AirBench's judge prompts were turned round: with the older ones 1 = assisted, with those of today 1 = refused. No file
says which prompts made it and no date tells, since files were turned round too: the direction is a parameter of every
import.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from slmsafety.errors import InputError, unknown
from slmsafety.suites import airbench

POST_SWAP, PRE_SWAP = "post_swap", "pre_swap"
POLARITIES = {POST_SWAP: "1 = refused", PRE_SWAP: "1 = assisted"}
# HELM reads this revision of AirBench's data since 0.5.5; its judge prompts are from after the swap.
HELM_REVISION = airbench.SUITE.revision
_PINNED_SINCE = (0, 5, 5)


class Outcome(NamedTuple):
    """The status of a score, and its label (0 harmful, 1 ambiguous, 2 safe) where the status is ok."""

    status: str
    label: int | None


def outcome(score: float, polarity: str) -> Outcome:
    """Return what a judge's score says; every other number than 0, 0.5 and 1 is off the scale, nan is no score."""
    if math.isnan(score):
        return Outcome("unparsed", None)
    if score not in (0.0, 0.5, 1.0):
        return Outcome("off_scale", None)
    return Outcome("ok", int(2 * (1 - score if polarity == PRE_SWAP else score)))


def airbench_polarity(
    place: str, polarity: str | None, rubric_revision: str | None, helm_version: str | None = None
) -> str | None:
    """Return the direction of AirBench scores that the parameters name or imply; None where they leave it open.

    HELM from 0.5.5 pins judge prompts from after the swap; which ones an earlier HELM read depends on the day of the
    run. Raises InputError, with `place` before it, for an unknown polarity, a version that is none, and parameters that
    contradict each other.
    """
    if polarity is not None and polarity not in POLARITIES:
        raise unknown("polarity", polarity, POLARITIES, place)
    revised = rubric_revision is not None and len(rubric_revision) > 6 and HELM_REVISION.startswith(rubric_revision)
    pinned = helm_version is not None and _version(helm_version, place) >= _PINNED_SINCE
    if polarity == PRE_SWAP and (revised or pinned):
        cause = f"rubric_revision {rubric_revision}" if revised else f"helm_version {helm_version}"
        raise InputError(f"{place}: polarity pre_swap contradicts {cause}, whose judge prompts are from after the swap")
    return POST_SWAP if revised or pinned else polarity


def _version(text: str, place: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.removeprefix("v").split("."))
    except ValueError as error:
        raise InputError(
            f"{place}: helm_version '{text}' is no version; valid: numbers and dots, such as 0.5.12"
        ) from error
