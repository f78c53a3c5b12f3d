"""CSV and its kin, read to the letter: a row too short, an open quote or a stray byte stops with its place."""

from __future__ import annotations

import codecs
import csv
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from slmsafety.errors import InputError
from slmsafety.importers.cells import Cells, frame_of

DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|"}
UTF8 = "utf-8"
_CHUNK = 50_000
# No character of a text that is read: a NUL stops the reader.
_RETURN = "\0"


def read_delimited(path: Path, delimiter: str, encoding: str | None = None) -> Cells:
    """Read a file of rows with a header.

    Blank lines and rows of blanks alone are left out, and counted as rows. Where the header ends with a line feed, so
    do the rows, and a carriage return is a character of its field, as pandas writes it; rows of a file without any line
    feed end with carriage returns.

    Parameters
    ----------
    path : Path
        The file.
    delimiter : str
        One character.
    encoding : str or None
        The file's encoding; None is UTF-8.

    Raises
    ------
    InputError
        One line with the row (as a spreadsheet counts) and the line: bytes of another encoding, a NUL, a quote that is
        not closed, a row with more or fewer fields than the header, two columns of one name.
    """
    source, encoding = str(path), text_encoding(str(path), encoding)
    refuse_utf8(path, encoding)
    numbers: list[int] = []
    starts: list[int] = []
    header: list[str] = []
    chunk: list[list[str]] = []
    columns: list[list[Any]] = []
    for number, line, row in _records(path, delimiter, encoding):
        if not header:
            header = [name.strip() for name in row]
            columns = [[] for _ in header]
            continue
        if len(row) != len(header):
            raise InputError(
                f"{source}: {_row(number, line)} has {len(row)} field{'s' * (len(row) != 1)}, the header "
                f"{len(header)}; every row needs as many{_header_advice(header, delimiter)}"
            )
        numbers.append(number)
        starts.append(line)
        chunk.append(row)
        if len(chunk) == _CHUNK:
            _fold(chunk, columns)
    if not header:
        raise InputError(f"{source}: is empty; needs a header and rows")
    _fold(chunk, columns)
    names = _unnamed(header)
    arrays = {n: pa.chunked_array(parts, pa.large_string()) for n, parts in enumerate(columns)}
    frame = frame_of({str(n): array for n, array in arrays.items()}).set_axis(names, axis=1)
    form = f"csv, {encoding}, delimiter {delimiter!r}"
    return Cells(source, form, frame, np.array(numbers, dtype="int64"), np.array(starts, dtype="int64"))


def text_encoding(source: str, encoding: str | None) -> str:
    """Return the name of an encoding of text; InputError for a name that is none."""
    try:
        found = codecs.lookup(encoding or UTF8)
    except (LookupError, ValueError) as error:
        raise InputError(f"{source}: unknown encoding '{encoding}'; valid: utf-8, utf-16, latin-1, cp1252") from error
    if not found._is_text_encoding:
        raise InputError(f"{source}: '{encoding}' is no encoding of text; valid: utf-8, utf-16, latin-1, cp1252")
    return found.name


def refuse_utf8(path: Path, encoding: str) -> None:
    """Refuse a file that is read as Latin-1 or the like and is UTF-8: it would be read, and every accent be wrong.

    Raises InputError with one line; `encoding` is a name as `text_encoding` gives it.
    """
    if not encoding.startswith(("iso8859", "cp125")):
        return
    try:
        is_utf8 = not path.read_bytes().decode(UTF8).isascii()
    except UnicodeDecodeError:
        return
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    if is_utf8:
        raise InputError(f"{path}: is in utf-8, not in {encoding}; remove the key 'encoding'")


