from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from servers import CUT, HANG, Fault, Server, completion, echo, failing, forward_to, running

from slmsafety.errors import InputError
from slmsafety.generation import transformers_engine
from slmsafety.generation.decoding import BatchLimits
from slmsafety.generation.endpoint_engine import EndpointRun, generate
from slmsafety.generation.settings import ENDPOINT_ENGINE, GenerationJob, GenerationSettings
from slmsafety.models.endpoint import Endpoint
from slmsafety.models.load import LoadedModel
from slmsafety.models.source import Source
from slmsafety.records.schema import RESPONSES, check
from slmsafety.records.store import Partition

QUESTIONS = [
    "Hi",
    "Name three colours.",
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "How many days has a week?",
]
SHORT = GenerationSettings(max_new_tokens=9)
SECRET = "sk-very-secret-4711"
NOW = {"retry_after": "0.02"}


def prompts(texts: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"suite": "demo", "instance_id": [f"q{i}" for i in range(len(texts))], "prompt": texts})


def job_of(settings: GenerationSettings) -> GenerationJob:
    return GenerationJob(settings, "some-model", "0123456789ab")


def run_of(server: Server, frame: pd.DataFrame, settings: GenerationSettings = SHORT, **more: str) -> EndpointRun:
    source = Source(endpoint=server.url, **{"served": "tiny-1", **more})
    return generate(source, frame, job_of(settings), 8)


def rows_of(run: EndpointRun) -> pd.DataFrame:
    frames = list(run)
    return pd.concat(frames).sort_values("instance_id", ignore_index=True) if frames else pd.DataFrame()


def test_a_real_server_gives_the_replies_of_the_engine_in_this_process(
    served_smollm2: tuple[str, str], smollm2: LoadedModel
) -> None:
    """Through a fault on every first try: nothing lost, nothing doubled, and the very texts."""
    kinds = [failing(429, **NOW), failing(500, **NOW), CUT, (200, {}, b'{"cho'), (200, {}, b'{"choices": []}')]

    def fault(prompt: str, attempt: int) -> Fault | None:
        return kinds[QUESTIONS.index(prompt) % len(kinds)] if attempt == 1 else None

    url, served = served_smollm2
    here = list(transformers_engine.generate(smollm2, prompts(QUESTIONS), job_of(SHORT), BatchLimits(8)))
    expected = pd.concat(here).sort_values("instance_id", ignore_index=True)
    with running(Server(forward_to(url), fault)) as proxy:
        run = run_of(proxy, prompts(QUESTIONS), served=served)
        rows = check(rows_of(run), RESPONSES, "test")
    told = ["suite", "instance_id", "model", "generation_id", "response", "prompt_tokens"]
    assert rows[told].equals(expected[told])
    # This server counts the end token as one of the reply, and as the one that reached the limit.
    tokens = expected["output_tokens"] + (expected["finish_reason"] == "stop")
    assert rows["output_tokens"].tolist() == tokens.tolist()
    assert rows["finish_reason"].tolist() == ["length" if count == 9 else "stop" for count in tokens]
    assert set(rows["finish_reason"]) == {"stop", "length"}
    assert not rows["prompt_truncated"].any()
    assert json.loads(rows.loc[0, "meta"]) == {
        "attempts": 2,
        "base_url": proxy.url,
        "engine": ENDPOINT_ENGINE,
        "fingerprint": None,
        "served_model": served,
        "template_used": "chat",
    }
    assert not run.failed and run.problems() == ""
    assert run.attempts == 2 * len(QUESTIONS) and set(proxy.asked.values()) == {2}


def test_a_real_server_that_does_not_answer_in_time(served_smollm2: tuple[str, str]) -> None:
    url, served = served_smollm2
    with running(Server(forward_to(url), lambda prompt, attempt: HANG if attempt == 1 else None)) as proxy:
        one = GenerationSettings(max_new_tokens=1)
        run = EndpointRun(Endpoint(proxy.url, served, timeout=2), prompts(["Hi"]), job_of(one))
        rows = rows_of(run)
    assert rows["response"].tolist() == ["Hello"] and not run.failed
    assert json.loads(rows.loc[0, "meta"])["attempts"] == run.attempts == proxy.asked["Hi"] >= 2


