"""What a server says of an error: its codes and sentences, wherever its form has them, and what may be kept of them.

Forms are OpenAI's, Azure's (`innererror`), Gemini's (a list, `details`), OpenRouter's (`metadata`, another server's
answer in `raw`), FastAPI's (`detail`), vLLM's older one, a text, and a page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from slmsafety.errors import visible
from slmsafety.models.json_bodies import decoded, parse, whole

# Keys that hold a code, a sentence, the parameter at fault, and more of the same.
_CODES = (
    "code",
    "type",
    "status",
    "error_type",
    "error_code",
    "errorcode",
    "reason",
    "reasons",
    "block_reason",
    "status_code",
)
_SENTENCES = ("message", "msg", "error_message", "error_description", "status_msg", "title")
_PARAMETERS = ("param", "parameter", "loc")
_INSIDE = ("error", "errors", "detail", "details", "innererror", "inner_error", "metadata", "raw", "provider_error")
# Characters of a body that is no JSON, and of all sentences together, that are looked at.
_LOOKED_AT = 20_000
_MOST = 2_000
_DEEPEST = 8
_PAGE = re.compile(r"<(?:!doctype|html|head|title|body)\b", re.IGNORECASE)

# Characters of the server's words that are kept, and of a prompt that may not stand in them in one piece.
_KEPT = 200
_LONGEST_CODE = 80
_ECHO = 24
_SHORTEST_SECRET = 8
_SECRETS = re.compile(
    r"\b(?:sk|pk|rk|xai|pplx|nvapi|glpat)-[\w*.-]+"
    r"|\b[Bb](?:earer|asic)\s+[\w.~+/=*-]+"
    r"|(?<=://)[^\s/@]+@"
    r"|(?<=[?&])(?:sig|signature|key|api[_-]?key|token|access_token)=[^&\s]+"
    r"|\bAIza[\w-]+|\beyJ[\w-]+(?:\.[\w-]+)*"
    r"|\b(?=[A-Za-z_]*\d)(?=[\d_]*[A-Za-z])\w{20,}"
)


class Told(NamedTuple):
    """What a server says of an error: codes, sentences, the parameter at fault, a status, seconds to wait.

    `page` tells that it is a page in HTML, as gateways and firewalls send them.
    """

    codes: tuple[str, ...] = ()
    sentence: str = ""
    parameter: str = ""
    status: int | None = None
    wait: float | None = None
    page: bool = False


def told(body: bytes, hidden: tuple[str, ...] = ()) -> Told:
    """Return what a body says of an error, without texts that it must not repeat."""
    data = parse(body)
    if not isinstance(data, dict | list):
        text = data if isinstance(data, str) else decoded(body[:_LOOKED_AT]).strip()
        page = bool(_PAGE.search(text))
        return Told(sentence=conceal(_title(text) if page else text, hidden), page=page)
    return of_error(data, hidden)


def of_error(data: Any, hidden: tuple[str, ...] = ()) -> Told:
    """Return what an error in JSON says."""
    found = list(_walk(data, _DEEPEST))
    codes = [value for kind, value in found if kind == "code"]
    sentences = dict.fromkeys(str(value).strip() for kind, value in found if kind == "sentence")
    statuses = [int(code) for code in map(str, codes) if re.fullmatch(r"[45]\d\d", code)]
    waits = [_seconds(value) for kind, value in found if kind == "wait"]
    return Told(
        tuple(dict.fromkeys(conceal(code.strip(), hidden) for code in codes if isinstance(code, str))),
        conceal("; ".join(filter(None, sentences)), hidden),
        next((str(value) for kind, value in found if kind == "parameter" and value), ""),
        statuses[0] if statuses else None,
        next((seconds for seconds in waits if seconds is not None), None),
    )


def kept(codes: tuple[str, ...], sentence: str) -> str | None:
    """Return what a row keeps of a server's words: its first code and its sentence, shortened; None where it has none.

    A code that is a number says no more than the status.
    """
    code = next((code for code in codes if re.search(r"[A-Za-z]", code)), "")
    said = ": ".join(filter(None, (code[:_LONGEST_CODE], sentence)))
    said = visible(" ".join(whole(said).split()))
    return (said if len(said) <= _KEPT else f"{said[: _KEPT - 3]}...") or None


def word(text: str) -> str:
    """Return a server's word as one that can stand in a table: 40 letters, digits and _ at most."""
    return re.sub(r"\W", "_", text)[:40]


def conceal(text: str, hidden: tuple[str, ...]) -> str:
    """Return a server's sentence without keys, and without pieces of texts that it must not repeat.

    A hidden text is left out where it stands whole if it is one word, as a key is, and else in pieces of 24 characters:
    the words of a short prompt may be the server's own, which say what went wrong.
    """
    text = text[:_MOST]
    for secret in hidden:
        if len(secret) >= _SHORTEST_SECRET and not re.search(r"\s", secret):
            text = text.replace(secret, "...")
        text = _without_echo(text, secret)
    return _SECRETS.sub("...", text)


def _without_echo(text: str, asked: str) -> str:
    """Return a text without pieces of _ECHO characters or more that stand in what was asked."""
    inside = [text[at : at + _ECHO] in asked for at in range(len(text) - _ECHO + 1)]
    if not any(inside):
        return text
    out, at = [], 0
    while at < len(text):
        if at < len(inside) and inside[at]:
            while at < len(inside) and inside[at]:
                at += 1
            at += _ECHO - 1
            out.append("...")
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def _walk(data: Any, deepest: int) -> Iterator[tuple[str, Any]]:
    """Yield (kind, value) of what an error says, the outermost first."""
    if deepest == 0:
        return
    if isinstance(data, list):
        for each in data[:20]:
            yield from _walk(each, deepest - 1)
    elif isinstance(data, str):
        inner = parse(data.encode("utf-8", "replace")) if data.lstrip()[:1] in ("{", "[") else None
        yield from _walk(inner, deepest - 1) if isinstance(inner, dict | list) else [("sentence", data)]
    elif isinstance(data, dict):
        keys = {key.lower(): value for key, value in data.items()}
        for key in _CODES:
            for value in keys[key] if isinstance(keys.get(key), list) else [keys.get(key)]:
                if isinstance(value, str | int):
                    yield "code", value
        for key in _SENTENCES:  # Mistral's message may be an object
            if isinstance(keys.get(key), str | list | dict):
                yield from _walk(keys[key], deepest - 1)
        for key in _PARAMETERS:
            value = keys.get(key)
            if isinstance(value, str | list):
                yield "parameter", value if isinstance(value, str) else _place(value)
        if isinstance(keys.get("retrydelay"), str):
            yield "wait", keys["retrydelay"]
        for key in _INSIDE:
            yield from _walk(keys.get(key), deepest - 1)


def _place(parts: list[Any]) -> str:
    """Return the key that a place in a request is about: of ["body", "temperature"] the second."""
    return next((part for part in parts if isinstance(part, str) and part != "body"), "")


def _seconds(text: str) -> float | None:
    """Return the seconds of a duration such as "17.5s"."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,9})?)s", text)
    return float(found[1]) if found else None


def _title(page: str) -> str:
    """Return the title of a page in HTML; its text where it has none."""
    title = re.search(r"<title[^<>]*>([^<]*)", page, re.IGNORECASE)
    return html.unescape(title[1] if title else re.sub(r"<[^<>]*>", " ", page)).strip()
