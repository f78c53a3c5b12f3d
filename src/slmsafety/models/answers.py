"""Answers of an OpenAI-compatible server: a completion, or a failure with its reason in one word."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError

# What servers call the end of a reply. Anything else (an aborted request, a tool call) is no reply to a prompt.
_FINISHED = {"stop": "stop", "eos": "stop", "eos_token": "stop", "stop_sequence": "stop", "length": "length"}
_TOO_LONG = re.compile(r"context.?(length|size|window)|tokens? \+ .?max_new_tokens")
_BLOCKED = re.compile(r"content.?(filter|policy|management)|responsible.?ai")


class Completion(NamedTuple):
    """A finished reply. Token counts, the served model and the system's fingerprint are the server's own, or None.

    `reasoned` tells that the server has taken reasoning out of the text.
    """

    text: str
    finish_reason: str
    input_tokens: int | None
    output_tokens: int | None
    model: str | None
    fingerprint: str | None
    attempts: int
    reasoned: bool = False


class Failure(NamedTuple):
    """A request that ended without a reply: timeout, connection, rate_limit, malformed, blocked, prompt_too_long,
    http_STATUS, or finish_REASON. `attempts` counts its calls, which a server may bill, `said` is the server's own
    sentence."""

    reason: str
    attempts: int
    said: str | None = None


class Again(NamedTuple):
    """An answer that is worth another attempt, after `wait` seconds where the server names them."""

    reason: str
    said: str | None = None
    wait: float | None = None


class Halt(NamedTuple):
    """An answer that every other request would get too."""

    reason: str
    said: str | None = None


class Malformed(Exception):
    """A body that is no completion."""


def read(text: str, attempts: int) -> Completion | Failure:
    """Return the completion in a body; raise Malformed when there is none."""
    try:
        data = json.loads(text)
        choice = data["choices"][0]
        reply = choice["text"] if "text" in choice else choice["message"].get("content")
        message = choice.get("message")
        reasoned = isinstance(message, dict) and any(message.get(name) for name in ("reasoning_content", "reasoning"))
        finish, usage = choice["finish_reason"], data.get("usage") or {}
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        names = [data.get(name) for name in ("model", "system_fingerprint")]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Malformed from error
    texts_fit = all(isinstance(text, str | None) for text in (reply, finish, *names))
    if not texts_fit or not all(isinstance(count, int | None) for count in counts):
        raise Malformed
    if finish is None:
        if not reply:
            raise Malformed
        return Failure("finish_none", attempts)  # billed text; to ask again would most likely give the same
    if finish not in _FINISHED:
        return Failure("blocked" if finish == "content_filter" else _word(f"finish_{finish}"), attempts)
    # Half of a surrogate pair, which no table can hold, becomes the replacement character.
    whole = (reply or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return Completion(whole, _FINISHED[finish], counts[0], counts[1], names[0], names[1], attempts, reasoned)


def reason(error: APIError) -> str:
    """Return why a call failed, in a word; the server's own words are left out, since they may repeat prompt or key."""
    if isinstance(error, APITimeoutError):
        return "timeout"
    if isinstance(error, APIConnectionError):
        return "connection"
    if not isinstance(error, APIStatusError):
        return "malformed"
    said = f"{error.message} {error.body}".lower()
    if error.status_code in (400, 413, 422) and _TOO_LONG.search(said):
        return "prompt_too_long"
    if error.status_code in (400, 403) and _BLOCKED.search(said):
        return "blocked"
    return "rate_limit" if error.status_code == 429 else f"http_{error.status_code}"


def _word(text: str) -> str:
    """Return a server's word as one that can stand in a table."""
    return re.sub(r"\W", "_", text)[:40]
