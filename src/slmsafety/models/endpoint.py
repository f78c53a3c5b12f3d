"""A server with an OpenAI-compatible API, its limits and its key."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from slmsafety.errors import InputError

NO_KEY = "none"
"""What a server without keys gets as its key, as clients of such servers do."""
TIMEOUT, RETRIES = 600.0, 5
"""The longest time of an attempt in seconds, and how often a request is sent again, where nothing else is asked for."""


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server and its limits.

    Parameters
    ----------
    base_url : str
        Such as http://localhost:8000/v1, without user, password or query.
    model : str
        The model's name on the server.
    api_key_env : str or None, default None
        The environment variable that holds the key; None for a server without keys.
    concurrency : int, default 16
        The most calls open at once.
    requests_per_minute, tokens_per_minute : float or None, default None
        Rate limits, retries included; None for no limit. All calls of a process to the same model share them.
    timeout : float, default 600
        The longest time of one attempt in seconds, from its sending to the last byte of its answer.
    retries : int, default 5
        How many times a request is sent again after its first attempt.
    """

    base_url: str
    model: str
    api_key_env: str | None = None
    concurrency: int = 16
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout: float = TIMEOUT
    retries: int = RETRIES

    def __post_init__(self) -> None:
        """Refuse a base URL that is none, or that holds a secret, which would be recorded with every reply, and a key
        where the name of its variable belongs. No message repeats them."""
        if "@" in self.base_url or "?" in self.base_url or "#" in self.base_url:
            raise InputError("the base URL of an endpoint must hold no user, password or query; use api_key_env")
        if not _is_url(self.base_url):
            raise InputError("the base URL of an endpoint must look like http://HOST:PORT/v1")
        if self.api_key_env is not None and not _names_a_variable(self.api_key_env):
            raise InputError(
                "api_key_env is no name of an environment variable, such as OPENAI_API_KEY (no key itself)"
            )

    @property
    def host(self) -> str:
        """The server as messages name it, such as localhost:8000."""
        return urlsplit(self.base_url).netloc.rpartition("@")[2]


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        named = parts.hostname and parts.port != 0  # reading a port that is none raises
    except ValueError:
        return False
    return bool(named) and parts.scheme in ("http", "https") and text.isascii() and not re.search(r"[^!-~]", text)


def _names_a_variable(text: str) -> bool:
    """Whether a text is a variable's name and not a key: no word of a name is 16 characters with digits among them."""
    return bool(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text)) and not any(
        len(word) >= 16 and re.search(r"\d", word) for word in text.split("_")
    )


def api_key(endpoint: Endpoint) -> str:
    """Return the key of a server, or `NO_KEY`; InputError where its variable is not set or holds what can be no key."""
    if endpoint.api_key_env is None:
        return NO_KEY
    key = os.environ.get(endpoint.api_key_env, "").strip()
    if not key:
        raise InputError(
            f"the environment variable {endpoint.api_key_env} is not set; it holds the key of {endpoint.host}"
        )
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"the environment variable {endpoint.api_key_env} holds characters that no key has")
    return key
