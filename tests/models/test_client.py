from __future__ import annotations

import asyncio
import gzip
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Hashable, Iterable, Iterator
from itertools import count, islice, pairwise
from typing import Any

import pytest
from servers import CUT, HANG, Fault, Raw, Reply, Server, completion, failing, http, running

from slmsafety.errors import InputError
from slmsafety.models.answers import Again, Completion, Failure, Halt
from slmsafety.models.attempts import Request
from slmsafety.models.client import complete
from slmsafety.models.endpoint import Endpoint

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
        (failing(403), "http_403", 1),
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
        (failing(400, {"message": "This model's maximum context length is 8 tokens."}), "prompt_too_long", 1),
        (failing(400, {"type": "exceed_context_size_error", "message": "no"}), "prompt_too_long", 1),
        (failing(422, "`inputs` tokens + `max_new_tokens` must be <= 8"), "prompt_too_long", 1),
        (failing(400, {"message": "unknown field"}), "http_400", 1),
    ],
)
def test_a_lasting_fault_is_a_failure_with_its_reason_and_its_calls(fault: Fault, reason: str, attempts: int) -> None:
    with running(Server(fault=lambda prompt, attempt: fault if prompt == "p1" else None)) as server:
        answers = ask(Endpoint(server.url, "tiny", timeout=0.3, retries=1), chats(3))
    assert answers.pop("p1")[:2] == (reason, attempts)
    assert server.asked["p1"] == attempts
    assert all(isinstance(answer, Completion) for answer in answers.values()) and len(answers) == 2


def test_faults_of_all_kinds_share_the_retries() -> None:
    with running(Server(fault=lambda prompt, attempt: MALFORMED if attempt == 2 else failing(500, **NOW))) as server:
        answers = ask(Endpoint(server.url, "tiny", retries=2), chats(1))
    assert answers == {"p0": Failure("http_500", 3, "injected 500")} and server.asked == {"p0": 3}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (failing(401, {"message": f"Incorrect API key provided: {SECRET}"}), "does not take the key in TEST_KEY"),
        (failing(403, {"code": "no_access", "message": "no"}), "does not let the key in TEST_KEY use the model 'tiny'"),
        (failing(404), "does not know the model 'tiny'"),
        (failing(407), "a proxy on the way .* asks for a user and a password"),
        (failing(429, retry_after="7200"), r"asks to wait 7,200 seconds \(rate_limit: injected 429\)"),
        (
            failing(503, retry_after="121"),
            r"asks to wait 121 seconds \(http_503: injected 503\); what is left is for a",
        ),
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
            for ended in complete(Endpoint(server.url, "tiny", "TEST_KEY", concurrency=1), chats(500)):
                answers += [key for key, _ in ended]
        assert f"127.0.0.1:{server.port}" in str(caught.value)
    assert answers == ["p0", "p1", "p2", "p3", "p4"]
    assert SECRET not in str(caught.value) and server.keys == {f"Bearer {SECRET}"}
    assert server.asked["p5"] == 1


def test_a_server_without_key_does_not_get_another_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with running(Server()) as server:
        ask(Endpoint(server.url, "tiny"), chats(1))
    assert server.keys == {"Bearer none"}


def test_whom_a_call_is_billed_to_goes_with_a_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", SECRET)
    monkeypatch.setenv("OPENAI_ORG_ID", " org-mine ")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-mine")
    with running(Server()) as server:
        ask(Endpoint(server.url, "tiny", "TEST_KEY"), chats(1))
        ask(Endpoint(server.url, "tiny"), chats(1))
        monkeypatch.delenv("OPENAI_PROJECT_ID")
        ask(Endpoint(server.url, "tiny", "TEST_KEY"), chats(1))
        monkeypatch.setenv("OPENAI_ORG_ID", "org\nmine")
        with pytest.raises(InputError, match="OPENAI_ORG_ID holds characters that no id has"):
            ask(Endpoint(server.url, "tiny", "TEST_KEY"), chats(1))
    names = ("openai-organization", "openai-project")
    sent = [{name: head[name] for name in names if name in head} for head in server.heads]
    assert sent == [dict(zip(names, ("org-mine", "proj-mine"), strict=True)), {}, {"openai-organization": "org-mine"}]


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
            assert len(pulled) <= ended + 2 * 4  # those under way, and as many that wait for a place
        run.close()
    assert ended >= 30


