"""What a column is called in a printed table, and how its numbers are written (headers.csv)."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from slmsafety.report.text import latex

HEADERS = Path(__file__).with_name("headers.csv")

_ACRONYMS = {"ar": "AR", "hcr": "HCR", "srr": "SRR"}


class Header(NamedTuple):
    """One line of headers.csv: a column's words in LaTeX, unit included, and its format specification ("": none)."""

    words: str
    format: str


@cache
def headers() -> dict[str, Header]:
    """Return the lines of headers.csv by column."""
    with HEADERS.open(encoding="utf-8", newline="") as handle:
        return {row["column"]: Header(row["words"], row["format"]) for row in csv.DictReader(handle)}


def words(column: object) -> str:
    """Return a column's words in LaTeX: those of headers.csv, else its name with blanks for underscores, escaped."""
    name = str(column)
    if name in headers():
        return headers()[name].words
    text = " ".join(_ACRONYMS.get(part, part) for part in name.split("_") if part) or name
    return latex(text[:1].upper() + text[1:])


def titles(columns: Sequence[object]) -> list[str]:
    """Return the words of a table's columns, no two alike: columns that share theirs have their names, or a number."""
    found = [words(column) for column in columns]
    found = [latex(column) if found.count(text) > 1 else text for column, text in zip(columns, found, strict=True)]
    told: list[str] = []
    for text in found:
        number, own = 1, text
        while own in told:
            number += 1
            own = f"{text} ({number})"
        told.append(own)
    return told


def format_of(column: object) -> str:
    """Return a column's format specification in headers.csv, "" where it has none."""
    return headers()[str(column)].format if str(column) in headers() else ""
