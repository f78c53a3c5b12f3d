"""The entries of a study's parameters that name other tools' judged runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from slmsafety.errors import InputError
from slmsafety.importers.rules import stored_name

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


def stored_names(study: dict[str, Any]) -> dict[str, Any]:
    """Return an imported study's parameters with models and judges named as the store names those of its sources.

    So an entry may give a name in the spelling of the source, such as openai/gpt-4o. What is no text is left to the
    checks of each key.
    """
    found = dict(study)
    for key, name in (("models", "id"), ("judges", "name")):
        if isinstance(study.get(key), list | tuple):
            found[key] = [_stored(entry, name, key) for entry in study[key]]
    return found


def _stored(entry: Any, name: str, key: str) -> Any:
    if isinstance(entry, str):
        return _spelt(entry, key)
    if not isinstance(entry, dict):
        return entry
    found = dict(entry)
    if isinstance(entry.get(name), str):
        found[name] = _spelt(entry[name], key)
    if key == "judges" and isinstance(entry.get("models"), list | tuple):
        found["models"] = [_spelt(model, "models") if isinstance(model, str) else model for model in entry["models"]]
    return found


def _spelt(name: str, key: str) -> str:
    try:
        return stored_name(name)
    except InputError as error:
        raise InputError(f"{key}: {error}") from error
