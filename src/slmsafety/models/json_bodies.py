"""Reading JSON that a server sent, whatever the bytes are."""

from __future__ import annotations

import codecs
import json
import math
from typing import Any

# More digits are no count, code or time of a server's, and Python refuses to read thousands of them.
_DIGITS = 30


def parse(body: bytes) -> Any:
    """Return the JSON in a body; None for what is none, such as a cut text or one nested too deeply.

    Broken UTF-8 becomes the replacement character, a byte-order mark is left out, and absurd numbers are infinite.
    """
    try:
        return json.loads(decoded(body), strict=False, parse_int=_integer)
    except (ValueError, RecursionError):
        return None


def decoded(body: bytes) -> str:
    """Return the text of a body: UTF-16 where its mark says so, else UTF-8."""
    wide = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return body.decode("utf-16" if wide else "utf-8-sig", "replace")


def whole(text: str) -> str:
    """Return a text in which half of a surrogate pair, which no table can hold, is the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def count(value: Any) -> int | None:
    """Return a count as a server gives it (12, 12.0); None for what can be none, such as true, -1, 1e400 or a text."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9 or value % 1:
        return None
    return int(value)


def _integer(digits: str) -> int | float:
    if len(digits) <= _DIGITS:
        return int(digits)
    return -math.inf if digits.startswith("-") else math.inf