def test_closing_early_cancels_what_runs() -> None:
    with running(Server(fault=lambda prompt, attempt: HANG if prompt == "p1" else None)) as server:
        run = complete(Endpoint(server.url, "tiny"), chats(2))
        assert next(run)[0][0] == "p0"
        began = time.monotonic()
        run.close()
        assert time.monotonic() - began < 60


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
        assert time.monotonic() - began[0] < 60  # it would wait for the call's time-out of 600
    assert sorted(answers) == [f"p{i}" for i in range(10) if i != 3]


def test_ctrl_c_loses_no_finished_answer() -> None:
    """The interrupt comes when answers have ended that the caller has not seen."""

    def requests() -> Iterator[Request]:
        yield from chats(4)
        while sum(server.asked.values()) < 4:
            time.sleep(0.01)
        time.sleep(0.2)
        raise KeyboardInterrupt

    answers = []
    with running(Server()) as server, pytest.raises(KeyboardInterrupt):
        for ended in complete(Endpoint(server.url, "tiny", concurrency=4), requests()):
            answers += [key for key, _ in ended]
    assert sorted(answers) == ["p0", "p1", "p2", "p3"] and sum(server.asked.values()) == 4


UNFINISHED = """
import sys
from slmsafety.models.attempts import Request
from slmsafety.models.client import complete
from slmsafety.models.endpoint import Endpoint
requests = (Request(i, {"prompt": f"p{i}"}) for i in range(40))
answers = complete(Endpoint(sys.argv[1], "tiny", concurrency=2), requests)
print(len(next(answers)) > 0)
"""


def test_a_script_that_leaves_a_run_unfinished_ends() -> None:
    """The iterator lives until the interpreter goes, when no thread answers any more."""
    with running(Server(latency=0.01)) as server:
        ended = subprocess.run([sys.executable, "-c", UNFINISHED, server.url], timeout=20, capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"True\n", b"")


class OtherLoops(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        raise TypeError("a loop of another make")


def test_another_policy_of_event_loops_does_not_matter() -> None:
    """As that of uvloop, whose connections take other arguments."""
    asyncio.set_event_loop_policy(OtherLoops())
    try:
        with running(Server()) as server:
            assert len(ask(Endpoint(server.url, "tiny"), chats(1))) == 1
    finally:
        asyncio.set_event_loop_policy(None)


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
    assert sum(gaps) > 11 * 0.05 * 0.95


def test_tokens_a_minute() -> None:
    # A prompt of 200 characters and 150 tokens of reply cost about 210 tokens, so 84,000 a minute allow 6.7 a second.
    requests = [chat(f"{i:<200}", tokens=150) for i in range(6)]
    with running(Server()) as server:
        ask(Endpoint(server.url, "tiny", tokens_per_minute=84_000), requests)
    assert server.times[-1] - server.times[0] > 5 * 0.14


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
    assert answers == [Failure("connection", 1, "Connection refused")] * len(answers)
    assert 20 <= len(answers) <= 24


def test_a_setting_that_every_call_trips_over_stops_the_run() -> None:
    with running(Server(fault=lambda prompt, attempt: failing(400))) as server:
        with pytest.raises(InputError, match="in a row failed, the last one by http_400"):
            ask(Endpoint(server.url, "tiny", concurrency=2), chats(500))
        assert sum(server.asked.values()) < 30


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (failing(403), r"by http_403 \(injected 403\); the key may have no right .* or a firewall"),
        (failing(429, **NOW), r"by rate_limit \(injected 429\)"),
    ],
)
def test_a_refusal_of_all_that_is_left_stops_the_run(fault: Fault, said: str) -> None:
    with running(Server(fault=lambda prompt, attempt: fault if int(prompt[1:]) >= 4 else None)) as server:
        with pytest.raises(InputError, match=rf"20 calls in a row failed, the last one {said}"):
            ask(Endpoint(server.url, "tiny", concurrency=2, retries=0), chats(500))
        assert sum(server.asked.values()) < 30


