"""Calls to an OpenAI-compatible server: many at once, within limits, each ending as a completion or a counted failure.

The calls run on an event loop in a thread of their own, so that `complete` is a plain generator in a script and in a
notebook alike. Retries with back-off and Retry-After are the openai package's.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from threading import Thread
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

from slmsafety.errors import InputError
from slmsafety.models.answers import Again, Completion, Failure, Halt, Halted, read

# The openai package waits no longer than this for a Retry-After; a server that names more is not asked again.
_LONGEST_WAIT = 120.0
# Seconds within which a server must take a connection.
_CONNECT = 10.0
# Failures that belong to one request and say nothing about the server.
_OF_THE_REQUEST = ("blocked", "prompt_too_long")
# Failures in which nothing came from the server.
_UNHEARD = ("connection", "timeout")


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
        Rate limits, retries included; None for no limit.
    timeout : float, default 600
        The longest silence of one attempt, in seconds.
    retries : int, default 5
        How many times a request is sent again after its first attempt.
    """

    base_url: str
    model: str
    api_key_env: str | None = None
    concurrency: int = 16
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout: float = 600.0
    retries: int = 5

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


class Request(NamedTuple):
    """A key of the caller's, and the body of the request without the model: `messages` or `prompt`, and the rest.

    With `messages` it is a chat completion, with `prompt` a plain one.
    """

    key: Hashable
    body: dict[str, Any]


Answer = tuple[Any, Completion | Failure]


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


def complete(
    endpoint: Endpoint, requests: Iterable[Request | None], toll: Toll | None = None
) -> Iterator[list[Answer]]:
    """Send requests, many at once, and yield how each ended.

    Parameters
    ----------
    endpoint : Endpoint
        The server and its limits.
    requests : iterable of Request or None
        Pulled one by one, in the caller's thread, at most `endpoint.concurrency` ahead of those that are sent. None says
        that nothing may be sent now: it is asked again when a call has ended, and not again when none is open.
    toll : Toll or None, default None
        Who pays for attempts.

    Yields
    ------
    list of (key, Completion or Failure)
        What has ended since the last list, in the order in which it ended; each request once.

    Raises
    ------
    InputError
        When the server refuses the key, does not know the model, has no credit left, or never answers. On this and on
        Ctrl-C the answers so far are yielded first, and open calls are cancelled.
    """
    failures = _FailureCounter(endpoint)
    pending = iter(requests)
    running: dict[Future[Completion | Failure], Hashable] = {}
    answers: list[Answer] = []
    stop: BaseException | None = None
    with _calls(endpoint) as call:
        while stop is None:
            try:
                # New calls start before the answers go out: the server works while the caller does.
                for request in islice(pending, endpoint.concurrency - len(running)):
                    running[call(request.body)] = request.key
                ended, answers = answers, []
                if ended:
                    yield ended
                if not running:
                    break
                wait(running, return_when=FIRST_COMPLETED)
            except (KeyboardInterrupt, InputError) as caught:
                stop = caught
            for future in [future for future in running if future.done()]:
                key, error = running.pop(future), future.exception()
                if error is None:
                    answers.append((key, future.result()))
                    error = failures.count(future.result())
                stop = stop or error
        if answers:
            yield answers
        stop = stop or failures.silent()
        if stop is not None:
            raise stop


class _FailureCounter:
    """Counts consecutive failures: before the first reply every failure, afterwards connection errors alone."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Start without a reply."""
        self._host, self._limit = endpoint.host, max(20, 2 * endpoint.concurrency)
        self._answered, self._failed, self._last = False, 0, ""

    def count(self, answer: Completion | Failure) -> InputError | None:
        """Count how a call ended; return the error that ends the run once too many calls in a row have failed."""
        if not isinstance(answer, Failure) or answer.reason in _OF_THE_REQUEST:
            self._answered, self._failed = True, 0
        elif self._answered and answer.reason != "connection":
            self._failed = 0
        else:
            self._failed, self._last = self._failed + 1, answer.reason
            if self._failed >= self._limit:
                return InputError(
                    f"{self._host}: {self._failed} calls in a row failed, the last one by {answer.reason}"
                )
        return None

    def silent(self) -> InputError | None:
        """Return the error of a run in which nothing came from the server."""
        if self._answered or self._last not in _UNHEARD:
            return None
        return InputError(f"{self._host} answered none of {self._failed} calls, the last one ended by {self._last}")


