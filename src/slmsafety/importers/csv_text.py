"""CSV files as text: an id 001 stays 001, and an empty cell stays empty."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError


def read_csv_text(path: Path, needed: Sequence[str]) -> pd.DataFrame:
    """Return a CSV's cells as text; InputError names the file, and the first of the needed columns that it lacks."""
    try:
        frame = pd.read_csv(path, dtype="str", keep_default_na=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path}: not readable as CSV ({' '.join(str(error).split())})") from error
    for column in needed:
        if column not in frame.columns:
            raise InputError(f"{path}: lacks column '{column}'; needed: {', '.join(needed)}")
    return frame


def row_of(mask: pd.Series) -> int:
    """Return the number of the first True row as a spreadsheet counts: the header is row 1."""
    return int(mask.to_numpy().argmax()) + 2