def test_what_a_firewall_stops_ends_alone_even_if_it_comes_first() -> None:
    stopped = (403, {}, b'{"message": "Forbidden"}')
    with running(Server(fault=lambda prompt, attempt: stopped if int(prompt[1:]) % 30 < 19 else None)) as server:
        answers = ask(Endpoint(server.url, "tiny", concurrency=1), chats(60))
        assert answers["p0"] == answers["p48"] == Failure("http_403", 1, "Forbidden")
        assert sum(isinstance(answer, Completion) for answer in answers.values()) == 22
        with pytest.raises(
            InputError, match=r"none of 3 calls, the last one ended by http_403 .*the key may have no right"
        ):
            ask(Endpoint(server.url, "tiny", concurrency=1), chats(3))


def test_a_server_that_works_between_rate_limits_goes_on() -> None:
    with running(Server(fault=lambda prompt, attempt: failing(429) if int(prompt[1:]) % 10 else None)) as server:
        answers = ask(Endpoint(server.url, "tiny", concurrency=1, retries=0), chats(60))
    assert sum(isinstance(answer, Completion) for answer in answers.values()) == 6


def test_prompts_that_the_server_cannot_answer_do_not_stop_the_run() -> None:
    long = failing(400, {"code": "context_length_exceeded"})
    with running(Server(fault=lambda prompt, attempt: long if int(prompt[1:]) < 50 else failing(400))) as server:
        answers = ask(Endpoint(server.url, "tiny", concurrency=2), chats(100))
    assert [answers[f"p{i}"].reason for i in (0, 49, 50, 99)] == ["prompt_too_long"] * 2 + ["http_400"] * 2


def test_nothing_asked_gives_nothing() -> None:
    assert ask(Endpoint("http://127.0.0.1:9/v1", "tiny"), []) == {}


HEAD = http(b"", content_length="", transfer_encoding="chunked")
DRIP = (b"1\r\n \r\n", 0.02) * 200  # four seconds, never silent for long


def zipped(times: int) -> bytes:
    body = bytes(2**20) * 24
    for _ in range(times):
        body = gzip.compress(body, 1)
    return body


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Raw((HEAD, *DRIP)), "timeout"),
        (Raw((b"HTTP/1.1 200 OK\r\n", *(b"x-drip: 1\r\n", 0.02) * 200)), "timeout"),
        (Raw((HEAD, *(b"100000\r\n" + bytes(2**20) + b"\r\n",) * 18, b"0\r\n\r\n")), "body_too_large"),
        (Raw((http(zipped(1), content_encoding="gzip"),)), "body_too_large"),
        (Raw((http(zipped(2), content_encoding="gzip, gzip"),)), "malformed"),
        (Raw((http(gzip.compress(b"{}")[:-4], content_encoding="gzip"),)), "malformed"),
        (Raw((http(b"no gzip", content_encoding="gzip"),)), "malformed"),
        (Raw((http(b"{}", content_length="99"),)), "connection"),
        (Raw((http(b'{"choices": []}', content_length="9"),)), "malformed"),
        (Raw((HEAD, b"5\r\n{")), "connection"),
        (Raw((HEAD, b"zz\r\n{}\r\n0\r\n\r\n")), "connection"),
        (Raw((b"HTTP/1.1 200",)), "connection"),
        (Raw((b"nothing of HTTP\r\n\r\n",)), "connection"),
        (Raw((b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2**20,)), "connection"),
    ],
)
def test_an_answer_ends_within_a_time_and_a_size(fault: Raw, reason: str) -> None:
    with running(Server(fault=lambda prompt, attempt: fault if prompt == "p1" else None)) as server:
        began = time.monotonic()
        answers = ask(Endpoint(server.url, "tiny", concurrency=1, timeout=0.7, retries=0), chats(4))
        assert time.monotonic() - began < 60
    assert answers.pop("p1") == Failure(reason, 1)
    assert {answer.text for answer in answers.values()} == {"you said: p0", "you said: p2", "you said: p3"}


def test_what_is_left_on_a_connection_answers_no_other_call() -> None:
    """A server that sends an answer too many, at once or a little later."""

    def twice(prompt: str, attempt: int) -> Fault | None:
        first, second = http(completion("first")[2]), http(completion("stray")[2])
        return {"p0": Raw((first + second,), kept=True), "p1": Raw((first, 0.1, second), kept=True)}.get(prompt)

    def slow() -> Iterator[Request]:
        for i in range(6):
            time.sleep(0.2)
            yield chat(f"p{i}")

    with running(Server(fault=twice)) as server:
        answers = ask(Endpoint(server.url, "tiny", concurrency=1), slow())
    assert [answers[f"p{i}"].text for i in range(6)] == ["first"] * 2 + [f"you said: p{i}" for i in range(2, 6)]


