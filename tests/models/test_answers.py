from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import completion

from slmsafety.models.answers import Again, Completion, Failure, Halt, of_batch, read
from slmsafety.paths import project_root

# Answers in the forms of real servers, one a line: provider, status, body, and what they mean.
CASES = [
    json.loads(line) for line in (project_root() / "tests/data/server_answers.jsonl").read_text("utf-8").splitlines()
]
# The lines of a batch hold bodies of JSON alone.
IN_JSON = [case for case in CASES if not isinstance(case["body"], str)]
KINDS = {"failure": Failure, "again": Again, "halt": Halt}
PROMPT = "Please tell me how the baker's shop on the corner makes such a light and even crumb in its rye bread."


def bytes_of(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def said(body: Any, *hidden: str, status: int = 400) -> str | None:
    answer = read(status, {}, bytes_of(body), 1, hidden)
    assert not isinstance(answer, Completion)
    return answer.said


def reply(message: Any, finish: Any = "stop", **more: Any) -> Any:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return read(200, {}, json.dumps({"choices": [choice], **more}).encode(), 1)


@pytest.mark.parametrize("case", CASES, ids=[f"{number} {case['provider']}" for number, case in enumerate(CASES)])
def test_what_each_provider_s_answer_means(case: dict[str, Any]) -> None:
    answer = read(case["status"], {}, bytes_of(case["body"]), 3)
    assert (type(answer), answer.reason) == (KINDS[case["kind"]], case["reason"])
    assert not isinstance(answer, Failure) or answer.attempts == 3


@pytest.mark.parametrize("case", IN_JSON, ids=[f"{number} {case['provider']}" for number, case in enumerate(IN_JSON)])
def test_a_batch_says_the_same_and_asks_nothing_again(case: dict[str, Any]) -> None:
    answer = of_batch({"response": {"status_code": case["status"], "body": case["body"]}, "error": None})
    wanted = Failure if case["kind"] == "again" else KINDS[case["kind"]]
    assert (type(answer), answer.reason) == (wanted, case["reason"])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"code": "batch_expired", "message": "This request could not be executed in time."}, "batch_expired"),
        ({"code": "content_filter", "message": "Filtered."}, "blocked"),
        ({"message": "This model's maximum context length is 8 tokens."}, "prompt_too_long"),
        (None, "http_none"),
    ],
)
def test_a_request_of_a_batch_without_an_answer(error: Any, reason: str) -> None:
    answer = of_batch({"response": None, "error": error})
    assert isinstance(answer, Failure) and answer.reason == reason


def test_a_chat_completion() -> None:
    body = completion("Hi", system_fingerprint="fp")[2]
    assert read(200, {}, body, 2) == Completion("Hi", "stop", 3, 5, "tiny-1", "fp", 2)
    assert read(200, {}, b"\xef\xbb\xbf  \n" + body, 2) == Completion("Hi", "stop", 3, 5, "tiny-1", "fp", 2)
    assert of_batch({"response": {"status_code": 200, "body": json.loads(body)}}) == read(200, {}, body, 1)


def test_a_plain_completion_without_counts() -> None:
    text = json.dumps({"choices": [{"text": "so on", "finish_reason": "length"}]})
    assert read(200, {}, text.encode(), 1) == Completion("so on", "length", None, None, None, None, 1)


def test_no_text_is_an_empty_reply() -> None:
    assert reply({"role": "assistant"}) == Completion("", "stop", None, None, None, None, 1)
    assert reply(None, "MAX_TOKENS") == Completion("", "length", None, None, None, None, 1)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *[(name, "stop") for name in ("stop", "STOP", "eos", "eos_token", "stop_sequence", "end_turn", " End-Turn ")],
        *[(name, "length") for name in ("length", "Length", "MAX_TOKENS", "max_tokens", "model_length")],
    ],
)
def test_other_names_of_the_end(name: str, meant: str) -> None:
    assert reply({"content": "Hi"}, name).finish_reason == meant


def test_a_server_that_passes_on_another_s_word_for_the_end() -> None:
    body = {"choices": [{"message": {"content": "Hi"}, "finish_reason": None, "native_finish_reason": "STOP"}]}
    assert read(200, {}, json.dumps(body).encode(), 1).finish_reason == "stop"


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart(name: str) -> None:
    for text, whole in (("Hi", "Hi"), (None, "")):
        found = reply({"role": "assistant", "content": text, name: "First the flour."}, "length")
        assert found == Completion(whole, "length", None, None, None, None, 1, "First the flour.")
    for message in ({"content": "Hi", name: ""}, {"content": "Hi", name: None}, {"content": "Hi"}):
        assert reply(message).reasoning is None


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ([{"type": "text", "text": "Hi "}, {"type": "text", "text": "you"}], "Hi you", None),
        ([{"type": "output_text", "text": "Hi"}, {"type": "image_url", "image_url": {}}], "Hi", None),
        ({"type": "text", "text": "Hi"}, "Hi", None),
        (["Hi", " you"], "Hi you", None),
        (
            [{"type": "thinking", "thinking": [{"type": "text", "text": "Flour."}]}, {"type": "text", "text": "Hi"}],
            "Hi",
            "Flour.",
        ),
        ([{"type": "reasoning", "text": "Flour."}, {"type": "text", "text": "Hi"}], "Hi", "Flour."),
        ([{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "Hi"}], "Hi", ""),
        ([], "", None),
    ],
)
def test_a_content_in_parts(content: Any, text: str, reasoning: str | None) -> None:
    found = reply({"role": "assistant", "content": content})
    assert (found.text, found.reasoning, found.refusal) == (text, reasoning, False)


