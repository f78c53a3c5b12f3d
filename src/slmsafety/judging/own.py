"""A judge of a user's own: a Python module whose function `measure` judges a frame of replies."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.judging.base import SAID, MeasuringJudge
from slmsafety.plugins import Plugin

# The keys of a definition that the package sets itself.
_RESERVED = ("judge", "sends_empty", "judged", "module", "sha256")


def plugin_judge(name: str, plugin: Plugin, mapped: bool = False) -> MeasuringJudge:
    """Return a user's own module as a judge.

    Parameters
    ----------
    name : str
        The judge's name in the tables.
    plugin : Plugin
        A module with `measure(rows)` as `base.MeasuringJudge` has it; it may have `definition()` (a dict of what else
        decides its labels, such as a version) and `COSTS_MONEY = True`.
    mapped : bool
        Whether a mapping makes the labels: a row of status ok then has a number and no label, else a label.

    Returns
    -------
    MeasuringJudge
        Its definition holds the module's name and the sha256 of its file: a changed file is another judge_id.

    Raises
    ------
    InputError
        When the module has no function `measure`, or its `definition` does not give what it should.
    """
    if not callable(getattr(plugin.module, "measure", None)):
        raise InputError(
            f"judge {name}: module '{plugin.name}' has no function measure(rows), which returns a frame with a row for "
            f"each reply and any of {', '.join(SAID)}"
        )
    module = _Module(name, plugin, mapped)
    module.definition()
    return MeasuringJudge(name, module, costs_money=costs_money(plugin))


def costs_money(plugin: Plugin) -> bool:
    """Return whether a module says that each of its calls is paid for (`COSTS_MONEY = True`)."""
    return getattr(plugin.module, "COSTS_MONEY", False) is True


@dataclass(frozen=True)
class _Module:
    """A user's module as what a `MeasuringJudge` asks."""

    name: str
    plugin: Plugin
    mapped: bool

    def definition(self) -> dict[str, Any]:
        """Return what decides the labels; InputError where the module's own part is no dict, or fails."""
        own: Any = self._call("definition") if hasattr(self.plugin.module, "definition") else {}
        if not isinstance(own, dict):
            raise InputError(f"judge {self.name}: definition() of {self.plugin.name} must return a dict")
        for key in _RESERVED:
            if key in own:
                raise InputError(f"judge {self.name}: definition() of {self.plugin.name} has the reserved key '{key}'")
        return {"module": self.plugin.name, "sha256": self.plugin.sha256, **own}

    def measure(self, rows: pd.DataFrame, /) -> pd.DataFrame:
        """Return what the module says; InputError where it fails or says too little of a reply."""
        said = self._call("measure", rows)
        if isinstance(said, pd.DataFrame) and said.columns.is_unique and len(said) == len(rows):
            self._check(said)
        return said  # type: ignore[no-any-return] # what it is, `MeasuringJudge` checks

    def _check(self, said: pd.DataFrame) -> None:
        status = said["status"] if "status" in said else pd.Series("ok", said.index)
        if status.eq("empty_response").any():
            raise InputError(f"judge {self.name}: status empty_response is for replies that no judge is asked about")
        needed, other = ("raw_value", "label") if self.mapped else ("label", "raw_value")
        lacking = status.eq("ok") & (said[needed].isna() if needed in said else True)
        if lacking.any():
            row = int(lacking.to_numpy().argmax())
            advice = "" if self.mapped else "; one that measures a number needs a mapping in its entry"
            raise InputError(f"judge {self.name}, reply {row}: status ok and no {needed}{advice}")
        if self.mapped and other in said and said[other].notna().any():
            raise InputError(
                f"judge {self.name} gives labels and has a mapping, which makes them; remove one of the two"
            )

    def _call(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self.plugin.module, function)(*arguments)
        except Exception as error:  # whatever the user's own lines raise
            frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).suffix == ".py"]
            where = f"line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else "its code"
            raise InputError(
                f"judge {self.name}: {function} of {self.plugin.name} failed ({type(error).__name__}: {error}; {where})"
            ) from error
