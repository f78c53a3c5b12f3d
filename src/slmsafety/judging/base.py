"""A judge, whatever it is made of: rules, weights run here, a model behind a server, or a user's own module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.plugins import Plugin
from slmsafety.records.ids import content_id
from slmsafety.records.schema import JUDGMENTS, LABELS, REPLY_KEY, STATUSES

# What a judge may say of a reply; the other columns of the judgments table are the reply's and the judge's names.
_SAID = [column for column in JUDGMENTS.columns if column not in (*JUDGMENTS.key, "judge")]
# The keys of a definition that the package sets itself.
_OWN_KEYS = ("judge", "sends_empty", "module", "sha256")


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
            The text columns suite, instance_id, model, generation_id, prompt, meta (of the prompt, JSON), expected
            (refuse, answer), response and finish_reason.

        Yields
        ------
        DataFrame
            The reply's key (suite, instance_id, model, generation_id) and any of status, label (0 harmful, 1 ambiguous,
            2 safe, missing), raw_value (on the judge's own scale), raw_text, reason, input_tokens, output_tokens, meta.
        """


class Measure(Protocol):
    """A module or object that judges a frame at once: a named judge, a loaded guard model, a user's module."""

    def definition(self) -> dict[str, Any]:
        """Return what decides the labels, as `Judge.definition` does."""

    def measure(self, rows: pd.DataFrame, /) -> pd.DataFrame:
        """Return a row for each of `rows`, in their order, with the columns that `Judge.judge` may yield."""


def judge_id(judge: _Defined, empty_sent: bool) -> str:
    """Return the id of a judge's work.

    Parameters
    ----------
    judge : Judge
        Anything with a name and a definition.
    empty_sent : bool
        Whether empty replies are sent to it; this is part of the id.

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
        return content_id({"judge": judge.name, **judge.definition(), "sends_empty": empty_sent})
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
            yield part[list(REPLY_KEY)].join(self.measure(part))

    def measure(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return what the source says of rows, checked as `judge` says: a row for each, with a fresh index."""
        said: object = self.source.measure(rows)
        if not isinstance(said, pd.DataFrame):
            raise InputError(f"judge {self.name}: measure returned {type(said).__name__}; it owes a DataFrame")
        if len(said) != len(rows):
            raise InputError(
                f"judge {self.name} returned {len(said)} rows for {len(rows)} replies; it owes one for each"
            )
        said = said.reset_index(drop=True)
        if "status" not in said:
            said = said.assign(status="ok")
        for column in said.columns:
            if column not in _SAID:
                raise unknown("column", column, _SAID, f"what judge {self.name} returned")
        for status in said["status"].unique():
            if status not in STATUSES:
                raise unknown("status", status, STATUSES, f"what judge {self.name} returned")
        labels = said["label"].dropna() if "label" in said else pd.Series(dtype="Int64")
        for row, label in labels.items():
            if label not in range(len(LABELS)) or isinstance(label, bool):
                raise InputError(f"judge {self.name}, reply {row}: label {label!r}; it is 0, 1, 2 or missing")
            if said["status"].loc[row] != "ok":  # type: ignore[call-overload] # pandas: the index is a range
                raise InputError(f"judge {self.name}, reply {row}: a label, though its status is not ok")
        return said


@dataclass(frozen=True)
class _Module:
    """A user's module as what a `MeasuringJudge` asks."""

    plugin: Plugin
    name: str

    def definition(self) -> dict[str, Any]:
        own = self.plugin.module.definition() if hasattr(self.plugin.module, "definition") else {}
        if not isinstance(own, dict):
            raise InputError(f"judge {self.name}: definition() of {self.plugin.name} must return a dict")
        for key in _OWN_KEYS:
            if key in own:
                raise InputError(f"judge {self.name}: definition() of {self.plugin.name} has the reserved key '{key}'")
        return {"module": self.plugin.name, "sha256": self.plugin.sha256, **own}

    def measure(self, rows: pd.DataFrame, /) -> Any:
        return self.plugin.module.measure(rows)


def plugin_judge(name: str, plugin: Plugin) -> Judge:
    """Return a user's own module as a judge.

    Parameters
    ----------
    name : str
        The judge's name in the tables.
    plugin : Plugin
        A module with `measure(rows)` as `MeasuringJudge` has it; it may have `definition()` (a dict of what else
        decides its labels, such as a version) and `COSTS_MONEY = True`.

    Returns
    -------
    Judge
        Its definition holds the module's name and the sha256 of its file: a changed file is another judge_id.

    Raises
    ------
    InputError
        When the module has no function `measure`.
    """
    if not callable(getattr(plugin.module, "measure", None)):
        raise InputError(
            f"judge {name}: module '{plugin.name}' has no function measure(rows), which returns a frame with a row for "
            f"each reply and any of {', '.join(_SAID)}"
        )
    costs = getattr(plugin.module, "COSTS_MONEY", False) is True
    return MeasuringJudge(name, _Module(plugin, name), costs_money=costs)
