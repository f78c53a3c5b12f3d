"""Faults that a server can have, as the bytes that it sends: statuses, bodies, blocks, cut and endless answers."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterable
from email.utils import formatdate
from typing import Any, NamedTuple

CLOSE, RESET = "close", "reset"
"""What a server does with a connection, beside sending bytes and being silent for so many seconds."""
Step = bytes | float | str
OWN = "answer"
"""The end of a request whose fault goes away, or is none after all: its own answer."""


class Kind(NamedTuple):
    """A fault: what is sent instead of an answer (its body is given), how the request must end, and who pays.

    `ends` are the reasons that it may end by. Where one of them is `OWN`, the fault is met at the first attempt only.
    """

    name: str
    steps: Callable[[bytes], Iterable[Step]]
    ends: tuple[str, ...] = (OWN,)
    billed: bool = False


def http(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """An answer as bytes; a header of "" is left out."""
    head = {"content_type": "application/json", "content_length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in head.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def completion(text: Any, **changed: Any) -> bytes:
    """The body of a chat completion."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}
    return json.dumps({"id": "c", "model": "tiny", "choices": [choice], "usage": usage, **changed}).encode()


def _status(name: str, status: str, body: bytes | None = None, **headers: str) -> Kind:
    sent = json.dumps({"error": {"message": f"injected {status}"}}).encode() if body is None else body
    return Kind(name, lambda _: [http(sent, status, **headers)])


def _refusal(name: str, status: str, ends: str, **error: Any) -> Kind:
    return Kind(name, lambda _: [http(json.dumps({"error": error}).encode(), status)], (ends,))


def _body(name: str, body: bytes, *ends: str, **headers: str) -> Kind:
    return Kind(name, lambda _: [http(body, **headers)], ends or (OWN,), billed=True)


def _changed(name: str, change: Callable[[dict[str, Any]], None]) -> Kind:
    """An answer that is odd, but one."""

    def steps(body: bytes) -> list[Step]:
        data = json.loads(body)
        change(data)
        return [http(json.dumps(data).encode())]

    return Kind(name, steps, billed=True)


def _raw(name: str, steps: Callable[[bytes], Iterable[Step]], *ends: str) -> Kind:
    return Kind(name, steps, ends or (OWN,), billed=True)


_HTML = b"<html><body>Bad gateway</body></html>"
_CHUNKED = http(b"", content_length="", transfer_encoding="chunked")
_BOMB = gzip.compress(bytes(24 * 2**20), 1)
_DRIP: list[Step] = [step for _ in range(200) for step in (b"1\r\n \r\n", 0.1)]

