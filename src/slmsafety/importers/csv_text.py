"""CSV files of a known form as text: an id 001 stays 001, and an empty cell stays empty."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.importers.table_files import read_cells


def read_csv_text(path: Path, needed: Sequence[str]) -> pd.DataFrame:
    """Return a CSV's cells as text (`delimited.read_delimited`).

    Raises InputError naming the file, and the first of the needed columns that it lacks, or one that is there twice.
    """
    frame = read_cells(path, "csv").frame
    for column in needed:
        if column not in frame.columns:
            raise InputError(f"{path}: lacks column '{column}'; needed: {', '.join(needed)}")
    if not frame.columns.is_unique:
        raise InputError(f"{path}: has two columns '{frame.columns[frame.columns.duplicated()][0]}'")
    return frame
