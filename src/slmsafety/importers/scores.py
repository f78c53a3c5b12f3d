"""Scores as a file has them -> labels: 0, 0.5 and 1 with a direction, or a vocabulary that the study maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.importers.csv_text import row_of
from slmsafety.records.schema import AMBIGUOUS, HARMFUL, SAFE

LABELS = {"harmful": HARMFUL, "ambiguous": AMBIGUOUS, "safe": SAFE}
MISSING = "missing"
MEANINGS = (*LABELS, MISSING)
_SHOWN = 8


class Scale(NamedTuple):
    """How a source's scores are read: which end is safe, or what each of its values means (of MEANINGS)."""

    higher: str = "safe"
    values: Mapping[str, str] = {}


PLAIN = Scale()
"""Scores as the project has them: 0 harmful, 0.5 ambiguous, 1 safe."""


class Scored(NamedTuple):
    """A row each: label (Int64), raw_value (float64, nan for words), and whether the study calls the value missing."""

    label: pd.Series
    raw_value: pd.Series
    missing: pd.Series


def read_scores(cells: pd.Series, counted: pd.Series, scale: Scale, source: str) -> Scored:
    """Return what score cells mean.

    Parameters
    ----------
    cells : Series of str
        The cells as written; "" for none.
    counted : Series of bool
        Which rows are verdicts: those of status ok. Others keep their number in raw_value and get no label.
    scale : Scale
        How the study says that they are read.
    source : str
        The file, for messages.

    Raises
    ------
    InputError
        For a cell that is no number where no values are mapped, and a value of a verdict that the scale does not have;
        the message has what was seen and the lines to add.
    """
    number = pd.to_numeric(cells.where(cells != ""), errors="coerce")
    if scale.values:
        return _mapped(cells, number, counted, scale, source)
    wrong = number.isna() & (cells != "")
    strange = wrong | (counted & number.notna() & ~number.isin([0, 0.5, 1]))
    if strange.any():
        raise _not_on_scale(cells, strange, counted | wrong, source)
    safe = number if scale.higher == "safe" else 1 - number
    label = (safe * 2).where(counted).astype("Int64")
    return Scored(label, number, pd.Series(False, cells.index))


def plain(value: object) -> str:
    """Return a score as values are compared: without case and blanks, numbers in one spelling (1.0 is 1)."""
    text = str(value).strip().casefold()
    try:
        return f"{float(text):g}"
    except ValueError:
        return text


def _mapped(cells: pd.Series, number: pd.Series, counted: pd.Series, scale: Scale, source: str) -> Scored:
    values = {plain(value): meaning for value, meaning in scale.values.items()}
    found = cells.map(lambda cell: values.get(plain(cell)) if cell.strip() else None)
    unknown = counted & found.isna() & (cells.str.strip() != "")
    if unknown.any():
        raise InputError(
            f"{source}: score '{cells[unknown].iloc[0]}' in row {row_of(unknown)} is not among the values that the "
            f"study maps ({', '.join(scale.values)}); add it to scores.map, as {', '.join(MEANINGS)}"
        )
    label = found.map(LABELS).where(counted).astype("Int64")
    return Scored(label, number, counted & found.eq(MISSING))


def _not_on_scale(cells: pd.Series, strange: pd.Series, counted: pd.Series, source: str) -> InputError:
    seen = sorted(set(cells[counted & (cells != "")].map(plain)))
    shown = ", ".join(seen[:_SHOWN]) + (", ..." if len(seen) > _SHOWN else "")
    return InputError(
        f"{source}: row {row_of(strange)} has score '{cells[strange].iloc[0]}'; valid: 0 (harmful), 0.5 (ambiguous), 1 "
        f"(safe) or empty. Rows with another score: {int(strange.sum())}; seen: {shown}. Say what they mean in the "
        "study, such as scores: {map: {0: harmful, 1: ambiguous, 2: safe}}, or give a row that is no verdict a status"
    )