class _Call:
    """One request on its way: how many tokens it may cost and how often it was sent."""

    def __init__(self, body: dict[str, Any]) -> None:
        """Estimate the tokens as rate limits do: a quarter of the characters, and all that may be written."""
        self.tokens = len(str(body.get("messages") or body.get("prompt"))) // 4 + int(body.get("max_tokens") or 0)
        self.attempts = 0


_CALL: ContextVar[_Call] = ContextVar("_CALL")


class _Pace:
    """Spaces the calls evenly, so that no limit is passed, and holds them all back when the server asks for it."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Start at once."""
        self._per_request = 60 / endpoint.requests_per_minute if endpoint.requests_per_minute else 0.0
        self._per_token = 60 / endpoint.tokens_per_minute if endpoint.tokens_per_minute else 0.0
        self._next = self._held = 0.0

    async def before(self, _: Any) -> None:
        """Wait for the call's turn and count it; runs before each attempt, retries included."""
        call = _CALL.get()
        turn = max(self._next, time.monotonic())
        self._next = turn + max(self._per_request, call.tokens * self._per_token)
        while (left := max(turn, self._held) - time.monotonic()) > 0:
            await asyncio.sleep(left)
        call.attempts += 1

    async def after(self, response: Any) -> None:
        """Hold all calls back for the seconds that a rate limit names."""
        if response.status_code == 429:
            with suppress(ValueError):  # no such header, or a date, which only the call itself waits for
                seconds = float(response.headers.get("retry-after", ""))
                self._held = max(self._held, time.monotonic() + min(seconds, _LONGEST_WAIT))


@contextmanager
def _calls(endpoint: Endpoint) -> Iterator[Any]:
    """Give a function that starts a call and returns its future; what still runs at the end is cancelled."""
    key, pace = api_key(endpoint), _Pace(endpoint)
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name=f"calls to {endpoint.host}", daemon=True)
    thread.start()
    client = AsyncOpenAI(
        base_url=endpoint.base_url,
        api_key=key,
        timeout=Timeout(endpoint.timeout, connect=min(_CONNECT, endpoint.timeout)),
        max_retries=endpoint.retries,
        http_client=DefaultAsyncHttpxClient(event_hooks={"request": [pace.before], "response": [pace.after]}),
    )

    async def close() -> None:
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await client.close()

    try:
        yield lambda body: asyncio.run_coroutine_threadsafe(_answer(client, endpoint, body), loop)
    finally:
        asyncio.run_coroutine_threadsafe(close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def api_key(endpoint: Endpoint) -> str:
    """Return the key; a server without one gets a word, since the package would else send OPENAI_API_KEY to it."""
    if endpoint.api_key_env is None:
        return "none"
    key = os.environ.get(endpoint.api_key_env, "").strip()
    if not key:
        raise InputError(
            f"the environment variable {endpoint.api_key_env} is not set; it holds the key of {endpoint.host}"
        )
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"the environment variable {endpoint.api_key_env} holds characters that no key has")
    return key


async def _answer(client: AsyncOpenAI, endpoint: Endpoint, body: dict[str, Any]) -> Completion | Failure:
    """Return how a request ended. A reply that cannot be read is asked for again, within the same retries."""
    call = _Call(body)
    _CALL.set(call)
    while True:
        left = client.with_options(max_retries=endpoint.retries - call.attempts) if call.attempts else client
        asked = "messages" if "messages" in body else "prompt"
        create = left.chat.completions if asked == "messages" else left.completions
        # What is asked is an argument; the rest goes as it is, since servers have keys that the package does not.
        rest = {key: value for key, value in body.items() if key != asked}
        try:
            raw = await create.with_raw_response.create(model=endpoint.model, **{asked: body[asked]}, extra_body=rest)
            response = raw.http_response
        except APIStatusError as error:
            response = error.response
        except APIConnectionError as error:
            return Failure("timeout" if isinstance(error, APITimeoutError) else "connection", call.attempts)
        hidden = (client.api_key, *_asked(body))
        answer = read(response.status_code, response.headers, response.content, call.attempts, hidden)
        if isinstance(answer, Halt):
            raise Halted(answer, endpoint.host, endpoint.model, endpoint.api_key_env)
        if not isinstance(answer, Again):
            return answer
        # The package has sent again what it does; a reply that cannot be read is sent again here.
        if response.status_code != 200 or call.attempts > endpoint.retries:
            return Failure(answer.reason, call.attempts, answer.said)
        await asyncio.sleep(0.5)


def _asked(body: dict[str, Any]) -> Iterator[str]:
    """The texts of a request."""
    if "prompt" in body:
        yield body["prompt"]
    for message in body.get("messages", ()):
        yield message["content"]