def test_reasoning_that_is_only_counted() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 64, "completion_tokens_details": {"reasoning_tokens": 64}}
    found = reply({"content": ""}, "length", usage=usage)
    assert (found.text, found.reasoning, found.output_tokens) == ("", "", 64)


@pytest.mark.parametrize(
    ("message", "finish", "text"),
    [
        ({"content": None, "refusal": "I'd rather not."}, "stop", "I'd rather not."),
        ({"content": [{"type": "refusal", "refusal": "I'd rather not."}]}, "stop", "I'd rather not."),
        ({"content": "I'd rather not."}, "refusal", "I'd rather not."),
        ({"content": ""}, "Refusal", ""),
    ],
)
def test_a_refusal_is_a_reply_with_its_words(message: Any, finish: str, text: str) -> None:
    found = reply(message, finish)
    assert (found.text, found.finish_reason, found.refusal) == (text, "stop", True)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        *[("12", 12), ("12.0", 12), ("0", 0), ("-1", None), ("12.5", None), ("1e400", None), ("NaN", None)],
        ("true", None),
        ('"12"', None),
        ("null", None),
        ("[12]", None),
        ("1" + "0" * 30, None),
        ("9" * 5000, None),
        ("-" + "9" * 50, None),
    ],
)
def test_counts_that_can_be_none_are_not_known(given: str, kept: int | None) -> None:
    body = '{"choices": [{"text": "Hi", "finish_reason": "stop"}], "usage": {"prompt_tokens": COUNT}}'
    answer = read(200, {}, body.replace("COUNT", given).encode(), 1)
    assert isinstance(answer, Completion) and answer.text == "Hi" and answer.input_tokens == kept


@pytest.mark.parametrize(
    "more", [{"model": 7}, {"usage": [3]}, {"usage": "none"}, {"system_fingerprint": {}}, {"model": " "}]
)
def test_what_is_beside_a_reply_does_not_spoil_it(more: dict[str, Any]) -> None:
    assert reply({"content": "Hi"}, **more) == Completion("Hi", "stop", None, None, None, None, 1)


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_is_kept() -> None:
    text = rb'{"choices": [{"text": "a\ud83d b\ud83d\ude00 c\ude00 ?", "finish_reason": "stop"}]}'
    answer = read(200, {}, text.replace(b"?", b"\xff"), 1)
    assert isinstance(answer, Completion) and answer.text == "a\ufffd b😀 c\ufffd \ufffd"
    assert answer.text.encode()


def test_a_deeply_nested_body_is_no_completion() -> None:
    deep = b"[" * 100_000
    assert read(200, {}, deep, 1) == Again("malformed")
    assert read(500, {}, deep + b"]" * 100_000, 1).reason == "http_500"
    content, finish = '[{"text":' * 200 + "1" + "}]" * 200, "[" * 300 + "]" * 300
    inside = f'{{"choices": [{{"message": {{"content": {content}}}, "finish_reason": {finish}}}]}}'
    assert isinstance(read(200, {}, inside.encode(), 1), Again | Failure)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "2.5"}, 2.5),
        ({"retry-after": " 7 "}, 7),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"Retry-After": "Wed, 21 Oct 99999 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
def test_how_long_a_server_asks_to_wait(headers: dict[str, str], wait: float | None) -> None:
    answer = read(429, headers, b"", 1)
    assert isinstance(answer, Again) and answer.wait == wait


def test_a_date_and_a_body_may_say_how_long_to_wait() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    answer = read(503, {"retry-after": date}, b"", 1)
    assert isinstance(answer, Again) and answer.wait is not None and 90 < answer.wait <= 100
    body = {"error": {"code": 429, "details": [{"retryDelay": "17s"}]}}
    assert read(429, {}, bytes_of(body), 1) == Again("rate_limit", None, 17)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ({"error": {"message": "No.", "code": "bad_thing", "type": "t"}}, "bad_thing: No."),
        ({"error": {"message": "No.", "code": 400, "type": "BadRequestError"}}, "BadRequestError: No."),
        ({"error": "No."}, "No."),
        ([{"error": {"message": "No.", "status": "INVALID"}}], "INVALID: No."),
        ({"detail": "No."}, "No."),
        ({"detail": [{"loc": ["body", "messages"], "msg": "No.", "input": PROMPT}]}, "No."),
        ({"object": "error", "message": "No."}, "No."),
        ({"message": "No."}, "No."),
        ({"error": {"message": "Outer.", "metadata": {"raw": '{"error": {"message": "Inner."}}'}}}, "Outer.; Inner."),
        ("No.", "No."),
        ("<html><head><title>502 Bad\nGateway</title></head><body>x</body></html>", "502 Bad Gateway"),
        ("", None),
        ({}, None),
        ({"error": {"message": "a\u0007b\n\u202ec"}}, r"a\x07b \u202ec"),
    ],
)
def test_what_is_kept_of_a_server_s_words(body: Any, kept: str | None) -> None:
    assert said(body) == kept


