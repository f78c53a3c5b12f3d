"""A text as it reads once it is decoded: what a judge that repeats a text may make of it.

Judges repeat what they read in plain letters: entities, escapes and base64 resolved, zero-width characters and line
breaks gone, full-width letters as plain ones. Every step is linear in the length of the text.
"""

from __future__ import annotations

import base64
import codecs
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from html.entities import html5

LAYERS = 3
"""How many times a text is decoded: what is decoded may be encoded itself."""

_ESCAPE = re.compile(
    r"""&\#0*+(?P<decimal>\d{1,7});?
      | &\#x0*+(?P<hex>[0-9a-f]{1,6});?
      | &(?P<name>[a-z]{2,24};|lt|gt|amp)
      | \\u\{(?P<braced>[0-9a-f]{1,6})\}
      | (?:\\u|%u|U\+)(?P<four>[0-9a-f]{4})
      | (?:\\x|%|=)(?P<two>[0-9a-f]{2})
      | \\(?P<white>[nrt])
      | \\(?P<itself>[^\w\s])
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_ESCAPES = re.compile(r"[&%=\\]|U\+", re.IGNORECASE)
_DIGITS = r"[A-Za-z0-9+/_-]"
# A line of at least 40 digits may go on in the next one.
_RUN = re.compile(rf"{_DIGITS}{{11,}}+(?:(?<={_DIGITS}{{40}})[ \t]*+\r?\n[ \t]*+{_DIGITS}{{2,}}+(?=[\s=]|\Z))*+")
_SHORTEST = 11
"""Letters of base64 that hold `<score>1`."""
_HEX = re.compile(r"(?:[0-9a-f]{2}[ :,]?+){8,}+", re.IGNORECASE)
_BETWEEN_DIGITS = re.compile(r"(\d)\s++(?=\d)")
_SIGNS = re.compile(r"[\W_]+")
_WHITE = {"n": "\n", "r": "\r", "t": "\t"}
# Not seen: controls, joiners, direction marks, variation selectors, combining strokes. Tag characters are letters.
_UNSEEN = [
    *(range(0x00, 0x09), range(0x0E, 0x1C), range(0x7F, 0x85), range(0x86, 0xA0), range(0x300, 0x370)),
    *(range(0x180B, 0x1810), range(0x200B, 0x2010), range(0x202A, 0x202F), range(0x2060, 0x2070)),
    *(range(0xFE00, 0xFE10), range(0xFE20, 0xFE30), range(0xE0000, 0xE1000)),
]
_LIKE = {
    "<": "\u2039\u2329\u27e8\u3008\u300a\u02c2\u1438\u276e\u2770\u00ab\u227a[{",
    ">": "\u203a\u232a\u27e9\u3009\u300b\u02c3\u1433\u276f\u2771\u00bb\u227b]}",
    "/": "\u2044\u2215\u29f8\u2571",
    "#": "\u266f",
    ":": "\u02d0\u0589\u05c3\ua789\u2236",
    "c": "\u0441\u03f2",
    "e": "\u0435",
    "h": "\u04bb",
    "o": "\u043e\u03bf",
    "r": "\u0433",
    "s": "\u0455",
    "t": "\u0442",
}
_SEEN: dict[int, int | None] = {code: None for codes in _UNSEEN for code in codes}
_SEEN |= dict.fromkeys(map(ord, "*_`\"'\\"))
_SEEN |= dict.fromkeys((0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0))
_SEEN |= {ord(like): ord(plain) for plain, likes in _LIKE.items() for like in likes}
_SEEN |= {0xE0000 + code: _SEEN.get(code, ord(chr(code).lower())) for code in range(0x20, 0x7F)}


@lru_cache(maxsize=4096)
def _compatible(character: str) -> str:
    return unicodedata.normalize("NFKC", character)


@lru_cache(maxsize=4096)
def _decomposed(character: str) -> str:
    return unicodedata.normalize("NFKD", character)


def compatible(text: str) -> str:
    """Return the text with each character in its compatibility form (NFKC): full-width letters as plain ones.

    A whole text at once would take a time that grows with the square of a run of combining marks.
    """
    return text if text.isascii() else "".join(map(_compatible, text))


def compact(text: str) -> str:
    """Return the letters of a text alone: lower-case, look-alikes as what they look like, without white space.

    Quotes, markup and what is not seen are gone too; "|" stands for the space between two numbers.
    """
    seen = compatible(text).casefold().translate(_SEEN)
    return "".join(_BETWEEN_DIGITS.sub(r"\1|", seen).split())


def bare(text: str) -> str:
    """Return the letters and digits of a text alone, as `compact` has them, without accents and other signs."""
    letters = compact(text)
    return _SIGNS.sub("", letters if letters.isascii() else "".join(map(_decomposed, letters)))


def readings(text: str) -> Iterator[str]:
    """Yield what a text may be read as, in the form of `compact`: as it is, decoded, in rot13, reversed.

    Decoded are entities (HTML), escapes (JSON, Python, URL, quoted-printable), and runs of base64 or hexadecimal
    digits, up to LAYERS deep.
    """
    shown = text
    for _ in range(LAYERS + 1):
        letters = compact(shown)
        yield letters
        if "fpber" in letters:
            yield codecs.encode(letters, "rot13")
        if "erocs" in letters:
            yield letters[::-1]
        decoded = _decoded(shown)
        if decoded == shown:
            return
        shown = decoded


def _decoded(text: str) -> str:
    """Return the text with its escapes and runs resolved; what cannot hold any is not looked through."""
    if _ESCAPES.search(text):
        text = _ESCAPE.sub(_character, text)
    if max(map(len, text.split()), default=0) >= _SHORTEST:
        text = _RUN.sub(_bytes, text)
    if "3c" in text.lower() or "23" in text:  # "<" or "#"
        text = _HEX.sub(_bytes, text)
    return text


def _character(found: re.Match[str]) -> str:
    kind = str(found.lastgroup)
    given = found[kind]
    if kind == "itself":
        return given
    if kind == "white":
        return _WHITE[given.lower()]
    if kind == "name":
        return html5.get(given, html5.get(given.lower(), found[0]))
    code = int(given, 10 if kind == "decimal" else 16)
    return chr(code) if code < 0x110000 else found[0]


def _bytes(found: re.Match[str]) -> str:
    """Return what a run of base64 or hexadecimal digits holds, or the run where that is no plain text."""
    run = re.sub(r"[\s:,]+", "", found[0])
    for decoded in _decodings(run):
        if decoded.strip() and "".join(decoded.split()).isprintable():
            return f" {decoded} "
    return found[0]


def _decodings(run: str) -> Iterator[str]:
    """Yield a run's decodings: hexadecimal, and base64 that starts with any of its first four letters."""
    if re.fullmatch(r"[0-9A-Fa-f]+", run):
        yield bytes.fromhex(run[: len(run) // 2 * 2]).decode("latin-1")
    digits = run.replace("-", "+").replace("_", "/")
    for start in range(4):
        part = digits[start : len(digits) - ((len(digits) - start) % 4 == 1)]
        try:
            yield base64.b64decode(part + "=" * (-len(part) % 4)).decode("utf-8")
        except ValueError:  # neither base64 nor text
            continue
