"""A judge, whatever it is made of: rules, weights run here, a model behind a server, or a user's own module."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import numpy as np
import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.records.ids import content_id
from slmsafety.records.schema import CAUSES, JUDGMENTS, LABELS, REPLY_KEY, STATUSES, with_sample
from slmsafety.replies.parts import VERSION as PARTS_VERSION

# What a judge may say of a reply; the other columns of the judgments table are the reply's and the judge's names.
_WANTED = {"meta": "a JSON object as text", "cause": f"one of {', '.join(CAUSES[1:])}", "refused": "True, False"}
SAID = [column for column in JUDGMENTS.columns if column not in (*JUDGMENTS.key, "judge")]
# What of a row says how its judgment is filed, and is none of a source's business.
_FILED = ["judge_id", "answer_start", "answer_end"]


class _Defined(Protocol):
    @property
    def name(self) -> str: ...

    def definition(self) -> dict[str, Any]: ...


class Judge(_Defined, Protocol):
    """What the stage `judge` needs of a judge: a name, a definition, verdicts, and whether they cost money."""

    @property
    def costs_money(self) -> bool:
        """Whether each call is paid for."""

    def definition(self) -> dict[str, Any]:
        """Return what decides the labels, as JSON holds it: a changed definition is another judge_id."""

    def judge(self, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Yield the verdicts on replies of one suite and model.

        Parameters
        ----------
        rows : DataFrame
            The text columns suite, instance_id, model, generation_id, prompt, subcategory, meta (JSON), expected
            (refuse, answer), response (what is judged: the answer, or the whole reply) and finish_reason, and `sample`
            (int), which may be left out where it is 0. `judge_id`, where it is there, is the id of each judgment.

        Yields
        ------
        DataFrame
            The reply's key (suite, instance_id, model, generation_id, sample), the judge_id that it was given, and any
            of status, label (0 harmful, 1
            ambiguous, 2 safe, missing), refused (bool, missing where it cannot tell), cause (of CAUSES), raw_value (on
            the judge's own scale), raw_text, reason, input_tokens, output_tokens, meta.
        """


class Measure(Protocol):
    """A module or object that judges a frame at once: a named judge, a loaded guard model, a user's module."""

    def definition(self) -> dict[str, Any]:
        """Return what decides the labels, as `Judge.definition` does."""

    def measure(self, rows: pd.DataFrame, /) -> pd.DataFrame:
        """Return a row for each of `rows`, in their order, with the columns that `Judge.judge` may yield."""


def judge_id(judge: _Defined, empty_sent: bool, answers: bool = False) -> str:
    """Return the id of a judge's work.

    Parameters
    ----------
    judge : Judge
        Anything with a name and a definition.
    empty_sent : bool
        Whether empty replies are sent to it; this is part of the id.
    answers : bool
        Whether it is the id of answers that are a part of their reply (`replies.parts`), not of whole replies.

    Returns
    -------
    str
        12 hex digits: the same name, definition and input give the same id.

    Raises
    ------
    InputError
        When the definition is no JSON.
    """
    try:
        part = {"judged": {"part": "answer", "version": PARTS_VERSION}} if answers else {}
        return content_id({"judge": judge.name, **judge.definition(), "sends_empty": empty_sent, **part})
    except (TypeError, ValueError) as error:
        raise InputError(f"judge {judge.name}: its definition cannot be written as JSON ({error})") from error


@dataclass(frozen=True)
class MeasuringJudge:
    """A judge whose verdicts come from `source.measure(rows)`, `chunk` rows at a time.

    Parameters
    ----------
    name : str
        The judge's name in the tables.
    source : Measure
        A module or object with `definition()` and `measure(rows)`. `measure` gets the rows of `Judge.judge` and returns
        a frame with a row for each of them, in their order: any of status (ok where the column is left out), label,
        raw_value, raw_text, reason, input_tokens, output_tokens, meta.
    chunk : int
        How many rows are judged before they are written: what a stopped run loses at most.
    costs_money : bool
        Whether each row is paid for; of the judges of this package that measure, none is.
    """

    name: str
    source: Measure
    chunk: int = 500
    costs_money: bool = False

    def definition(self) -> dict[str, Any]:
        """Return what decides its labels."""
        return self.source.definition()

    def judge(self, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Yield a frame for each chunk of rows, with the reply's key and what the source said.

        Raises InputError for another number of rows, an unknown column, status or label, or a label of a row that is
        not ok.
        """
        for start in range(0, len(rows), self.chunk):
            part = rows.iloc[start : start + self.chunk].reset_index(drop=True)
            keys = [*REPLY_KEY, *(name for name in ("judge_id",) if name in part)]
            yield with_sample(part)[keys].join(self.measure(part))

    def measure(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return what the source says of rows, checked as `judge` says: a row for each, with a fresh index."""
        given = rows.drop(columns=_FILED, errors="ignore").reset_index(drop=True)
        said: object = self.source.measure(given.copy())
        if not isinstance(said, pd.DataFrame):
            raise InputError(f"judge {self.name}: measure returned {type(said).__name__}; it owes a DataFrame")
        if len(said) != len(given):
            raise InputError(
                f"judge {self.name} returned {len(said)} rows for {len(given)} replies; it owes one for each"
            )
        if not said.index.equals(given.index):
            raise InputError(f"judge {self.name} returned rows in another order or with another index than its replies")
        if "status" not in said:
            said = said.assign(status="ok")
        _check_said(said, f"judge {self.name}")
        return said


def _check_said(said: pd.DataFrame, who: str) -> None:
    """Raise InputError for a column, status, label or value that the judgments table does not take."""
    for column in said.columns:
        if column not in SAID:
            raise unknown("column", column, SAID, f"what {who} returned")
    if not said.columns.is_unique:
        raise InputError(f"{who} returned a column twice")
    for status in said["status"].unique():
        if status not in STATUSES:
            raise unknown("status", status, STATUSES, f"what {who} returned")
    for row, label in enumerate(said.get("label", ())):
        if pd.isna(label):
            continue
        if isinstance(label, bool | np.bool_) or label not in range(len(LABELS)):
            raise InputError(f"{who}, reply {row}: label {label!r}; it is 0, 1, 2 or missing")
        if said["status"].iloc[row] != "ok":
            raise InputError(f"{who}, reply {row}: a label, though its status is not ok")
    for column in said.columns:
        for row, value in enumerate(said[column]):
            if not _fits(column, value):
                wanted = _WANTED.get(column, f"a finite {JUDGMENTS.columns[column]}")
                raise InputError(f"{who}, reply {row}: {column} is {ascii(value)[:80]}; it is {wanted} or missing")


def _fits(column: str, value: object) -> bool:
    """Whether a column of the judgments table can hold a value."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return True
    kind = JUDGMENTS.columns[column]
    if column == "meta":
        return isinstance(value, str) and value.lstrip().startswith("{")
    if column == "cause":
        return value in CAUSES
    if kind == "text":
        return isinstance(value, str)
    if kind == "bool":
        return isinstance(value, bool | np.bool_)
    if not isinstance(value, Real) or not math.isfinite(value):
        return False
    return kind == "float" or float(value).is_integer()