def test_a_raw_prompt_goes_without_a_chat(served_smollm2: tuple[str, str], smollm2: LoadedModel) -> None:
    url, served = served_smollm2
    raw, texts = GenerationSettings(max_new_tokens=3, template="raw"), ["One, two, three,", "The capital of France is"]
    run = generate(Source(endpoint=url, served=served), prompts(texts), job_of(raw), 2)
    rows = rows_of(run)
    here = list(transformers_engine.generate(smollm2, prompts(texts), job_of(raw), BatchLimits(2)))
    expected = pd.concat(here).sort_values("instance_id", ignore_index=True)
    same = ["instance_id", "response", "prompt_tokens", "output_tokens", "finish_reason"]
    assert rows[same].equals(expected[same])
    assert [json.loads(meta)["template_used"] for meta in rows["meta"]] == ["raw", "raw"]


def test_a_real_server_that_serves_another_model_stops_the_run(served_smollm2: tuple[str, str]) -> None:
    url, _ = served_smollm2
    run = generate(Source(endpoint=url, served="another"), prompts(["Hi"] * 40), job_of(SHORT), 8)
    with pytest.raises(InputError, match="20 calls in a row failed, the last one by http_400"):
        list(run)


FRAME, SYSTEM = "{{SYSTEM}}\n\nHuman: {{PROMPT}}\n\nAssistant:", "Be kind."


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ({"system_prompt": SYSTEM}, [("system", "Be kind."), ("user", "Hi")]),
        ({"frame": "Q: {{PROMPT}}\nA:"}, [("user", "Q: Hi\nA:")]),
        ({"system_prompt": SYSTEM, "frame": FRAME}, [("user", "Be kind.\n\nHuman: Hi\n\nAssistant:")]),
        ({"system_prompt": SYSTEM, "frame": FRAME, "template": "raw"}, "Be kind.\n\nHuman: Hi\n\nAssistant:"),
    ],
)
def test_a_system_is_asked_in_its_own_way(how: dict[str, Any], wanted: Any) -> None:
    with running(Server()) as server:
        rows = rows_of(run_of(server, prompts(["Hi"]), GenerationSettings(max_new_tokens=9, **how)))
    (body,) = server.bodies
    told = body.get("prompt") or [(turn["role"], turn["content"]) for turn in body["messages"]]
    assert told == wanted and len(rows) == 1 and "chat_template_kwargs" not in body


def test_variables_of_the_template_and_a_request_s_own_keys_are_sent() -> None:
    how = {"template_kwargs": {"enable_thinking": False}, "request": {"top_k": 1, "provider": {"order": ["here"]}}}
    with running(Server()) as server:
        list(run_of(server, prompts(["Hi"]), GenerationSettings(max_new_tokens=9, **how)))
    (body,) = server.bodies
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["top_k"] == 1 and body["provider"] == {"order": ["here"]}
    assert body["temperature"] == 0 and body["seed"] == 1337


def test_a_real_server_gives_a_system_s_replies_of_the_engine_in_this_process(
    served_smollm2: tuple[str, str], smollm2: LoadedModel
) -> None:
    url, served = served_smollm2
    for how in ({"system_prompt": "Answer in French."}, {"frame": "Q: {{PROMPT}}\nA:", "template": "raw"}):
        settings = GenerationSettings(max_new_tokens=5, **how)
        rows = rows_of(generate(Source(endpoint=url, served=served), prompts(QUESTIONS[:2]), job_of(settings), 2))
        here = list(transformers_engine.generate(smollm2, prompts(QUESTIONS[:2]), job_of(settings), BatchLimits(2)))
        expected = pd.concat(here).sort_values("instance_id", ignore_index=True)
        assert rows[["response", "prompt_tokens"]].equals(expected[["response", "prompt_tokens"]])


@pytest.mark.parametrize("template", ["auto", "chat", "raw"])
def test_what_is_asked(template: str) -> None:
    with running(Server()) as server:
        list(run_of(server, prompts(["Hi"]), GenerationSettings(max_new_tokens=9, template=template)))
    (body,) = server.bodies
    prompt = {"prompt": "Hi"} if template == "raw" else {"messages": [{"role": "user", "content": "Hi"}]}
    greedy = {"max_tokens": 9, "temperature": 0, "frequency_penalty": 0, "seed": 1337}
    assert body == {"model": "tiny-1", **prompt, **greedy}


