"""A metric of a user's own: a Python module whose function `measure` gives one number for each row."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.plugins import Plugin
from slmsafety.records.ids import content_id
from slmsafety.records.schema import PROMPT_KEY, PROMPT_METRICS, REPLY_KEY, REPLY_METRICS, with_sample

_KEYS = {"prompts": list(PROMPT_KEY), "replies": list(REPLY_KEY)}
_TEXTS = {"prompts": ["prompt"], "replies": ["prompt", "response"]}


@dataclass(frozen=True)
class OwnMetric:
    """A metric that a user's module measures.

    Parameters
    ----------
    name : str
        The metric's name in the column `metric`: a lower-case letter, then lower-case letters, digits and `_`.
    of : str
        What is measured: `replies` or `prompts`.
    plugin : Plugin
        The user's module and the hash of its file.
    """

    name: str
    of: str
    plugin: Plugin

    def definition(self) -> dict[str, Any]:
        """Return what defines the numbers: the metric's name, the module's name and the hash of its file."""
        return {"metric": self.name, "module": self.plugin.name, "sha256": self.plugin.sha256}

    @cached_property
    def id(self) -> str:
        """The `metric_id`, 12 hex digits: a hash of `definition()`, so that a changed file makes other rows."""
        return content_id(self.definition())

    def measure(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Measure rows by the user's module.

        Parameters
        ----------
        rows : DataFrame
            One row for each text, with at least the columns that the module gets. Of replies: suite, instance_id,
            model, generation_id, prompt, response. Of prompts: suite, instance_id, prompt.

        Returns
        -------
        DataFrame
            The key of `rows` (the columns above without prompt and response), metric and metric_id (str) and value
            (float64; nan where the metric is undefined), in the order and with the index of `rows`.

        Raises
        ------
        InputError
            When the module does not give one number for each row.
        """
        key = _KEYS[self.of]
        rows = with_sample(rows) if self.of == "replies" else rows
        given = rows[[*key, *_TEXTS[self.of]]].reset_index(drop=True)
        values = self._numbers(self.plugin.module.measure(given.copy()), given.index)
        return rows[key].assign(metric=self.name, metric_id=self.id, value=values)

    def _numbers(self, made: Any, index: pd.Index) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return what a module gave as floats, or raise InputError naming the first value that is none."""
        where = f"module '{self.plugin.name}': measure"
        if isinstance(made, Mapping | Set | str | bytes):
            raise InputError(f"{where} returned a {type(made).__name__}; return a list of {len(index)} numbers")
        try:
            values = list(made)
        except TypeError as error:
            raise InputError(
                f"{where} returned a {type(made).__name__}; return a list of {len(index)} numbers"
            ) from error
        if len(values) != len(index):
            raise InputError(f"{where} returned {len(values)} values for {len(index)} rows; return one for each row")
        if isinstance(made, pd.Series) and not made.index.equals(index):
            raise InputError(f"{where} returned a Series in another order or with another index than its rows")
        for row, value in enumerate(values):
            if not _is_number(value):
                raise InputError(f"{where} returned {ascii(value)[:80]} for row {row}; return a finite number, or nan")
        return np.array(values, dtype=np.float64)


def own_metric(plugin: Plugin) -> OwnMetric:
    """Return the metric of a user's module.

    The module has a function `measure(rows)` (see `OwnMetric.measure` for the columns of `rows`) that returns a
    sequence of floats: one a row, in the rows' order, nan where the metric is undefined. It may have `OF` ("replies",
    the default, or "prompts") and `NAME` (default: the last part of the module's name).

    Parameters
    ----------
    plugin : Plugin
        The module, as `slmsafety.plugins.load_plugin` returns it.

    Returns
    -------
    OwnMetric
        The metric, with its name, what it measures and its id.

    Raises
    ------
    InputError
        When the module has no function `measure`, when `OF` is neither of the two, or when the name has other
        characters than a-z, 0-9 and `_`, does not start with a letter, or is a column of the built-in metric tables.
    """
    where = f"module '{plugin.name}'"
    if not callable(getattr(plugin.module, "measure", None)):
        raise InputError(f"{where} has no function 'measure'; define measure(rows) that returns one number a row")
    of = getattr(plugin.module, "OF", "replies")
    if of not in list(_KEYS):
        raise unknown("value of OF", of, _KEYS, where)
    name = getattr(plugin.module, "NAME", _last_part(plugin.name))
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,99}", name):
        raise InputError(f"{where}: {name!a} is no name of a metric; set NAME to one like 'reply_length'")
    if name in {*PROMPT_METRICS.columns, *REPLY_METRICS.columns}:
        raise InputError(f"{where}: '{name}' is a column of the built-in metrics; set NAME to another name")
    return OwnMetric(name, of, plugin)


def _is_number(value: object) -> bool:
    """Whether a value is a number that a float64 holds, or nan."""
    try:
        return isinstance(value, Real) and not math.isinf(float(value))
    except OverflowError:
        return False


def _last_part(name: str) -> str:
    """Return `length` of `my_package.length` and of `metrics/length.py`."""
    return Path(name).stem if name.endswith(".py") else name.rpartition(".")[2]
