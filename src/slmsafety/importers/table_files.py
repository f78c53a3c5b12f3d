"""A table of judged replies as its file's format says, never as its content seems to be."""

from __future__ import annotations

from pathlib import Path

from slmsafety.errors import InputError, unknown
from slmsafety.importers.cells import Cells
from slmsafety.importers.delimited import DELIMITERS, read_delimited
from slmsafety.importers.json_rows import read_json_rows
from slmsafety.importers.parquet_rows import read_parquet_rows

FORMATS = ("csv", "tsv", "jsonl", "json", "parquet")
_SUFFIXES = {
    **{f".{name}": name for name in FORMATS},
    **{".tab": "tsv", ".ndjson": "jsonl", ".pq": "parquet"},
}
_OTHER = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save the sheet from the spreadsheet"),
    **dict.fromkeys((".gz", ".zip", ".bz2", ".xz", ".zst"), "unpack it first and give the file"),
    **dict.fromkeys((".pkl", ".pickle", ".feather", ".arrow"), "save the table anew"),
}


def read_cells(path: Path, form: str | None = None, encoding: str | None = None, delimiter: str | None = None) -> Cells:
    """Return a file's rows as text.

    Parameters
    ----------
    path : Path
        The file.
    form : str or None
        One of FORMATS; None is what the file's suffix says.
    encoding : str or None
        The encoding of a text file; None is UTF-8, with or without a byte order mark.
    delimiter : str or None
        One character between the fields of a CSV, or its name (DELIMITERS); None is a comma, or a tab in a TSV.

    Raises
    ------
    InputError
        One line with the file: a folder, an empty or unreadable file, an unknown format, and what each format refuses.
    """
    form = form or _SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise InputError(f"{path}: its suffix '{path.suffix}' names no known format; {_advice(path)}")
    if form not in FORMATS:
        raise unknown("format", form, FORMATS, str(path))
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; name the file")
        if path.stat().st_size == 0:
            raise InputError(f"{path}: is empty")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if delimiter is not None and form not in ("csv", "tsv"):
        raise InputError(f"{path}: a file of format {form} has no delimiter; remove that key")
    if form == "parquet":
        if encoding is not None:
            raise InputError(f"{path}: a Parquet file has no encoding of its own; remove that key")
        return read_parquet_rows(path)
    if form in ("json", "jsonl"):
        return read_json_rows(path, encoding)
    return read_delimited(path, one_character(delimiter or {"csv": ",", "tsv": "\t"}[form], str(path)), encoding)


def _advice(path: Path) -> str:
    if path.suffix.lower() in _OTHER:
        return f"{_OTHER[path.suffix.lower()]}, as CSV, TSV, JSONL or Parquet"
    return "add format: csv, tsv, jsonl, json or parquet"


def one_character(delimiter: str, source: str) -> str:
    """Return a delimiter that is given by itself or by its name; InputError for what can be none."""
    found = DELIMITERS.get(delimiter.strip().casefold(), delimiter)
    if len(found) != 1 or found in '"\r\n\0':
        raise InputError(f"{source}: delimiter {delimiter!r} is no character; valid: one, or {', '.join(DELIMITERS)}")
    return found
