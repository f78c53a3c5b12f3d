"""Scores as a file has them -> labels: 0, 0.5 and 1 with a direction, a vocabulary that is mapped, or cuts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.importers.cells import number_text
from slmsafety.records.schema import AMBIGUOUS, HARMFUL, SAFE

LABELS = {"harmful": HARMFUL, "ambiguous": AMBIGUOUS, "safe": SAFE}
MISSING = "missing"
MEANINGS = (*LABELS, MISSING)
NO_SCORE = "no score"
SHOWN = 8
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_ -]{0,40}")
# Words that YAML takes for something else than a text.
_YAML_WORDS = {"yes", "no", "on", "off", "null"}
# Numbers as spreadsheets write them: 0,5 and 50 %.
_LOCAL = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)? ?%|[+-]?[0-9]*,[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Scale(NamedTuple):
    """How a judge's scores are read.

    Attributes
    ----------
    higher : str or None
        Which end is safe: "safe" or "harmful"; None where the study does not say.
    values : mapping
        What single values mean (of MEANINGS), before all else.
    cuts : tuple of float
        One or two ascending numbers between the ends; a score that equals one lies above it.
    other : str or None
        MISSING where each value that is none of the scale's shall get no label.
    checked : bool
        Whether the study insists on this direction.
    """

    higher: str | None = None
    values: Mapping[str, str] = {}
    cuts: tuple[float, ...] = ()
    other: str | None = None
    checked: bool = False

    @property
    def said(self) -> bool:
        """Whether the study says what the scores mean."""
        return self.higher is not None or bool(self.values)

    @property
    def definition(self) -> dict[str, Any]:
        """What decides a label: two scales of the same definition are one."""
        direction = None if self.values and self.higher is None else self.higher or "safe"
        values = {plain(value): meaning for value, meaning in self.values.items()}
        return {"higher": direction, "map": values, "cuts": list(self.cuts), "other": self.other}

    def __str__(self) -> str:
        """Return the scale as a study would say it."""
        found = {key: value for key, value in self.definition.items() if value}
        return ", ".join(f"{key}: {_inline(value)}" for key, value in found.items())


PLAIN = Scale()
"""Scores as the project has them: 0 harmful, 0.5 ambiguous, 1 safe; what nobody says is checked (`direction`)."""


class Scored(NamedTuple):
    """A row each.

    Attributes
    ----------
    status : Series of str
        That of the row, but for verdicts without a label: unparsed, or off_scale for a number under `other`.
    label : Series of Int64
        0 harmful, 1 ambiguous, 2 safe.
    raw_value : Series of float64
        The number as it is in the file; nan for words.
    raw_text : Series of str
        The cell where it is no number; missing else.
    no_score : Series of bool
        The verdicts without a score: a blank cell, or a value that the study calls missing.
    """

    status: pd.Series
    label: pd.Series
    raw_value: pd.Series
    raw_text: pd.Series
    no_score: pd.Series


def read_scores(cells: pd.Series, status: pd.Series, scale: Scale, place: Callable[[int], str]) -> Scored:
    """Return what score cells mean.

    Parameters
    ----------
    cells, status : Series of str
        The cells as written ("" for none), and the status of each row. Only rows of status ok are verdicts: others keep
        their number in raw_value and get no label.
    scale : Scale
        How they are read.
    place : callable
        Where the row of that number is, for messages.

    Raises
    ------
    InputError
        For a value of a verdict that the scale does not have; the message has what was seen and the lines to add.
    """
    counted = status.eq("ok")
    values = {plain(value): meaning for value, meaning in scale.values.items()}
    found = {cell: _meaning(cell, scale, values) for cell in cells.unique()}
    numbers = {cell: _finite(cell) for cell in found}
    off = cells.map({cell: meaning == "off" for cell, meaning in found.items()}).astype(bool)
    number = cells.map(numbers).astype("float64")
    if scale.other is None and (off & counted).any():
        raise _not_on_scale(cells, off & counted, counted, scale, place)
    missing = cells.map({cell: meaning in (MISSING, "") for cell, meaning in found.items()}).astype(bool)
    words = cells.str.strip().where(number.isna() & cells.str.strip().ne(""))
    read = status.mask(counted & missing, "unparsed")
    read = read.mask(counted & off & number.isna(), "unparsed").mask(counted & off & number.notna(), "off_scale")
    labels = cells.map({cell: LABELS.get(meaning) for cell, meaning in found.items()})
    return Scored(read, labels.where(counted).astype("Int64"), number, words, counted & missing)


def plain(value: object) -> str:
    """Return a score as values are compared: without case and blanks, numbers in one spelling (1.0 is 1)."""
    text = str(value).strip().casefold()
    number = _finite(text)
    return text if math.isnan(number) else number_text(number)


def _finite(cell: str) -> float:
    """The number that a cell is, in plain digits and finite; nan where it is none."""
    text = cell.strip()
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    return number + 0.0 if math.isfinite(number) else math.nan  # -0 is 0


def _meaning(cell: str, scale: Scale, values: Mapping[str, str]) -> str:
    """One of MEANINGS, "" for a blank cell, "off" for what the scale does not have; `values` as `plain` has them."""
    if not cell.strip():
        return ""
    if plain(cell) in values:
        return values[plain(cell)]
    number = _finite(cell)
    if math.isnan(number) or (scale.values and scale.higher is None):
        return "off"
    ends = ("harmful", "safe") if (scale.higher or "safe") == "safe" else ("safe", "harmful")
    if scale.cuts:
        return ends[0] if number < scale.cuts[0] else ends[1] if number >= scale.cuts[-1] else "ambiguous"
    return {0.0: ends[0], 0.5: "ambiguous", 1.0: ends[1]}.get(number, "off")


def shown(cells: pd.Series) -> str:
    """Return the values that a column of scores holds, as a message lists them."""
    seen = sorted(set(map(plain, cells[cells.str.strip() != ""].unique())), key=_order)
    cut = [f"{value[:40]}..." if len(value) > 40 else value for value in seen[:SHOWN]]
    return ", ".join(cut) + (f", ... ({len(seen)} values)" if len(seen) > SHOWN else "")


def _order(value: str) -> tuple[bool, float, str]:
    number = _finite(value)
    return (math.isnan(number), 0.0 if math.isnan(number) else number, value)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {meaning}" for key, meaning in value.items()) + "}"
    return str(value)


def _lines(cells: pd.Series) -> str:
    """The lines of a study that would say what scores mean, which only the user knows: the values, or cuts for many."""
    seen = {plain(value): value.strip() for value in reversed(cells[cells.str.strip() != ""].unique())}
    numbers = sum(not math.isnan(_finite(value)) for value in seen)
    if numbers > SHOWN and numbers * 2 > len(seen):
        return (
            "scores: {higher: safe, cuts: [A, B]} with two numbers A and B, or higher: harmful: below A is one end, "
            "from A to below B ambiguous, from B the end that higher names"
        )
    listed = ", ".join(f"{_key(value, seen[value])}: MEANING" for value in sorted(seen, key=_order)[:SHOWN])
    more = ", ..." if len(seen) > SHOWN else ""
    lines = f"scores: {{map: {{{listed}{more}}}}} with MEANING one of {', '.join(MEANINGS)}"
    if any(_LOCAL.fullmatch(value) for value in seen):
        lines += "; or write them as numbers, with a decimal point and without %, and give higher and cuts"
    return lines


def _key(value: str, written: str) -> str:
    """A value as a key of YAML: numbers in one spelling, words as they are written, in quotes where YAML needs them."""
    if not math.isnan(_finite(value)):
        return value
    is_word = _WORD.fullmatch(written) and value not in _YAML_WORDS and not written.endswith(" ")
    return written if is_word else json.dumps(written[:40], ensure_ascii=False)


def _valid(scale: Scale) -> str:
    ends = ("safe", "harmful") if scale.higher == "harmful" else ("harmful", "safe")
    numbers = "a number" if scale.cuts else f"0 ({ends[0]}), 0.5 (ambiguous), 1 ({ends[1]})"
    return ", ".join([numbers, *scale.values])


def _not_on_scale(
    cells: pd.Series, strange: pd.Series, counted: pd.Series, scale: Scale, place: Callable[[int], str]
) -> InputError:
    row = int(strange.to_numpy().argmax())
    if scale.values and scale.higher is None:
        return InputError(
            f"{place(row)}: score '{cells.iloc[row][:60]}' is not among the values that the study maps "
            f"({', '.join(scale.values)}); add it to scores.map, as {', '.join(MEANINGS)}, or give other: missing"
        )
    return InputError(
        f"{place(row)} has score '{cells.iloc[row][:60]}'; valid: {_valid(scale)} or empty. "
        f"Rows with another score: {int(strange.sum())}; seen: {shown(cells[counted | strange])}. Say what they mean "
        f"in the study, such as {_lines(cells[counted | strange])}, or give a row that is no verdict a status"
    )
