"""What each form of a server's answer becomes in the responses table, and how a current model is asked."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from servers import Reply, Server, running

from slmsafety.errors import InputError
from slmsafety.generation.endpoint_engine import EndpointRun, generate
from slmsafety.generation.settings import GenerationJob, GenerationSettings, generation_id
from slmsafety.models.source import Source
from slmsafety.records.schema import RESPONSES, check

LONG = "Mix the flour with water and salt, and let it rest until the next morning. " * 250


def says(message: Any, finish: str = "stop", model: str | None = "slm", **usage: Any) -> tuple[int, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": message}
    return 200, {"model": model, "choices": [choice], "usage": {"prompt_tokens": 300, "completion_tokens": 5, **usage}}


# The prompt: the answer, and the row's text, end and whether its prompt was cut; None: no row.
ANSWERS: dict[str, tuple[tuple[int, Any], Any]] = {
    "plain": (says({"content": "Mix."}), ("Mix.", "stop", False)),
    "parts": (says({"content": [{"type": "text", "text": "Mix."}]}, "MAX_TOKENS"), ("Mix.", "length", False)),
    "declines": (says({"content": None, "refusal": "No thanks."}), ("No thanks.", "stop", False)),
    "withholds": (says({"content": ""}, "refusal"), ("", "blocked", False)),
    "filtered": (says({"content": "Half a"}, "SAFETY"), ("", "blocked", False)),
    "blocked": ((400, {"error": {"message": "Filtered.", "code": "content_filter"}}), ("", "blocked", False)),
    "thinks": (says({"content": "", "reasoning": "Flour first."}), ("", "stop", False)),
    "empty": (says({"content": ""}), ("", "empty", False)),
    "too long": ((400, {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}), None),
    LONG: (says({"content": "Mix."}), ("Mix.", "stop", True)),
}


def answer(path: str, body: dict[str, Any]) -> Reply:
    status, given = ANSWERS[body["messages"][-1]["content"] if "messages" in body else body["prompt"]][0]
    return status, {}, json.dumps(given).encode()


def run_of(server: Server, texts: list[str], settings: GenerationSettings | None = None, **more: Any) -> EndpointRun:
    frame = pd.DataFrame({"suite": "demo", "instance_id": [f"q{i:03d}" for i in range(len(texts))], "prompt": texts})
    job = GenerationJob(settings or GenerationSettings(max_new_tokens=9), "mine", "0123456789ab")
    return generate(Source(endpoint=server.url, served="slm", retries=0, **more), frame, job, 2)


@pytest.mark.parametrize("template", ["chat", "raw"])
def test_each_answer_becomes_its_row(template: str) -> None:
    with running(Server(answer)) as server:
        run = run_of(server, list(ANSWERS), GenerationSettings(max_new_tokens=9, template=template))
        found = check(pd.concat(list(run)), RESPONSES, "test").sort_values("instance_id")
        assert set(server.asked.values()) == {1}
    ended = list(zip(found["response"], found["finish_reason"], found["prompt_truncated"], strict=True))
    assert ended == [row for _, row in ANSWERS.values() if row is not None]
    assert run.failed == {"prompt_too_long": 1} and run.attempts == len(ANSWERS)
    metas = dict(zip((text for text in ANSWERS if text != "too long"), map(json.loads, found["meta"]), strict=True))
    assert metas["blocked"]["said"] == "content_filter: Filtered." and metas["blocked"]["engine"]
    assert metas["declines"]["refusal"] is True and "refusal" not in metas["plain"]
    assert metas["thinks"]["reasoning_characters"] == 12 and "reasoning_characters" not in metas["plain"]
    spans = found.set_index("instance_id")[["answer_start", "answer_end"]]
    assert spans.loc["q006"].tolist() == [0, 0] and spans.drop("q006").isna().all(axis=None)


def test_twenty_blocked_prompts_in_a_row_stop_nothing() -> None:
    with running(Server(answer)) as server:
        run = run_of(server, ["blocked"] * 60 + ["plain"])
        assert pd.concat(list(run))["finish_reason"].value_counts().to_dict() == {"blocked": 60, "stop": 1}
    assert run.problems() == ""


def test_another_model_stops_the_run_and_what_was_answered_is_kept() -> None:
    def other(path: str, body: dict[str, Any]) -> Reply:
        model = "another" if body["messages"][-1]["content"] == "p1" else "SLM-2026-01-01"
        return 200, {}, json.dumps(says({"content": "Mix."}, model=model)[1]).encode()

    texts = [f"p{number}" for number in range(60)]
    with running(Server(other)) as server:
        run, frames = run_of(server, texts), []
        with pytest.raises(InputError, match="answered for the model 'another', and 'slm' was asked"):
            for frame in run:
                frames.append(frame)
        rows = pd.concat(frames)
        assert "q001" not in set(rows["instance_id"]) and len(rows) == sum(server.asked.values()) - 1 < 20
        assert run.failed == {"other_model": 1}
        assert len(pd.concat(list(run_of(server, texts, served_as=("another",))))) == 60


def test_a_null_in_the_request_sends_nothing_of_a_key() -> None:
    asked = {"temperature": None, "seed": None, "max_tokens": None, "max_completion_tokens": 99, "stop": None}
    settings = GenerationSettings(max_new_tokens=9, request=asked)
    with running(Server(answer)) as server:
        list(run_of(server, ["plain"], settings))
        source = Source(endpoint=server.url, served="slm")
    (body,) = server.bodies
    del body["messages"]
    assert body == {"model": "slm", "max_completion_tokens": 99, "frequency_penalty": 0, "stop": None}
    plain = generation_id(source, GenerationSettings(max_new_tokens=9))
    assert generation_id(source, settings) != plain
    named = Source(endpoint=source.endpoint, served="slm", served_as=("any",))
    assert generation_id(named, GenerationSettings(max_new_tokens=9)) == plain


def test_a_refused_parameter_ends_the_run_with_the_key_that_leaves_it_out() -> None:
    said = {"error": {"message": "Unsupported value: 'temperature'.", "code": "unsupported_value"}}
    refused = Server(lambda path, body: (400, {}, json.dumps(said).encode()))
    with running(refused) as server, pytest.raises(InputError) as caught:
        list(run_of(server, ["plain"]))
    line = str(caught.value)
    assert "refuses what a request for the model 'slm' asks for" in line and "'temperature'" in line
    assert "unsupported_value: Unsupported value" in line and "request: {temperature: null}" in line
