"""The entries of a study's parameters that name other tools' judged runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Polarity = Literal["post_swap", "pre_swap"]


def _as_text(value: Any) -> Any:
    """Return a mapping with its keys as text, as YAML has them: 0, 0.5, true."""
    return {str(key): meaning for key, meaning in value.items()} if isinstance(value, dict) else value


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str


class ScoresParams(BaseModel):
    """How the scores of `judged_csv` are read.

    Attributes
    ----------
    higher : {"safe", "harmful"}
        Which end of 0, 0.5, 1 is safe.
    map : dict
        What each value of the file means (harmful, ambiguous, safe, missing), whatever it is: words, 0/1/2, true.
    checked : bool
        Accept labels that call most replies harmful that open with a refusal.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    higher: Literal["safe", "harmful"] = "safe"
    map: Annotated[dict[str, Literal["harmful", "ambiguous", "safe", "missing"]], BeforeValidator(_as_text)] = Field(
        default={}
    )
    checked: bool = False


class HelmRunEntry(_Entry):
    """A HELM run folder, the name that its model gets, and what decides the direction of AirBench scores."""

    model: str | None = Field(default=None, min_length=1)
    polarity: Polarity | None = None
    rubric_revision: str | None = None
    helm_version: str | None = None


class AirbenchScoredEntry(_Entry):
    """A scored file of AirBench's pipeline: who judged whose replies, and which end of the score is safe."""

    judge: str = Field(min_length=1)
    model: str = Field(min_length=1)
    polarity: Polarity
    rubric_revision: str | None = None
