from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import count, islice

import pytest
from servers import CUT, HANG, Fault, Server, completion, failing, running

from slmsafety.errors import InputError
from slmsafety.models.answers import Completion, Failure
from slmsafety.models.client import Endpoint, Request, complete

SECRET = "sk-very-secret-4711"
NOW = {"retry_after": "0.02"}  # so that a retry does not wait for the back-off
MALFORMED, EMPTY = (200, {}, b'{"choices": [{"mess'), (200, {}, b'{"choices": []}')


def chat(prompt: str, tokens: int = 5) -> Request:
    return Request(prompt, {"messages": [{"role": "user", "content": prompt}], "max_tokens": tokens})


def chats(number: int) -> list[Request]:
    return [chat(f"p{i}") for i in range(number)]


def ask(endpoint: Endpoint, requests: Iterable[Request]) -> dict[str, Completion | Failure]:
    """The answers by key, after checking that no key came twice."""
    answers = [answer for ended in complete(endpoint, requests) for answer in ended]
    assert len(dict(answers)) == len(answers)
    return dict(answers)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("calls to")]


def test_every_request_ends_once_and_the_places_are_used_and_kept() -> None:
    with running(Server(latency=0.05)) as server:
        answers = ask(Endpoint(server.url, "tiny", concurrency=12), chats(60))
    assert set(answers) == {f"p{i}" for i in range(60)}
    assert answers["p7"] == Completion("you said: p7", "stop", 3, 5, "tiny-1", None, 1)
    assert server.most_open == 12
    assert server.bodies[0]["model"] == "tiny" and set(server.asked.values()) == {1}


def test_a_fault_on_each_tenth_call_loses_and_doubles_nothing() -> None:
    kinds = [failing(429, **NOW), failing(500, **NOW), CUT, HANG, MALFORMED, EMPTY]

    def fault(prompt: str, attempt: int) -> Fault | None:
        number = int(prompt[1:])
        return kinds[number // 10 % len(kinds)] if number % 10 == 0 and attempt == 1 else None

    with running(Server(fault=fault)) as server:
        answers = ask(Endpoint(server.url, "tiny", timeout=1), chats(120))
    assert {key: answer.text for key, answer in answers.items()} == {f"p{i}": f"you said: p{i}" for i in range(120)}
    # Billed calls: each fault forced exactly one more.
    assert {key: answer.attempts for key, answer in answers.items()} == server.asked
    assert sum(server.asked.values()) == 120 + 12


@pytest.mark.parametrize(
    ("fault", "reason", "attempts"),
    [
        (failing(429, **NOW), "rate_limit", 2),
        (failing(429, retry_after="3600"), "rate_limit", 1),
        (failing(500, **NOW), "http_500", 2),
        (failing(503, **NOW), "http_503", 2),
        (CUT, "connection", 2),
        (HANG, "timeout", 2),
        (MALFORMED, "malformed", 2),
        (EMPTY, "malformed", 2),
        (completion("no", finish="content_filter"), "blocked", 1),
        (completion("no", finish=None), "finish_none", 1),
        (failing(400, {"code": "content_filter", "message": "no"}), "blocked", 1),
        (failing(403, {"message": "flagged by content policy"}), "blocked", 1),
        (failing(403), "http_403", 1),
        (failing(400, {"message": "This model's maximum context length is 8 tokens."}), "prompt_too_long", 1),
        (failing(400, {"type": "exceed_context_size_error", "message": "no"}), "prompt_too_long", 1),
        (failing(422, "`inputs` tokens + `max_new_tokens` must be <= 8"), "prompt_too_long", 1),
        (failing(400, {"message": "unknown field"}), "http_400", 1),
    ],
)
def test_a_lasting_fault_is_a_failure_with_its_reason_and_its_calls(fault: Fault, reason: str, attempts: int) -> None:
    with running(Server(fault=lambda prompt, attempt: fault if prompt == "p1" else None)) as server:
        answers = ask(Endpoint(server.url, "tiny", timeout=0.3, retries=1), chats(3))
    assert answers.pop("p1") == Failure(reason, attempts)
    assert server.asked["p1"] == attempts
    assert all(isinstance(answer, Completion) for answer in answers.values()) and len(answers) == 2


def test_faults_of_all_kinds_share_the_retries() -> None:
    with running(Server(fault=lambda prompt, attempt: MALFORMED if attempt == 2 else failing(500, **NOW))) as server:
        answers = ask(Endpoint(server.url, "tiny", retries=2), chats(1))
    assert answers == {"p0": Failure("http_500", 3)} and server.asked == {"p0": 3}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (failing(401, {"message": f"Incorrect API key provided: {SECRET}"}), "refuses the key in TEST_KEY"),
        (failing(404), "does not know the model 'tiny' or the address http://127.0.0.1"),
        (failing(402), "no credit is left for the key in TEST_KEY"),
        (failing(429, {"code": "insufficient_quota", "message": "pay"}, x_should_retry="false"), "no credit is left"),
    ],
)
def test_a_wrong_setup_stops_the_run_and_keeps_what_has_ended(
    fault: Fault, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", SECRET)
    answers = []
    with running(Server(fault=lambda prompt, attempt: fault if prompt == "p5" else None)) as server:
        with pytest.raises(InputError, match=said) as caught:
            for ended in complete(Endpoint(server.url, "tiny", "TEST_KEY", concurrency=2), chats(500)):
                answers += [key for key, _ in ended]
        assert f"127.0.0.1:{server.port}" in str(caught.value)
    assert {"p0", "p1", "p2", "p3"} <= set(answers) and len(answers) == len(set(answers)) < 400
    assert SECRET not in str(caught.value) and server.keys == {f"Bearer {SECRET}"}
    assert server.asked["p5"] == 1


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", " ")
    endpoint = Endpoint("http://models.example:8000/v1", "tiny", "TEST_KEY")
    with pytest.raises(InputError, match=r"TEST_KEY is not set; it holds the key of models\.example:8000"):
        next(complete(endpoint, chats(1)))


def test_a_server_without_key_does_not_get_another_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with running(Server()) as server:
        ask(Endpoint(server.url, "tiny"), chats(1))
    assert server.keys == {"Bearer none"}


@pytest.mark.parametrize(
    "url",
    [
        f"https://me:{SECRET}@host/v1",
        f"https://me:{SECRET}/x@host/v1",
        f"https://host/v1?key={SECRET}",
        f"https://host/v1#{SECRET}",
    ],
)
def test_a_secret_in_the_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InputError, match="base URL of an endpoint must hold no") as caught:
        Endpoint(url, "tiny")
    assert SECRET not in str(caught.value) and "me:" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000/v1",
        "http:///v1",
        "ftp://host/v1",
        SECRET,
        f"http://host:{SECRET}/v1",
        "http://host:99999/v1",
        "http://host:0/v1",
        "http://[host/v1",
        "http://ho st/v1",
        "http://host/v1\n",
        "http://h\u00f6st/v1",
    ],
)
def test_no_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InputError) as caught:
        Endpoint(url, "tiny")
    assert str(caught.value) == "the base URL of an endpoint must look like http://HOST:PORT/v1"