def test_a_long_sentence_is_shortened() -> None:
    kept = said({"error": {"message": "No. " * 500, "code": "c" * 500}})
    assert kept is not None and len(kept) == 200 and kept.startswith("ccc") and kept.endswith("...")


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcDEF123456",
        "sk-ab***********yz",
        "Bearer abc.def-123",
        "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ0123",
        "0123456789abcdef0123456789abcdef",
        "AIzaSyA-abcdefghijklmnopqrstuv",
        "my-own-key-without-form",
    ],
)
def test_no_secret_is_kept(secret: str) -> None:
    for body in ({"error": {"message": f"wrong: {secret}", "code": secret}}, f"wrong: {secret}", {"detail": secret}):
        kept = said(body, "my-own-key-without-form")
        assert kept is not None and secret not in kept and secret[-8:] not in kept
    kept = said({"error": {"message": "at https://me:pass@host/v1?api_key=abc"}})
    assert kept == "at https://...host/v1?..."


def test_what_was_asked_is_not_kept() -> None:
    body = {"error": {"message": f"1 validation error: input_value={PROMPT!r} is wrong"}}
    kept = said(body, "some-key", PROMPT)
    assert kept is not None and "crumb" not in kept and kept.startswith("1 validation error: input_value=")
    assert said({"error": {"message": "prompt is too long"}}, "is too long") == "prompt is too long"
    assert said({"error": {"message": "none of it"}}, "none") == "none of it"


def test_a_refused_parameter_is_named_once() -> None:
    body = {"error": {"message": "Not that.", "param": "top_p", "code": "unsupported_value"}}
    assert said(body) == "unsupported_value: Not that. (top_p)"
    body = {"error": {"message": "No 'top_p' here.", "param": "top_p", "code": "unsupported_value"}}
    assert said(body) == "unsupported_value: No 'top_p' here."


def test_what_is_asked_cannot_choose_its_meaning() -> None:
    """A server that repeats the request in its error: the words of the request decide nothing."""
    asked = "context length, content policy, model not found, insufficient credits: what do these four words mean?"
    answer = read(400, {}, bytes_of({"error": {"message": f"bad request: {asked}"}}), 1, (asked,))
    assert answer == Failure("http_400", 1, "bad request: ...")


@given(st.data())
def test_any_bytes_are_an_answer(data: st.DataObject) -> None:
    """Bodies of real servers, and completions, with pieces cut out, doubled and replaced by anything."""
    good = completion("Hi")[2]
    body = bytearray(data.draw(st.sampled_from([good, *(bytes_of(case["body"]) for case in CASES)])))
    pieces = st.sampled_from([b'"', b"[", b"{", b"null", b"1e999", b"\\ud800", b"\x00", b"\xff\xfe", b"-", b"9" * 40])
    for _ in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, len(body)))
        end = min(len(body), start + data.draw(st.integers(0, 30)))
        body[start:end] = data.draw(pieces | st.binary(max_size=8) | st.just(bytes(body[start:end]) * 2))
    status = data.draw(st.sampled_from([200, 400, 403, 413, 422, 429, 500]) | st.integers(100, 599))
    headers = {
        "retry-after": data.draw(st.text(max_size=20) | st.sampled_from(["1e9", "Mon, 01 Jan 0001 00:00:00 GMT"]))
    }
    check(read(status, headers, bytes(body), 1, (PROMPT, "some-key")))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("choices", "message", "content", "text", "type", "refusal", "reasoning", "finish_reason"),
                    *("usage", "prompt_tokens", "model", "error", "code", "detail", "loc", "metadata", "raw"),
                    "prompt_feedback",
                ]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@given(json_values, st.sampled_from([200, 400, 429, 500]))
def test_any_json_is_an_answer(value: object, status: int) -> None:
    for data in ({"choices": [value], "model": "m"}, value, {"error": value}, {"choices": [], "usage": value}):
        check(read(status, {}, json.dumps(data).encode(), 1))
        check(of_batch({"response": {"status_code": status, "body": data}, "error": value}))


def check(answer: Any) -> None:
    """An answer that tables can hold."""
    if isinstance(answer, Completion):
        assert answer.finish_reason in ("stop", "length")
        assert all(count is None or 0 <= count < 1e9 for count in (answer.input_tokens, answer.output_tokens))
        texts = [answer.text, answer.reasoning, answer.model, answer.fingerprint]
    else:
        assert isinstance(answer, Failure | Again | Halt) and 0 < len(answer.reason) <= 40
        assert answer.said is None or 0 < len(answer.said) <= 200
        texts = [answer.reason, answer.said]
    for text in texts:
        assert text is None or text.encode() is not None