STATUSES = [
    *(_status(each, f"{each} X") for each in ("408", "409", "425", "500", "504", "520", "529")),
    _status("500 empty", "500 X", b""),
    _status("502 html", "502 X", _HTML, content_type="text/html"),
    _status("503 in seconds", "503 X", retry_after="0.2"),
    _status("429 without a word", "429 X"),
    _status("429 in seconds", "429 X", retry_after="0.1"),
    _status("429 in milliseconds", "429 X", retry_after_ms="100"),
    _status("429 and nonsense", "429 X", retry_after="soon"),
    _status("429 in the past", "429 X", retry_after="-5"),
    Kind("429 with a date", lambda _: [http(b"{}", "429 X", retry_after=formatdate(time.time() + 1, usegmt=True))]),
]
BODIES = [
    _body("empty", b""),
    _body("html", _HTML, content_type="text/html"),
    _body("null", b"null"),
    _body("object", b"{}"),
    _body("list", b"[]"),
    _body("half", b'{"choices": [{"mess'),
    _body("words for choices", b'{"choices": ["no"]}'),
    _body("deep", b'{"choices": ' + b"[" * 100_000),
    _body("no utf-8", b'{"choices": "\xff\xfe\xff"}'),
    _body("no choices", b'{"choices": []}', OWN, "blocked", "malformed", "finish_none"),
    _body("no gzip", b"nothing packed", content_encoding="gzip"),
]
ODD = [
    Kind("byte order mark", lambda body: [http(b"\xef\xbb\xbf" + body)], billed=True),
    Kind("packed", lambda body: [http(gzip.compress(body), content_encoding="gzip")], billed=True),
    Kind("in chunks", lambda body: [_CHUNKED, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)], billed=True),
    Kind("go on first", lambda body: [b"HTTP/1.1 100 Continue\r\n\r\n", 0.01, http(body)], billed=True),
    Kind("closed afterwards", lambda body: [http(body), CLOSE], billed=True),
    Kind("until the end", lambda body: [http(body, content_length=""), CLOSE], billed=True),
    _changed("absurd counts", lambda data: data.update(usage={"prompt_tokens": 1e300, "completion_tokens": -7})),
    _changed("counts as words", lambda data: data.update(usage={"prompt_tokens": "many", "completion_tokens": None})),
    _changed("float counts", lambda data: data.update(usage={"prompt_tokens": 12.0, "completion_tokens": 4.0})),
    _changed("no usage", lambda data: data.update(usage=None)),
    _changed("loud finish", lambda data: data["choices"][0].update(finish_reason="STOP")),
]
CONNECTIONS = [
    _raw("closed before", lambda body: [CLOSE]),
    _raw("reset before", lambda body: [RESET]),
    _raw("cut in the head", lambda body: [http(body)[:30], CLOSE]),
    _raw("cut in the body", lambda body: [http(body)[:-20], CLOSE]),
    _raw("reset in the body", lambda body: [http(body)[:-20], 0.02, RESET]),
    _raw("cut in a chunk", lambda body: [_CHUNKED, b"ff\r\n" + body[:40], CLOSE]),
    _raw("a chunk of no length", lambda body: [_CHUNKED, b"zz\r\n" + body, CLOSE]),
    _raw("too long a length", lambda body: [http(body, content_length=str(len(body) + 9)), CLOSE]),
    _raw("too short a length", lambda body: [http(body, content_length=str(len(body) - 9))]),
    _raw("no http", lambda body: [b"\x00\x01\x02 nothing\r\n\r\n", CLOSE]),
    _raw("endless head", lambda body: [b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2**20, CLOSE]),
    _raw("silence", lambda body: [30.0]),
    _raw("silence in the body", lambda body: [http(body)[:-20], 30.0]),
    _raw("dripping body", lambda body: [_CHUNKED, *_DRIP]),
    _raw("dripping head", lambda body: [b"HTTP/1.1 200 OK\r\n", *[b"x: 1\r\n", 0.1] * 200]),
    _raw("huge", lambda body: [_CHUNKED, *[b"100000\r\n" + bytes(2**20) + b"\r\n"] * 20, CLOSE], "body_too_large"),
    _raw("bomb", lambda body: [http(_BOMB, content_encoding="gzip")], "body_too_large"),
]
ENDS = [
    Kind("redirect", lambda _: [http(b"", "307 X", location="http://127.0.0.1:9/v1")], ("redirect",)),
    _refusal("block, OpenAI", "400 X", "blocked", code="content_policy_violation", message="It was rejected."),
    _refusal("block, Azure", "400 X", "blocked", code="content_filter", message="The prompt triggered the filter."),
    _refusal("too long, OpenAI", "400 X", "prompt_too_long", code="context_length_exceeded", message="Too long."),
    _refusal(
        *("too long, vLLM", "400 X", "prompt_too_long"), message="This model's maximum context length is 8 tokens."
    ),
    _refusal("too long, llama.cpp", "400 X", "prompt_too_long", type="exceed_context_size_error", message="No."),
    _refusal("not understood", "422 X", "http_422", message="The request could not be taken."),
]
KINDS = [*STATUSES, *BODIES, *ODD, *CONNECTIONS, *ENDS]