@pytest.mark.parametrize("name", [SECRET, "", "1KEY", "MY KEY", "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345", "f" * 31 + "1"])
def test_a_key_in_place_of_its_variable_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(InputError, match="no name of an environment variable, such as OPENAI_API_KEY") as caught:
        Endpoint("http://host/v1", "tiny", name)
    assert not name or name not in str(caught.value)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "_key2", "my_company_openai_key_2", "Azure2024_KEY"])
def test_a_variable_s_name_is_taken(name: str) -> None:
    assert Endpoint("http://[::1]:8000/v1", "tiny", name).api_key_env == name


@pytest.mark.parametrize("more", ["\u00e9", "\u201d", "a\nb", "\x7f"])
def test_a_key_that_no_header_can_hold_names_its_variable_only(more: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", SECRET + more + "x")
    with pytest.raises(InputError, match="variable TEST_KEY holds characters that no key has") as caught:
        next(complete(Endpoint("http://models.example/v1", "tiny", "TEST_KEY"), chats(1)))
    assert SECRET not in str(caught.value)


def test_requests_are_pulled_as_places_get_free() -> None:
    pulled = []

    def endless() -> Iterator[Request]:
        for number in count():
            pulled.append(number)
            yield chat(f"p{number}")

    with running(Server()) as server:
        run = complete(Endpoint(server.url, "tiny", concurrency=4), endless())
        ended = 0
        for answers in islice(run, 30):
            ended += len(answers)
            assert len(pulled) <= ended + 4
        run.close()
    assert ended >= 30


def test_closing_early_cancels_what_runs() -> None:
    with running(Server(fault=lambda prompt, attempt: HANG if prompt == "p1" else None)) as server:
        run = complete(Endpoint(server.url, "tiny"), chats(2))
        assert next(run)[0][0] == "p0"
        began = time.monotonic()
        run.close()
        assert time.monotonic() - began < 2


def test_ctrl_c_ends_a_wait() -> None:
    """A real SIGINT while one call hangs: what has ended was yielded, nothing waits for the call."""
    answers: list[str] = []
    began: list[float] = []

    def interrupt() -> None:
        end = time.monotonic() + 20
        while len(answers) < 9 and time.monotonic() < end:
            time.sleep(0.01)
        began.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    with running(Server(fault=lambda prompt, attempt: HANG if prompt == "p3" else None)) as server:
        stop = threading.Thread(target=interrupt)
        stop.start()
        with pytest.raises(KeyboardInterrupt):
            for ended in complete(Endpoint(server.url, "tiny", concurrency=2), chats(10)):
                answers += [key for key, _ in ended]
        stop.join()
        assert time.monotonic() - began[0] < 3
    assert sorted(answers) == [f"p{i}" for i in range(10) if i != 3]


def test_ctrl_c_loses_no_finished_answer() -> None:
    """The interrupt comes when answers have ended that the caller has not seen."""

    def requests() -> Iterator[Request]:
        yield from chats(4)
        raise KeyboardInterrupt

    answers = []
    with running(Server(latency=0.05)) as server, pytest.raises(KeyboardInterrupt):
        for ended in complete(Endpoint(server.url, "tiny", concurrency=1), requests()):
            answers += [key for key, _ in ended]
    assert answers == ["p0", "p1", "p2", "p3"] and sum(server.asked.values()) == 4


def test_inside_a_running_event_loop() -> None:
    """As in a notebook, whose kernel runs a loop in the main thread."""

    async def cell() -> dict[str, Completion | Failure]:
        return ask(Endpoint(server.url, "tiny"), chats(3))

    with running(Server()) as server:
        assert len(asyncio.run(cell())) == 3


def test_requests_a_minute_are_kept_by_retries_too() -> None:
    with running(Server(fault=lambda prompt, attempt: failing(500, **NOW) if attempt == 1 else None)) as server:
        answers = ask(Endpoint(server.url, "tiny", requests_per_minute=1200), chats(6))
    assert len(answers) == 6 and len(server.times) == 12
    gaps = [later - sooner for sooner, later in zip(server.times, server.times[1:], strict=False)]
    assert 11 * 0.05 * 0.95 < sum(gaps) < 11 * 0.05 + 1


def test_tokens_a_minute() -> None:
    # A prompt of 200 characters and 150 tokens of reply cost about 210 tokens, so 84,000 a minute allow 6.7 a second.
    requests = [chat(f"{i:<200}", tokens=150) for i in range(6)]
    with running(Server()) as server:
        ask(Endpoint(server.url, "tiny", tokens_per_minute=84_000), requests)
    assert 5 * 0.14 < server.times[-1] - server.times[0] < 5 * 0.16 + 1


def test_a_rate_limit_holds_all_calls_back() -> None:
    limited = failing(429, retry_after="0.4")
    with running(Server(fault=lambda prompt, attempt: limited if (prompt, attempt) == ("p0", 1) else None)) as server:
        ask(Endpoint(server.url, "tiny", concurrency=1), chats(4))
        alone = server.times[1] - server.times[0]
    with running(Server(fault=server.fault, latency=0.05)) as server:
        ask(Endpoint(server.url, "tiny", concurrency=2), chats(6))
        # The call beside the limited one was under way; the ones after it wait.
        gaps = [later - sooner for sooner, later in zip(server.times, server.times[1:], strict=False)]
    assert alone > 0.35 and max(gaps[:3]) > 0.25


def test_a_server_that_never_answers_stops_the_run() -> None:
    with running(Server()) as server:
        gone = server.url
    answers: list[Failure | Completion] = []
    with pytest.raises(InputError, match=r"127\.0\.0\.1:\d+: 2\d calls in a row failed, the last one by connection"):
        for ended in complete(Endpoint(gone, "tiny", concurrency=4, retries=0), chats(500)):
            answers += [answer for _, answer in ended]
    assert answers == [Failure("connection", 1)] * len(answers) and 20 <= len(answers) <= 24


def test_a_setting_that_every_call_trips_over_stops_the_run() -> None:
    with running(Server(fault=lambda prompt, attempt: failing(400))) as server:
        with pytest.raises(InputError, match="in a row failed, the last one by http_400"):
            ask(Endpoint(server.url, "tiny", concurrency=2), chats(500))
        assert sum(server.asked.values()) < 30


def test_prompts_that_the_server_cannot_answer_do_not_stop_the_run() -> None:
    long = failing(400, {"code": "context_length_exceeded"})
    with running(Server(fault=lambda prompt, attempt: long if int(prompt[1:]) < 50 else failing(400))) as server:
        answers = ask(Endpoint(server.url, "tiny", concurrency=2), chats(100))
    assert [answers[f"p{i}"].reason for i in (0, 49, 50, 99)] == ["prompt_too_long"] * 2 + ["http_400"] * 2


def test_nothing_asked_gives_nothing() -> None:
    assert ask(Endpoint("http://127.0.0.1:9/v1", "tiny"), []) == {}
