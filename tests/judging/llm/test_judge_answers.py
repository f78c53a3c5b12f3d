"""How a judge is asked of a current model, and what each form of its answer becomes, call by call and in batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from batch_server import BatchServer, batch_server
from judged_rows import judged_rows
from servers import Reply, Server, running

from slmsafety.errors import InputError
from slmsafety.judging.llm.asking import Asking
from slmsafety.judging.llm.batches import Batching, BatchRun
from slmsafety.judging.llm.budget import Budget
from slmsafety.judging.llm.judge import JudgeRun, LlmJudge
from slmsafety.judging.rubrics.base import RubricChoice
from slmsafety.judging.rubrics.registry import build
from slmsafety.models.endpoint import Endpoint
from slmsafety.records.schema import JUDGMENTS, check

RUBRIC = build(RubricChoice("harmbench"))
SAFE = "<reasoning>It says no.</reasoning><score>1</score>"
LONG = "Mix the flour with water and salt, and let it rest until the next morning. " * 249 + "Bake it."

PARTS = [{"type": "thinking", "thinking": "<score>0</score>"}, {"type": "text", "text": SAFE}]


def body(message: Any, finish: str = "stop", model: str | None = "judge-1", **usage: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": message}
    counts = {"prompt_tokens": 300, "completion_tokens": 5, **usage}
    return {"model": model, "choices": [choice], "usage": counts}


def text(content: Any, finish: str = "stop", **more: Any) -> dict[str, Any]:
    return body({"role": "assistant", "content": content, **more}, finish)


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


# The reply that is judged: what the judge's server answers (status, body), and the row's status, label and reason.
ANSWERS: dict[str, tuple[int, Any, str, Any, str]] = {
    "plain": (200, text(SAFE), "ok", 2, "refusal"),
    "parts": (200, text(PARTS), "ok", 2, "refusal"),
    "reasons": (200, text(SAFE, reasoning_content="<score>0</score>"), "ok", 2, "refusal"),
    "cut": (200, text("", "length", reasoning="Let me see <score>1</score>"), "unparsed", None, "cut_off"),
    "declines": (200, text(None, refusal=f"I'd rather not. {SAFE}"), "judge_refused", None, "refusal"),
    "blocked": (400, error("Filtered.", code="content_filter"), "error", None, "blocked"),
    "withheld": (200, {"object": "chat.completion", "choices": []}, "error", None, "blocked"),
    "too long": (400, error("prompt is too long: 9 tokens > 8 maximum"), "truncated_input", None, "prompt_too_long"),
    "faulty": (400, error("could not parse the messages", param="messages"), "error", None, "http_400"),
    LONG: (200, text(SAFE), "truncated_input", None, "input_cut_by_server"),
}  # fmt: skip


def judge(url: str, **more: Any) -> LlmJudge:
    return LlmJudge("j", RUBRIC, Endpoint(url, "judge-1", retries=0, concurrency=2), **more)


def given(prompt: str) -> tuple[int, Any]:
    """The answer for the reply that stands in a judge's prompt."""
    return next(answer[:2] for reply, answer in ANSWERS.items() if f"> {reply}\n" in prompt)


def reply(path: str, asked: dict[str, Any]) -> Reply:
    status, answer = given(asked["messages"][-1]["content"])
    return status, {}, json.dumps(answer).encode()


def table(run: JudgeRun) -> pd.DataFrame:
    return check(pd.concat(list(run)), JUDGMENTS, "test").sort_values("instance_id", ignore_index=True)


def found_by(url: str, folder: Path | None, replies: list[str], **more: Any) -> pd.DataFrame:
    if folder is None:
        return table(JudgeRun(judge(url, **more), judged_rows(replies), "j" * 12, Budget(None)))
    return table(
        BatchRun(judge(url, **more), judged_rows(replies), "j" * 12, Budget(None), Batching(folder, seconds=0.01))
    )


@pytest.mark.parametrize("batch", [False, True])
def test_each_answer_is_the_same_row_call_by_call_and_in_a_batch(batch: bool, tmp_path: Path) -> None:
    replies = list(ANSWERS)
    if batch:
        with batch_server(BatchServer(given)) as server:
            found = found_by(server.url, tmp_path, replies)
    else:
        with running(Server(reply)) as server:
            found = found_by(server.url, None, replies)
            assert set(server.asked.values()) == {1}
    labels = [None if pd.isna(label) else int(label) for label in found["label"]]
    ended = list(zip(found["status"], labels, found["reason"], strict=True))
    assert ended == [answer[2:] for answer in ANSWERS.values()]
    metas = dict(zip(replies, map(json.loads, found["meta"]), strict=True))
    texts = dict(zip(replies, found["raw_text"], strict=True))
    assert metas["blocked"]["said"] == "content_filter: Filtered." and "said" not in metas["plain"]
    assert texts["declines"] == f"I'd rather not. {SAFE}" and texts["reasons"] == SAFE
    thought = {reply: meta.get("reasoning_characters") for reply, meta in metas.items()}
    assert [reply for reply, count in thought.items() if count is not None] == ["parts", "reasons", "cut"]
    assert thought["reasons"] == 16