@pytest.mark.parametrize("answered", [0, 1])
def test_a_redirect_is_not_followed(answered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the key to another host. The first call ends by it, so the run does; later ones are failures."""
    monkeypatch.setenv("TEST_KEY", SECRET)
    with running(Server()) as other, running(Server()) as server:
        target = f"http://me:{SECRET}@127.0.0.1:{other.port}/v1/chat/completions?key={SECRET}"
        server.fault = lambda prompt, attempt: None if prompt < f"p{answered}" else (307, {"location": target}, b"")
        run = complete(Endpoint(server.url, "tiny", "TEST_KEY", concurrency=1), chats(3))
        if answered:
            ended = dict(answer for batch in run for answer in batch)
            assert (ended["p1"].reason, ended["p2"].reason) == ("redirect", "redirect")
            said = str(ended["p1"].said)
        else:
            with pytest.raises(InputError, match="is not followed with a key") as caught:
                list(run)
            said = str(caught.value)
        assert f"redirects to http://127.0.0.1:{other.port}/v1/chat/completions" in said and SECRET not in said
        assert not other.asked and set(server.asked.values()) == {1}


def test_cookies_are_not_kept() -> None:
    def answer(path: str, body: dict[str, Any]) -> Reply:
        status, headers, data = completion("yes")
        return status, {**headers, "set-cookie": "session=1; Path=/"}, data

    with running(Server(answer)) as server:
        ask(Endpoint(server.url, "tiny", concurrency=1), chats(3))
    assert len(server.heads) == 3 and not [head for head in server.heads if "cookie" in head]


def test_a_connection_that_the_server_has_left_costs_no_retry_and_no_wait() -> None:
    """Such as one that a server closes after some seconds without calls, just when the next call comes."""

    def left(prompt: str, attempt: int) -> Fault | None:
        return Raw(()) if prompt == "p1" and attempt == 1 else None

    with running(Server(fault=left)) as server:
        answers = ask(Endpoint(server.url, "tiny", concurrency=1, retries=0), chats(3))
    assert answers["p1"] == Completion("you said: p1", "stop", 3, 5, "tiny-1", None, 2)
    assert server.times[2] - server.times[1] < 0.3
    with running(Server(fault=lambda prompt, attempt: Raw(()))) as server, pytest.raises(InputError):
        ask(Endpoint(server.url, "tiny", concurrency=1, retries=0), chats(1))
    assert server.asked == {"p0": 1}


def test_a_server_that_leaves_every_connection_is_not_asked_without_end() -> None:
    with running(Server(fault=lambda prompt, attempt: Raw(()) if prompt == "p1" else None)) as server:
        answers = ask(Endpoint(server.url, "tiny", concurrency=1, retries=0), chats(3))
    assert answers["p1"].reason == "connection" and server.asked["p1"] <= 2


def test_waits_between_attempts_grow() -> None:
    with running(Server(fault=lambda prompt, attempt: failing(500) if attempt <= 2 else None)) as server:
        ask(Endpoint(server.url, "tiny"), chats(1))
    first, second = (later - sooner for sooner, later in pairwise(server.times))
    assert 0.36 < first < 0.7 and 0.74 < second < 1.3


@pytest.mark.parametrize("limits", [{"requests_per_minute": 120}, {"tokens_per_minute": 120 * 13.0}])
def test_limits_a_minute_hold_over_runs(limits: dict[str, float]) -> None:
    """As over the models and suites of a study, each of which is a run of its own."""
    with running(Server()) as server:
        for i in range(3):
            ask(Endpoint(server.url, "tiny", **limits), [chat(f"p{i}")])
    # The first call may have been half a gap late.
    assert server.times[-1] - server.times[0] > 1.5 * 0.5 - 0.02


def test_a_hold_back_holds_over_runs_and_ends_at_the_rate() -> None:
    limited = failing(429, retry_after="0.5")
    with running(Server(fault=lambda prompt, attempt: limited if (prompt, attempt) == ("p0", 1) else None)) as server:
        endpoint = Endpoint(server.url, "tiny", requests_per_minute=1200, retries=0)
        assert ask(endpoint, chats(1)) == {"p0": Failure("rate_limit", 1, "injected 429")}
        ask(endpoint, [chat(f"q{i}") for i in range(8)])
    gaps = [later - sooner for sooner, later in pairwise(server.times)]
    assert gaps[0] > 0.45 and sum(gaps[1:]) > 7 * 0.05 - 0.03


def test_tokens_that_the_server_counts_correct_the_limit() -> None:
    def answer(path: str, body: dict[str, Any]) -> Reply:
        usage = {"prompt_tokens": 15, "completion_tokens": 30}
        return completion("x" * 200, usage=usage)

    # Expected are 11 + 5 tokens, of which 6000 a minute allow 6 a second; at 45 tokens a call it is 2.2.
    with running(Server(answer)) as server:
        ask(Endpoint(server.url, "tiny", concurrency=1, tokens_per_minute=6000), chats(3))
    assert server.times[-1] - server.times[0] > 0.8


def test_an_absurd_count_does_not_stop_the_pace() -> None:
    absurd = completion("yes", usage={"prompt_tokens": 10**15, "completion_tokens": 1})
    with running(Server(lambda path, body: absurd)) as server:
        assert len(ask(Endpoint(server.url, "tiny", concurrency=1, tokens_per_minute=60_000), chats(2))) == 2


class Purse:
    """Pays for so many attempts in all, and notes what it is told."""

    def __init__(self, attempts: int = 10**9) -> None:
        self.left, self.notes, self.threads = attempts, [], set()

    def attempt(self, key: Hashable) -> bool:
        self.threads.add(threading.current_thread().name)
        self.notes.append((key, "attempt"))
        self.left -= 1
        return self.left >= 0

    def ended(self, key: Hashable, heard: Completion | Failure | Again | Halt | None) -> None:
        self.notes.append((key, heard if heard is None else heard[0] if isinstance(heard, Again) else type(heard)))


def paid(server: Server, purse: Purse, requests: list[Request], **given: Any) -> dict[str, Completion | Failure]:
    endpoint = Endpoint(server.url, "tiny", concurrency=1, **given)
    return dict(answer for ended in complete(endpoint, requests, purse) for answer in ended)


@pytest.mark.parametrize(
    ("fault", "heard"),
    [
        (failing(500, **NOW), "http_500"),
        (failing(429, **NOW), "rate_limit"),
        (MALFORMED, "malformed"),
        (CUT, None),
        (HANG, None),
        (Raw(()), None),
    ],
)
def test_every_attempt_is_paid_for_and_told_how_it_ended(fault: Fault, heard: str | None) -> None:
    purse = Purse()
    with running(Server(fault=lambda prompt, attempt: fault if attempt == 1 else None)) as server:
        answers = paid(server, purse, chats(1), timeout=0.5)
    assert answers["p0"].attempts == 2
    assert purse.notes == [("p0", "attempt"), ("p0", heard), ("p0", "attempt"), ("p0", Completion)]
    assert len(purse.threads) == 1 and purse.threads.pop().startswith("calls to")


def test_what_cannot_be_paid_for_is_not_sent() -> None:
    purse = Purse(attempts=2)
    with running(Server(fault=lambda prompt, attempt: failing(500, **NOW) if prompt == "p0" else None)) as server:
        answers = paid(server, purse, chats(2))
    assert answers == {"p0": Failure("no_budget", 2), "p1": Failure("no_budget", 0)} and server.asked == {"p0": 2}


def test_calls_that_found_no_server_are_told_as_unsent() -> None:
    with running(Server()) as server:
        pass
    purse = Purse()
    with pytest.raises(InputError, match="answered none of 1 calls, the last one ended by connection"):
        paid(server, purse, chats(1), retries=1)
    assert purse.notes == [("p0", "attempt"), ("p0", "unsent")] * 2


def test_a_connection_that_never_came_is_told_as_unsent() -> None:
    """A host whose queue of connections is full; the time of an attempt is shorter than that of a connection."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        purse = Purse()
        endpoint = Endpoint(f"http://127.0.0.1:{full.getsockname()[1]}/v1", "tiny", timeout=0.2, retries=0)
        with pytest.raises(InputError, match="the last one ended by timeout"):
            list(complete(endpoint, chats(1), purse))
        for each in waiting:
            each.close()
    assert purse.notes == [("p0", "attempt"), ("p0", "unsent")]


def test_a_call_that_is_given_up_is_told_too() -> None:
    purse = Purse()
    with running(Server(fault=lambda prompt, attempt: HANG if prompt == "p1" else None)) as server:
        run = complete(Endpoint(server.url, "tiny", concurrency=1), chats(3), purse)
        assert next(run)[0][0] == "p0"
        while "p1" not in server.asked:
            time.sleep(0.01)
        run.close()
    assert purse.notes == [("p0", "attempt"), ("p0", Completion), ("p1", "attempt"), ("p1", None)]


def test_a_halt_is_told_and_a_broken_purse_ends_the_run_with_its_error() -> None:
    with running(Server(fault=lambda prompt, attempt: failing(401) if prompt == "p1" else None)) as server:
        purse = Purse()
        with pytest.raises(InputError):
            paid(server, purse, chats(3))
        assert purse.notes[-1] == ("p1", Halt)

        class Broken(Purse):
            def ended(self, key: Hashable, heard: Any) -> None:
                raise OSError("disk full")

        with pytest.raises(OSError, match="disk full"):
            paid(server, Broken(), chats(3))


def test_none_means_ask_again_when_a_call_has_ended() -> None:
    asked_when: list[int] = []

    def requests() -> Iterator[Request | None]:
        for i in range(6):
            while i - seen >= 2:  # two at a time may be under way
                asked_when.append(seen)
                yield None
            yield chat(f"p{i}")

    seen = 0
    with running(Server(latency=0.02)) as server:
        for ended in complete(Endpoint(server.url, "tiny"), requests()):
            seen += len(ended)
    assert seen == 6 and server.most_open == 2
    assert asked_when  # it was held back


def test_none_with_no_call_open_is_the_end() -> None:
    pulled = []

    def requests() -> Iterator[Request | None]:
        yield chat("p0")
        while True:
            pulled.append(1)
            yield None

    with running(Server()) as server:
        assert set(ask(Endpoint(server.url, "tiny"), requests())) == {"p0"}
    assert len(pulled) < 10
    assert ask(Endpoint("http://127.0.0.1:9/v1", "tiny"), iter([None, None])) == {}


def test_an_error_among_the_requests_is_raised_and_open_calls_are_cancelled() -> None:
    def requests() -> Iterator[Request]:
        yield chat("p0")
        raise ValueError("row 2")

    with running(Server(fault=lambda prompt, attempt: HANG)) as server, pytest.raises(ValueError, match="row 2"):
        ask(Endpoint(server.url, "tiny"), requests())


def test_flagged_prompts_before_the_first_reply_do_not_stop_the_run() -> None:
    flagged = failing(400, {"code": "content_policy_violation", "message": "Your request was rejected."})
    with running(Server(fault=lambda prompt, attempt: flagged)) as server:
        answers = ask(Endpoint(server.url, "tiny", concurrency=2), chats(60))
    assert {answer.reason for answer in answers.values()} == {"blocked"} and set(server.asked.values()) == {1}


def test_a_place_does_not_wait_for_the_caller() -> None:
    """While the caller works on answers, the requests that it has handed over go on being sent."""
    with running(Server(latency=0.05)) as server:
        run = complete(Endpoint(server.url, "tiny", concurrency=4), chats(16))
        assert next(run)
        time.sleep(0.4)
        assert 8 <= sum(server.asked.values()) <= 12
        run.close()


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Server()) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert ask(Endpoint("http://models.invalid/v1", "tiny"), chats(1))["p0"].text == "you said: p0"
        assert proxy.heads[0]["host"] == "models.invalid"
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with running(Server()) as server:
            ask(Endpoint(server.url, "tiny"), chats(1))
        assert len(proxy.heads) == 1


@pytest.mark.parametrize("scheme", ["gopher", "socks5"])
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", f"{scheme}://me:{SECRET}@127.0.0.1:9")
    with pytest.raises(InputError, match="the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY cannot be used") as caught:
        ask(Endpoint("http://models.invalid/v1", "tiny"), chats(1))
    assert SECRET not in str(caught.value)
