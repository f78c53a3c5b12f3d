"""The attempts of a request, until one of them is its end: a completion or a failure."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from slmsafety.errors import InputError
from slmsafety.models.answers import Again, Completion, Failure, Halt, Halted, read
from slmsafety.models.connection import Heard, Unheard
from slmsafety.models.endpoint import NO_KEY, Endpoint, api_key
from slmsafety.models.pace import Turns
from slmsafety.models.posts import Posts

# Seconds: a server that names a longer wait ends the run; the first wait without a word, which doubles; its most.
_LONGEST_WAIT, _FIRST_WAIT, _MOST_WAIT = 120.0, 0.5, 8.0
# Characters a token, as rate limits count.
_CHARACTERS = 4


class Request(NamedTuple):
    """A key of the caller's, and the body of the request without the model: `messages` or `prompt`, and the rest.

    With `messages` it is a chat completion, with `prompt` a plain one.
    """

    key: Hashable
    body: dict[str, Any]


class Toll(Protocol):
    """Who pays for attempts. Its methods are called in the thread of the calls, one at a time."""

    def attempt(self, key: Hashable) -> bool:
        """Return whether an attempt may be sent; called before each one, the first too.

        Where it may not, the call ends as Failure("no_budget", attempts so far).
        """
        ...

    def ended(self, key: Hashable, heard: Completion | Failure | Again | Halt | None) -> None:
        """Take what an attempt has heard; called after each one, before its answer is used.

        None: nothing was heard (a time-out, a cut connection, a cancelled call), so that it may have been billed.
        Again("unsent"): no connection was made, so that it was not.
        """
        ...


class Attempts:
    """Sends requests to a server, each as often as it takes."""

    def __init__(self, endpoint: Endpoint, toll: Toll | None) -> None:
        """Take the server; InputError where its key or its proxy is of no use."""
        key = api_key(endpoint)
        self._endpoint, self._toll = endpoint, toll
        self._secrets = () if key == NO_KEY else (key,)
        self._turns, self._posts = Turns(endpoint), Posts(endpoint, key)

    async def close(self) -> None:
        """Close all connections."""
        await self._posts.close()

    async def answer(self, request: Request) -> Completion | Failure:
        """Return how a request ended; raises Halted where the next one would end alike, and InputError where the server
        asks for a wait that is too long."""
        call = _Call(request, self._endpoint.model)
        spare = 1  # one more attempt for a connection that the server had left
        while True:
            await self._turns.turn(call.tokens)
            if self._toll is not None and not self._toll.attempt(request.key):
                return Failure("no_budget", call.attempts)
            call.attempts += 1
            try:
                heard = await self._paid(call)
            except Unheard as unheard:
                if unheard.stale and spare:
                    spare = 0
                    continue
                heard = Again(unheard.reason, unheard.said)
                if unheard.reason == "body_too_large":
                    return Failure(unheard.reason, call.attempts)
            if isinstance(heard, Halt):
                raise Halted(heard, self._endpoint.host, self._endpoint.model, self._endpoint.api_key_env)
            if not isinstance(heard, Again):
                return heard
            if heard.wait is not None and heard.wait > _LONGEST_WAIT:
                raise self._too_long(heard, heard.wait)
            if call.attempts > self._endpoint.retries + 1 - spare:
                return Failure(heard.reason, call.attempts, heard.said)
            await asyncio.sleep(_wait(heard, call.attempts))

    def _too_long(self, heard: Again, wait: float) -> InputError:
        why = f"{heard.reason}: {heard.said}" if heard.said else heard.reason
        host = self._endpoint.host
        return InputError(f"{host} asks to wait {wait:,.0f} seconds ({why}); what is left is for a later run")

    async def _paid(self, call: _Call) -> Completion | Failure | Again | Halt:
        """Make one attempt, and tell how it ended before its answer is used; raises Unheard."""
        heard: Completion | Failure | Again | Halt | None = None
        try:
            heard = self._read(call, await self._posts.send(call.path, call.data))
        except Unheard as unheard:
            heard = Again("unsent") if unheard.unsent else None
            raise
        finally:
            if self._toll is not None:
                self._toll.ended(call.key, heard)
        return heard

    def _read(self, call: _Call, heard: Heard) -> Completion | Failure | Again | Halt:
        if 300 <= heard.status < 400:
            return Failure("redirect", call.attempts, _target(heard.headers.get("location", "")))
        answer = read(heard.status, heard.headers, heard.body, call.attempts, (*self._secrets, *call.texts))
        if isinstance(answer, Completion):
            took = (answer.input_tokens or 0) + (answer.output_tokens or 0)
            # No text has more tokens than bytes; a count above that is no count.
            self._turns.correct(call.tokens, min(took, len(call.data) + len(heard.body) + call.tokens))
        elif isinstance(answer, Again) and answer.reason == "rate_limit" and 0 < (answer.wait or 0) <= _LONGEST_WAIT:
            self._turns.hold(answer.wait or 0)
        return answer


class _Call:
    """A request on its way: its bytes, how often it was sent, and the tokens that it may cost.

    Tokens are estimated as rate limits do: a quarter of the characters, and all that may be written.
    """

    def __init__(self, request: Request, model: str) -> None:
        self.key, self.attempts = request.key, 0
        self.path = "chat/completions" if "messages" in request.body else "completions"
        self.data = json.dumps({**request.body, "model": model}).encode()
        self.texts = tuple(_texts(request.body))
        most = request.body.get("max_tokens") or request.body.get("max_completion_tokens") or 0
        asked = request.body.get("messages") or request.body.get("prompt")
        self.tokens = len(str(asked)) // _CHARACTERS + int(most)


def _texts(body: dict[str, Any]) -> Iterator[str]:
    """The texts of a request."""
    if "prompt" in body:
        yield body["prompt"]
    for message in body.get("messages", ()):
        yield message["content"]


def _wait(heard: Again, attempts: int) -> float:
    """Return the seconds to the next attempt: the server's, else twice as long each time, less up to a quarter."""
    if heard.wait is not None and heard.wait > 0:
        return heard.wait
    return float(min(_FIRST_WAIT * 2 ** (attempts - 1), _MOST_WAIT)) * (1 - 0.25 * random.random())


def _target(location: str) -> str:
    """Return where a redirect leads, without what may be secret in it."""
    try:
        parts = urlsplit(location)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "redirects to no address"
    shown = "".join(character for character in f"{parts.scheme}://{host}{parts.path}" if character.isprintable())
    return f"redirects to {shown[:120]}" if host else f"redirects to {parts.path[:120]!a}"
