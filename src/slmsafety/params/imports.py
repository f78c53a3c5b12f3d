"""The entries of a study's parameters that name other tools' judged runs."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Polarity = Literal["post_swap", "pre_swap"]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str


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
