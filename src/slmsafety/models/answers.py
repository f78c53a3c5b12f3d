"""Answers of an OpenAI-compatible server: a completion, or a failure with its reason in one word."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from slmsafety.models.answer_types import Again, Completion, Failure, Halt, Halted

__all__ = ["Again", "Completion", "Failure", "Halt", "Halted", "read"]

# What servers call the end of a reply. Anything else (an aborted request, a tool call) is no reply to a prompt.
_FINISHED = {"stop": "stop", "eos": "stop", "eos_token": "stop", "stop_sequence": "stop", "length": "length"}
_TOO_LONG = re.compile(r"context.?(length|size|window)|tokens? \+ .?max_new_tokens")
_BLOCKED = re.compile(r"content.?(filter|policy|management)|responsible.?ai")
_HALTS = {401: "wrong_key", 402: "no_credit", 404: "unknown_model"}


def read(
    status: int, headers: Mapping[str, str], body: bytes, attempts: int, hidden: tuple[str, ...] = ()
) -> Completion | Failure | Again | Halt:
    """Return what an answer over HTTP means; never raises, whatever the bytes.

    `hidden` are texts that `said` must not repeat: the key, and what was asked.
    """
    if status == 200:
        return _completion(body, attempts)
    text = body.decode("utf-8", "replace").lower()
    if status in (400, 413, 422) and _TOO_LONG.search(text):
        return Failure("prompt_too_long", attempts)
    if status in (400, 403) and _BLOCKED.search(text):
        return Failure("blocked", attempts)
    if status in _HALTS or (status == 429 and "insufficient_quota" in text):
        return Halt(_HALTS.get(status, "no_credit"))
    if status in (408, 409, 425, 429) or status >= 500:
        return Again("rate_limit" if status == 429 else f"http_{status}")
    return Failure(f"http_{status}", attempts)


def _completion(body: bytes, attempts: int) -> Completion | Failure | Again:
    try:
        data = json.loads(body)
        choice = data["choices"][0]
        reply = choice["text"] if "text" in choice else choice["message"].get("content")
        message: Any = choice.get("message")
        names = ("reasoning_content", "reasoning")
        reasoning = next((message[name] for name in names if message.get(name)), None) if message else None
        finish, usage = choice["finish_reason"], data.get("usage") or {}
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        served = [data.get(name) for name in ("model", "system_fingerprint")]
    except (ValueError, LookupError, TypeError, AttributeError):
        return Again("malformed")
    texts_fit = all(isinstance(text, str | None) for text in (reply, finish, *served))
    if not texts_fit or not all(isinstance(count, int | None) for count in counts):
        return Again("malformed")
    if finish is None:
        # Billed text; to ask again would most likely give the same.
        return Failure("finish_none", attempts) if reply else Again("malformed")
    if finish not in _FINISHED:
        return Failure("blocked" if finish == "content_filter" else _word(f"finish_{finish}"), attempts)
    # Half of a surrogate pair, which no table can hold, becomes the replacement character.
    whole = (reply or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return Completion(whole, _FINISHED[finish], counts[0], counts[1], *served, attempts, reasoning)


def _word(text: str) -> str:
    """Return a server's word as one that can stand in a table."""
    return re.sub(r"\W", "_", text)[:40]