def test_what_the_judged_reply_says_is_not_kept_of_an_error() -> None:
    secret = "this is the reply of the model, which stands in no other column"
    with running(Server(lambda path, asked: (400, {}, json.dumps(error(f"bad: {secret}")).encode()))) as server:
        found = found_by(server.url, None, [secret])
    assert secret[:24] not in found.drop(columns="reason").to_json() and found["reason"].tolist() == ["http_400"]


@pytest.mark.parametrize(
    ("asking", "sent", "defined"),
    [
        (Asking(), {"temperature": 0, "max_tokens": 256}, {}),
        (Asking(max_tokens=256), {"temperature": 0, "max_tokens": 256}, {}),
        (Asking(2000), {"temperature": 0, "max_tokens": 2000}, {"max_tokens": 2000}),
        (
            Asking(2000, "max_completion_tokens", None),
            {"max_completion_tokens": 2000},
            {"max_tokens": 2000, "token_key": "max_completion_tokens", "temperature": None},
        ),
    ],
)
def test_what_is_sent_and_what_defines_the_judge(asking: Asking, sent: Any, defined: Any) -> None:
    with running(Server(reply)) as server:
        asked = judge(server.url, asking=asking, request={"top_k": 1})
        found_by(server.url, None, ["plain"], asking=asking, request={"top_k": 1})
    (body,) = server.bodies
    del body["messages"]
    assert body == {"model": "judge-1", "top_k": 1, **sent}
    assert asked.definition() == {**judge(server.url, request={"top_k": 1}).definition(), **defined}
    assert asked.max_tokens == next(sent[key] for key in sent if "tokens" in key)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    ("parameter", "hint"),
    [
        ("max_tokens", "the judge's keys max_tokens and token_key say how many"),
        ("temperature", "with the key temperature: null the judge is sent none"),
        ("top_k", "cannot be used; or"),
    ],
)
def test_a_refused_parameter_ends_the_run_with_the_server_s_words(
    batch: bool, parameter: str, hint: str, tmp_path: Path
) -> None:
    said = error(f"Unsupported parameter: '{parameter}' cannot be used; or so.", code="unsupported_parameter")
    refused = (400, said)
    calls = Server(lambda path, asked: (400, {}, json.dumps(said).encode()))
    with (
        batch_server(BatchServer(lambda prompt: refused)) if batch else running(calls) as server,
        pytest.raises(InputError, match="refuses what a request for the model 'judge-1' asks for") as caught,
    ):
        found_by(server.url, tmp_path if batch else None, ["plain"])
    assert f"unsupported_parameter: Unsupported parameter: '{parameter}'" in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.parametrize("batch", [False, True])
def test_another_model_stops_the_run_and_what_was_answered_is_kept(batch: bool, tmp_path: Path) -> None:
    """The second reply is answered by another model: it gets no label, the others do."""

    def answer(prompt: str) -> tuple[int, Any]:
        return 200, body({"content": SAFE}, model="judge-2" if "> other\n" in prompt else "provider/Judge-1:free")

    def call(path: str, asked: dict[str, Any]) -> Reply:
        return 200, {}, json.dumps(answer(asked["messages"][-1]["content"])[1]).encode()

    replies = ["one", "other", *["more"] * 20]
    with batch_server(BatchServer(answer)) if batch else running(Server(call)) as server:
        folder = tmp_path if batch else None
        given = (judge(server.url), judged_rows(replies), "j" * 12, Budget(None))
        run = JudgeRun(*given) if folder is None else BatchRun(*given, Batching(folder, seconds=0.01))
        frames = []
        with pytest.raises(InputError, match="answered for the model 'judge-2', and 'judge-1' was asked for") as caught:
            for frame in run:
                frames.append(frame)
        assert "served_as: judge-2" in str(caught.value)
        found = pd.concat(frames).sort_values("instance_id", ignore_index=True)
        assert len(found) == 22 if batch else len(found) == sum(server.asked.values()) < 12
        wrong = found[found["reason"] == "other_model"]
        assert wrong["instance_id"].tolist() == ["id001"] and wrong["status"].tolist() == ["error"]
        assert wrong["label"].isna().all() and (found.drop(wrong.index)["status"] == "ok").all()
        for names in (("judge-2",), ("any",)):
            again = found_by(server.url, folder, replies[:3], served_as=names)
            assert again["status"].tolist() == ["ok"] * 3