@contextmanager
def opened(path: Path, encoding: str) -> Iterator[IO[str]]:
    """Open a text file for reading lines that end with a line feed; faults of the file become one line.

    `encoding` is a name as `text_encoding` gives it.
    """
    try:
        with path.open(encoding="utf-8-sig" if encoding == UTF8 else encoding, newline="\n") as handle:
            yield handle
    except UnicodeError as error:
        raise InputError(f"{path}: {_undecodable(path, encoding)}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def checked_lines(handle: Iterable[str], path: Path, encoding: str) -> Iterator[str]:
    """Yield lines without NUL; InputError names the line of one."""
    for number, line in enumerate(handle, start=1):
        if "\0" in line:
            raise InputError(
                f"{path}: line {number} holds a NUL, so this is no text in {encoding}; add encoding: utf-16 where "
                "it is that, or the format: of another kind of file"
            )
        yield line


def _records(path: Path, delimiter: str, encoding: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the number of each row that is not blank, the line that it starts on, and its fields."""
    number, start = 0, 1
    limit = csv.field_size_limit(sys.maxsize)
    try:
        with opened(path, encoding) as handle:
            lines = _Lines(checked_lines(handle, path, encoding))
            reader = csv.reader(lines, delimiter=delimiter, strict=True)
            try:
                for row in reader:
                    number, line, start = number + 1, start, reader.line_num + 1
                    if any(row) and any(map(str.strip, row)):
                        yield number, line, lines.restored(row)
            except csv.Error as error:
                raise InputError(f"{path}: {_row(number + 1, start)} {_csv_problem(str(error))}") from error
    finally:
        csv.field_size_limit(limit)


class _Lines:
    """Lines as `csv.reader` takes them: carriage returns that are characters of a field stand as _RETURN."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._ends = lines, ""
        self.replaced = False

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            if not self._ends:
                self._ends = "\r\n" if line.endswith("\r\n") else "\n" if line.endswith("\n") else "\r"
            if "\r" not in line:
                yield line
            elif self._ends == "\r":
                yield from _by_return(line)
            elif self._ends == "\r\n" and line.endswith("\r\n") and line.count("\r") == 1:
                yield line
            else:
                self.replaced = True
                end = "\r\n" if self._ends == "\r\n" and line.endswith("\r\n") else "\n" * line.endswith("\n")
                yield line[: len(line) - len(end)].replace("\r", _RETURN) + end

    def restored(self, row: list[str]) -> list[str]:
        """Return a row with its carriage returns."""
        return [cell.replace(_RETURN, "\r") for cell in row] if self.replaced else row


def _by_return(text: str) -> list[str]:
    parts = text.split("\r")
    return [f"{part}\r" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _row(number: int, line: int) -> str:
    return f"row {number}" + (f" (line {line})" if line != number else "")


def _csv_problem(error: str) -> str:
    if "unexpected end of data" in error:
        return "has a quote that is not closed"
    if "expected after" in error:
        return "has text after a closing quote; a quote within a quoted field is written twice"
    return f"is no row ({error})"


def _fold(chunk: list[list[str]], columns: list[list[Any]]) -> None:
    """Move rows from a chunk into columns; Arrow's texts are smaller than Python's."""
    for place, cells in enumerate(zip(*chunk, strict=True)):
        columns[place].append(pa.array(cells, pa.large_string()))
    chunk.clear()


def _header_advice(header: list[str], delimiter: str) -> str:
    """What a first line that is no header seems to be."""
    if header[0].startswith("sep=") or (header[0] == "sep" and not any(header[1:])):
        return "; its first line is a spreadsheet's 'sep=': remove it, and give that character as delimiter:"
    if header[0].startswith("#"):
        return "; its first line is a comment: remove it"
    for word, character in DELIMITERS.items():
        if len(header) == 1 and character != delimiter and character in header[0]:
            return f"; the header holds {word}s: add delimiter: {word} where they are between the columns"
    return ""


def _unnamed(header: list[str]) -> list[str]:
    """A column without a name, as pandas writes an index and spreadsheets trailing commas, is called by its place."""
    return [name or f"column {place}" for place, name in enumerate(header, start=1)]


def _undecodable(path: Path, encoding: str) -> str:
    """Where a file is not in its encoding, and which one it seems to be in."""
    with path.open("rb") as handle:
        start = handle.read(4)
        if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and encoding == UTF8:
            return "is not in utf-8 but in UTF-16 (its first two bytes say so); add encoding: utf-16"
        if start == b"PAR1":
            return "is a Parquet file; add format: parquet"
        handle.seek(0)
        for number, line in enumerate(handle if "utf-16" not in encoding and "utf-32" not in encoding else (), start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as error:
                advice = "; add encoding: cp1252 or latin-1 where that is what it is" if encoding == UTF8 else ""
                return f"line {number} is not in {encoding} (byte 0x{line[error.start]:02x}){advice}"
            except UnicodeError:
                break
    return f"is not in {encoding}; give another encoding"
