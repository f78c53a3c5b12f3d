"""How a call to a server can end: a completion, a failure of the request, another attempt, or the end of the run."""

from __future__ import annotations

from typing import NamedTuple

from slmsafety.errors import InputError


class Completion(NamedTuple):
    """A finished reply. Token counts, the served model and the system's fingerprint are the server's own, or None.

    Attributes
    ----------
    text : str
        The reply without its reasoning; the words of a refusal where there is one.
    finish_reason : str
        `stop` or `length`, whatever the server calls them.
    input_tokens, output_tokens : int or None
        Tokens, 0 or more; None where the server gives no count, or one that can be none.
    model, fingerprint : str or None
        The model that answered, and the system's fingerprint.
    attempts : int
        The calls that it took.
    reasoning : str or None
        What the model wrote before its reply, kept apart from it; "" where it reasoned and the server does not show
        it, None where it did not.
    refusal : bool
        Whether the server says that the model refused.
    cached_tokens : int or None
        Tokens of the prompt that the server read from a cache; some servers leave them out of `input_tokens`.
    """

    text: str
    finish_reason: str
    input_tokens: int | None
    output_tokens: int | None
    model: str | None
    fingerprint: str | None
    attempts: int
    reasoning: str | None = None
    refusal: bool = False
    cached_tokens: int | None = None


class Failure(NamedTuple):
    """A request that ended without a reply: blocked, prompt_too_long, http_STATUS, finish_REASON; or, after the last
    attempt, what an `Again` says, timeout and connection.

    `attempts` counts its calls, which a server may bill. `said` is the server's own code and sentence, shortened, with
    nothing of a key or of what was asked.
    """

    reason: str
    attempts: int
    said: str | None = None


class Again(NamedTuple):
    """An answer after which another attempt may do better: rate_limit, http_STATUS, finish_REASON, malformed.

    `wait` are the seconds that the server asks to wait, 0 or more.
    """

    reason: str
    said: str | None = None
    wait: float | None = None


class Halt(NamedTuple):
    """An answer that every other request would get too: wrong_key, no_right, proxy, no_credit, unknown_model,
    wrong_address, refused_parameter."""

    reason: str
    said: str | None = None


class Halted(InputError):
    """The end of a run by a `Halt`, in one line: the host, what is wrong, and what the server said."""

    def __init__(self, halt: Halt, host: str, model: str, key: str | None) -> None:
        """Take the answer, the server's host, the model asked for, and the variable that holds the key."""
        self.halt = halt
        said = f"; the server said: {halt.said}" if halt.said else ""
        super().__init__(f"{host}: {_WRONG[halt.reason].format(model=model, key=_key(key))}{said}")


_WRONG = {
    "wrong_key": "does not take {key}",
    "no_right": "does not let {key} use the model '{model}'",
    "proxy": "a proxy on the way (HTTP_PROXY, ALL_PROXY) asks for a user and a password, or does not take those it has",
    "no_credit": "no credit is left for {key}",
    "unknown_model": "does not know the model '{model}', or the address",
    "wrong_address": "answers nothing at this address; the base URL should end where /chat/completions begins",
    "refused_parameter": "refuses what a request for the model '{model}' asks for",
}
HALTS = tuple(_WRONG)
"""The reasons of a `Halt`."""


def _key(variable: str | None) -> str:
    return f"the key in {variable}" if variable else "a call without a key (name its variable as api_key_env)"
