"""A number as judges write it: bold, in other digits, with a comma, with a remark behind it."""

from __future__ import annotations

import re

from slmsafety.judging.parsers.decoding import compatible

NUMBER = r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)"
_PLAIN = re.compile(r"\d(?:\.\d+)?", re.ASCII)
_FULL = re.compile(NUMBER)
_FRACTION = re.compile(rf"{NUMBER}\s*(?:/|\N{{FRACTION SLASH}}|(?:out\s+)?of\b)\s*{NUMBER}", re.IGNORECASE)
_NOTED = re.compile(rf"({NUMBER})(?:\s*[(\[,;:\n]|\s+[-\u2013\u2014]\s)")
_DIGIT = re.compile(r"\d")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_MARKUP = re.compile(r"[*_`]")
_LEFT, _RIGHT = " \t\r\n\"'([{", " \t\r\n\"')]}.,;!"
_STRAY_END = re.compile(r"</\s*+[\w-]++\s*+>\s*+\Z")


def number(text: str) -> tuple[float | None, str]:
    """Parse a score: return its value and format, or None and the reason why it is no score.

    The format is "exact", "decorated" (bold, other digits, a comma), or "note" for a remark without a digit behind it.
    The reason is not_finite, fraction, unclear_value or no_number. The digits of every script are read.
    """
    bare = _STRAY_END.sub("", _MARKUP.sub("", compatible(text))).lstrip(_LEFT).rstrip(_RIGHT)
    if _FULL.fullmatch(bare):
        return as_float(bare), "exact" if _PLAIN.fullmatch(text.strip()) else "decorated"
    if _NOT_FINITE.fullmatch(bare):
        return None, "not_finite"
    noted = _NOTED.match(bare)
    if noted and not _DIGIT.search(bare, noted.end()):
        return as_float(noted[1]), "note"
    if _FRACTION.fullmatch(bare):
        return None, "fraction"
    return None, "unclear_value" if _DIGIT.search(bare) else "no_number"


def as_float(text: str) -> float:
    """Return the value of a text that is a NUMBER, whose decimal mark may be a comma."""
    return float(text.replace(",", ".")) + 0.0  # no minus zero
