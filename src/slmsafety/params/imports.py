"""The entries of a study's parameters that name other tools' judged runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from slmsafety.errors import InputError, unknown
from slmsafety.importers.scores import Scale, plain
from slmsafety.importers.table_layout import CONSTANTS, KNOWN, TableOptions

Polarity = Literal["post_swap", "pre_swap"]
Meaning = Literal["harmful", "ambiguous", "safe", "missing"]


# YAML reads each of these words as a boolean and does not tell which one was written.
_BOOLEANS = {True: ("true", "yes", "on"), False: ("false", "no", "off")}


def _as_text(value: Any) -> Any:
    """Return a mapping with its keys as text, as YAML has them (0.5); a boolean is each word that YAML reads as it."""
    if not isinstance(value, dict):
        return value
    found = {word: meaning for key, meaning in value.items() if isinstance(key, bool) for word in _BOOLEANS[key]}
    return found | {str(key): meaning for key, meaning in value.items() if not isinstance(key, bool)}


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str


class ScoresParams(BaseModel):
    """How scores of judged tables are read.

    Attributes
    ----------
    higher : {"safe", "harmful"} or None
        Which end is safe, of 0, 0.5, 1 or of what `cuts` divides.
    map : dict
        What single values mean (harmful, ambiguous, safe, missing), whatever they are: words, 0/1/2, true.
    cuts : tuple of float
        One or two ascending numbers that divide continuous scores; one that equals a cut lies above it.
    other : "missing" or None
        What every value means that is none of these; without it such a value stops the import.
    checked : bool
        Accept labels that call most replies harmful that open with a refusal.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    higher: Literal["safe", "harmful"] | None = None
    map: Annotated[dict[str, Meaning], BeforeValidator(_as_text)] = Field(default={})
    cuts: Annotated[tuple[float, ...], Field(max_length=2)] = ()
    other: Literal["missing"] | None = None
    checked: bool = False

    @model_validator(mode="after")
    def _complete(self) -> ScoresParams:
        if self.cuts and self.higher is None:
            raise InputError("scores.cuts needs scores.higher beside it: which end is safe")
        if list(self.cuts) != sorted(set(self.cuts)):
            raise InputError("scores.cuts are not ascending numbers")
        if (self.checked or self.other) and self.higher is None and not self.map:
            key = "checked" if self.checked else "other"
            raise InputError(
                f"scores.{key} needs scores.higher or scores.map beside it, which says what the scores mean"
            )
        first: dict[str, str] = {}
        for value in self.map:
            if first.setdefault(plain(value), value) != value:
                raise InputError(f"scores.map has the values '{first[plain(value)]}' and '{value}', which are one")
        return self

    @property
    def scale(self) -> Scale:
        """The scale as importers take it."""
        return Scale(self.higher, self.map, self.cuts, self.other, self.checked)


class JudgeColumn(BaseModel):
    """A judge of a table: the column of its scores, unless judges are rows, and how they are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str | None = Field(default=None, min_length=1)
    scores: ScoresParams | None = None


def _column_alone(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


class TableEntry(_Entry):
    """A table of judged replies.

    Attributes
    ----------
    format, encoding, delimiter : str or None
        How the file is read, where its suffix, UTF-8 and commas do not say it.
    suite, model, judge : str or None
        The suite, model or judge of all rows, where the file has no such column.
    columns : dict
        The file's name of a known column (`table_layout.KNOWN`).
    judges : dict
        Judges whose scores are columns: the column's name, or a mapping with `column` and `scores`. With `scores` alone
        a judge of rows has a scale of its own.
    scores : ScoresParams or None
        How this file's scores are read; None is as the study says.
    """

    format: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    suite: str | None = Field(default=None, min_length=1)
    model: str | None = Field(default=None, min_length=1)
    judge: str | None = Field(default=None, min_length=1)
    columns: dict[str, str] = Field(default={})
    judges: dict[str, Annotated[JudgeColumn, BeforeValidator(_column_alone)]] = Field(default={})
    scores: ScoresParams | None = None

    @field_validator("columns")
    @classmethod
    def _known(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name not in KNOWN:
                raise unknown("column", name, KNOWN, "the key 'columns', which maps our names to the file's")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> TableEntry:
        for name in CONSTANTS:
            if getattr(self, name) is not None and name in self.columns:
                raise InputError(f"{self.path}: {name} is given for all rows and as a column; remove one")
        with_column = [name for name, judge in self.judges.items() if judge.column is not None]
        for name, judge in self.judges.items():
            if judge.column is None and (with_column or judge.scores is None):
                raise InputError(f"{self.path}: judge '{name}' needs a column (or scores alone, where judges are rows)")
        if with_column and (self.judge is not None or {"judge", "score"} & set(self.columns)):
            raise InputError(f"{self.path}: 'judges' names the columns of scores; remove 'judge' and 'score' beside it")
        return self

    def options(self, study: ScoresParams) -> TableOptions:
        """Return what the reader takes; `study` is how the study reads scores of which nothing nearer is said."""
        whole = (self.scores or study).scale
        constants = {name: getattr(self, name) for name in CONSTANTS if getattr(self, name) is not None}
        scales = {name: judge.scores.scale for name, judge in self.judges.items() if judge.scores is not None}
        columns = {name: judge.column for name, judge in self.judges.items() if judge.column is not None}
        return TableOptions(self.format, self.encoding, self.delimiter, constants, self.columns, columns, whole, scales)


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
