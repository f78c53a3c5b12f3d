from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import completion

from slmsafety.models.answers import Completion, Failure, Malformed, read


def body(**more: object) -> str:
    return completion("Hi", **more)[2].decode()


def test_a_chat_completion() -> None:
    assert read(body(system_fingerprint="fp"), 2) == Completion("Hi", "stop", 3, 5, "tiny-1", "fp", 2)


def test_a_plain_completion_without_counts() -> None:
    text = json.dumps({"choices": [{"text": "so on", "finish_reason": "length"}]})
    assert read(text, 1) == Completion("so on", "length", None, None, None, None, 1)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_that_the_server_has_taken_out_is_known(name: str) -> None:
    for text, whole in (("Hi", "Hi"), (None, "")):
        message = {"role": "assistant", "content": text, name: "First the flour."}
        found = read(json.dumps({"choices": [{"message": message, "finish_reason": "length"}]}), 1)
        assert found == Completion(whole, "length", None, None, None, None, 1, reasoned=True)
    for message in ({"content": "Hi", name: ""}, {"content": "Hi", name: None}, {"content": "Hi"}):
        found = read(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}), 1)
        assert isinstance(found, Completion) and not found.reasoned


def test_no_text_is_an_empty_reply() -> None:
    text = json.dumps({"choices": [{"message": {"role": "assistant"}, "finish_reason": "stop"}]})
    assert read(text, 1) == Completion("", "stop", None, None, None, None, 1)


@pytest.mark.parametrize("name", ["eos", "eos_token", "stop_sequence"])
def test_other_names_of_the_end(name: str) -> None:
    answer = read(body(finish=name), 1)
    assert isinstance(answer, Completion) and answer.finish_reason == "stop"


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("content_filter", "blocked"),
        ("abort", "finish_abort"),
        (None, "finish_none"),
        ("tool calls!" + "x" * 99, "finish_tool_calls_" + "x" * 22),
    ],
)
def test_an_end_that_leaves_no_reply(finish: str | None, reason: str) -> None:
    assert read(body(finish=finish), 3) == Failure(reason, 3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>bad gateway</html>",
        '{"choices": [{"message": {"content": "cut',
        "[]",
        "null",
        '{"error": {"message": "overloaded"}}',
        '{"choices": []}',
        '{"choices": null}',
        '{"choices": [{"message": null, "finish_reason": "stop"}]}',
        '{"choices": [{"message": {"content": "Hi"}}]}',
        '{"choices": [{"message": {"content": ""}, "finish_reason": null}]}',
        '{"choices": [{"message": {"content": "Hi"}, "finish_reason": 3}]}',
        '{"choices": [{"message": {"content": [1]}, "finish_reason": "stop"}]}',
        '{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": "3"}}',
        '{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "usage": [3]}',
        '{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "model": 7}',
    ],
)
def test_what_is_no_completion(text: str) -> None:
    with pytest.raises(Malformed):
        read(text, 1)


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_is_kept() -> None:
    text = r'{"choices": [{"text": "a\ud83d b\ud83d\ude00 c\ude00", "finish_reason": "stop"}]}'
    answer = read(text, 1)
    assert isinstance(answer, Completion) and answer.text == "a� b😀 c�"
    assert answer.text.encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "text", "finish_reason", "usage", "prompt_tokens", "model"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_is_an_answer_or_malformed(value: object) -> None:
    try:
        answer = read(json.dumps({"choices": [value], "model": "m"}), 1)
    except Malformed:
        return
    assert isinstance(answer, Completion | Failure)