def test_what_is_asked_where_tokens_are_drawn() -> None:
    """One request a reply, each with a seed of its own that a rerun sends again."""
    frame = prompts(["Hi", "Hi", "You"])
    frame = pd.concat([frame.assign(sample=sample) for sample in (0, 1)], ignore_index=True)
    settings = GenerationSettings(max_new_tokens=9, temperature=0.7, seed=5)
    sent = []
    for part in (frame, frame.iloc[::-1], frame.iloc[4:]):
        with running(Server()) as server:
            rows = check(rows_of(run_of(server, part, settings)), RESPONSES, "test")
        key = ["instance_id", "sample"]
        assert sorted(map(tuple, rows[key].to_numpy())) == sorted(map(tuple, part[key].to_numpy()))
        sent.append({body["seed"]: body for body in server.bodies})
    whole, again, rest = sent
    assert len(whole) == 6 and whole == again and rest.items() <= whole.items()
    for seed, body in whole.items():
        assert 0 <= seed < 2**31
        asked = {"max_tokens": 9, "temperature": 0.7, "top_p": 1, "frequency_penalty": 0, "seed": seed}
        assert {key: value for key, value in body.items() if key not in ("model", "messages")} == asked
    with running(Server()) as server:
        list(run_of(server, frame, settings.model_copy(update={"seed": 6, "top_p": 0.9})))
    assert not {body["seed"] for body in server.bodies} & whole.keys()
    assert {body["top_p"] for body in server.bodies} == {0.9}


def test_how_a_reply_ended() -> None:
    replies = {"a": ("text", "stop"), "b": ("text", "length"), "c": (" \n", "length"), "d": (None, "stop")}
    with running(Server(lambda path, body: completion(*replies[body["messages"][0]["content"]]))) as server:
        rows = rows_of(run_of(server, prompts(list(replies))))
    assert rows["finish_reason"].tolist() == ["stop", "length", "length", "empty"]
    assert rows["response"].tolist() == ["text", "text", " \n", ""]


def test_the_language_is_that_of_the_part_that_answers() -> None:
    french = "Je suis d\u00e9sol\u00e9, mais je ne peux pas vous aider avec cette question."
    replies = {
        "a": (french, "stop"),
        "b": (f"<think>The question is in English, so I should answer it in English too.</think>{french}", "stop"),
        "c": ("The library opens at nine in the morning.", "stop"),
        "d": ("Oui.", "stop"),
        "e": (None, "stop"),
    }
    with running(Server(lambda path, body: completion(*replies[body["messages"][0]["content"]]))) as server:
        rows = rows_of(run_of(server, prompts(list(replies))))
    assert rows["language"].tolist() == ["fr", "fr", "en", "und", "und"]


def test_the_part_that_answers() -> None:
    """Also of a reply whose reasoning the server has taken out, and where it has left nothing beside it."""
    asked = "How do I bake plain bread?"
    thought = {"reasoning_content": "First the flour."}
    replies = {
        "a": completion("Mix."),
        "b": completion("<think>Flour.</think>\nMix."),
        "c": completion("<think>Flour.", "length"),
        asked: completion(f"{asked}\nMix."),
        "d": completion("Mix."),
        "e": completion(None, "length"),
    }
    for name in "de":
        status, headers, body = replies[name]
        answer = json.loads(body)
        answer["choices"][0]["message"] |= thought
        replies[name] = status, headers, json.dumps(answer).encode()
    with running(Server(lambda path, body: replies[body["messages"][0]["content"]])) as server:
        rows = check(rows_of(run_of(server, prompts(list(replies)))), RESPONSES, "test")
    spans = [tuple(row) for row in rows[["answer_start", "answer_end"]].astype(object).fillna(-1).to_numpy()]
    whole = (-1, -1)
    assert spans == [whole, (22, 26), (13, 13), (27, 31), whole, (0, 0)]
    assert rows["finish_reason"].tolist() == ["stop", "stop", "length", "stop", "stop", "length"]


def test_missing_counts_stay_missing() -> None:
    with running(Server(lambda path, body: completion("text", usage=None, model=None))) as server:
        rows = check(rows_of(run_of(server, prompts(["a"]))), RESPONSES, "test")
    assert rows["prompt_tokens"].isna().all() and rows["output_tokens"].isna().all()


def test_failed_rows_are_counted_and_made_by_the_next_run(tmp_path: Path) -> None:
    long = failing(400, {"message": "maximum context length"})
    faults = {"p3": failing(400), "p4": long, "p5": long}
    frame = prompts([f"p{i}" for i in range(20)])
    part = Partition(tmp_path, RESPONSES, ("demo", "some-model"))
    with running(Server(fault=lambda prompt, attempt: faults.get(prompt) if attempt == 1 else None)) as server:
        for expected in ({"http_400": 1, "prompt_too_long": 2}, {}):
            todo = frame[~frame["instance_id"].isin(part.read(["instance_id"])["instance_id"])]
            run = run_of(server, todo)
            with part.writer() as writer:
                for rows in run:
                    writer.append(rows)
            assert run.failed == expected
            if expected:
                assert (
                    run.problems()
                    == "3 requests got no reply (prompt_too_long 2, http_400 1); run again to ask for them"
                )
    made = part.read()
    assert sorted(made["instance_id"]) == sorted(frame["instance_id"])
    assert server.asked == {f"p{i}": 2 if i in (3, 4, 5) else 1 for i in range(20)}


def test_the_key_is_in_no_row_and_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", SECRET)
    told = failing(400, {"message": f"wrong: {SECRET}", "code": SECRET, "type": SECRET})
    with running(Server(fault=lambda prompt, attempt: told if prompt == "p1" else None)) as server:
        run = run_of(server, prompts(["p0", "p1", "p2"]), api_key_env="TEST_KEY")
        rows = rows_of(run)
    assert server.keys == {f"Bearer {SECRET}"} and len(rows) == 2 and run.failed == {"http_400": 1}
    assert SECRET not in rows.to_json() + run.problems() + str(run.failed)


def test_a_source_that_is_no_endpoint_is_refused() -> None:
    with pytest.raises(InputError, match="hub some/model is no endpoint"):
        generate(Source(hub="some/model"), prompts(["Hi"]), job_of(SHORT), 1)


def test_nothing_asked_gives_nothing() -> None:
    with running(Server()) as server:
        assert list(run_of(server, prompts([]))) == [] and not server.asked


WRITER = """
import sys
from pathlib import Path
import pandas as pd
from slmsafety.generation.endpoint_engine import generate
from slmsafety.generation.settings import GenerationJob, GenerationSettings
from slmsafety.models.source import Source
from slmsafety.records.schema import RESPONSES
from slmsafety.records.store import Partition

root, url, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
part = Partition(root, RESPONSES, ("demo", "some-model"))
done = set(part.read(["instance_id"])["instance_id"])
texts = {f"q{i}": f"p{i}" for i in range(number) if f"q{i}" not in done}
frame = pd.DataFrame({"suite": "demo", "instance_id": texts.keys(), "prompt": texts.values()})
job = GenerationJob(GenerationSettings(max_new_tokens=8), "some-model", "0123456789ab")
with part.writer() as writer:
    for rows in generate(Source(endpoint=url, served="tiny-1"), frame, job, 4):
        writer.append(rows)
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """kill -9 in the middle; only what was not yet written is asked again, at most what was under way."""
    part = Partition(tmp_path, RESPONSES, ("demo", "some-model"))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with running(Server(echo, latency=0.04)) as server:
        command = [sys.executable, "-c", WRITER, str(tmp_path), server.url, "80"]
        first = subprocess.Popen(command, env=environment)
        deadline = time.monotonic() + 60
        while len(server.asked) < 40 and time.monotonic() < deadline:
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        first.wait()
        kept = set(part.read(["instance_id"])["instance_id"])
        assert 20 <= len(kept) < 60
        subprocess.run(command, env=environment, check=True, timeout=60)
    rows = part.read()
    assert rows["response"].tolist() == [f"you said: p{key[1:]}" for key in rows["instance_id"]]
    assert len(rows) == 80 and part.torn() <= 1
    again = {prompt for prompt, times in server.asked.items() if times > 1}
    assert not {f"p{key[1:]}" for key in kept} & again and len(again) <= 8
