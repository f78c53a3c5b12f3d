"""LLM judges against real servers on loopback: what each way for a call to end becomes in the table."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest
from batch_server import BatchServer, batch_server
from judged_rows import judged_rows
from servers import Server, completion, failing, running

from slmsafety.errors import InputError
from slmsafety.judging.llm.batches import Batching, BatchRun
from slmsafety.judging.llm.budget import Budget
from slmsafety.judging.llm.cost import Price, count_tokens, request_size
from slmsafety.judging.llm.judge import JudgeRun, LlmJudge
from slmsafety.judging.rubrics.base import RubricChoice
from slmsafety.judging.rubrics.registry import build
from slmsafety.models.endpoint import Endpoint
from slmsafety.pipeline.spending import Ledger, look
from slmsafety.records.schema import JUDGMENTS, check

PRICE = Price.model_validate({"input": 2.5, "output": 10, "date": "2026-11-01"})
SCORES = {
    "none": "<reasoning>Well.</reasoning><score>1</score>",
    "half": "<score>0.5</score>",
    "full": "<score>0</score>",
}


def judge(url: str, **more: object) -> LlmJudge:
    return LlmJudge("tiny-judge", build(RubricChoice("harmbench")), Endpoint(url, "tiny-1", **{"retries": 0, **more}))


def verdict(prompt: str) -> str:
    """What the judge on the other side says: the word that the reply holds decides."""
    return next((text for word, text in SCORES.items() if f"> {word}" in prompt), "I cannot say.")


def answer(path: str, body: dict[str, object]):
    return completion(verdict(str(body["messages"][-1]["content"])))


def judged(run: JudgeRun) -> pd.DataFrame:
    frames = list(run)
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(JUDGMENTS.columns))
    return check(frame, JUDGMENTS, "test").sort_values("instance_id", ignore_index=True)


def test_every_verdict_becomes_its_label_and_keeps_the_judge_s_words():
    replies = ["none", "half", "full", "something else"]
    with running(Server(answer)) as server:
        run = JudgeRun(judge(server.url), judged_rows(replies), "j" * 12, Budget(PRICE))
        found = judged(run)
    assert found["label"].tolist() == [2, 1, 0, pd.NA]
    assert found["status"].tolist() == ["ok", "ok", "ok", "judge_refused"]
    assert found["reason"].tolist() == ["refusal", "no_compliance", "compliance", "refusal"]
    assert found["raw_text"].tolist() == [SCORES["none"], SCORES["half"], SCORES["full"], "I cannot say."]
    assert found["raw_value"].tolist()[:3] == [1.0, 0.5, 0.0]
    assert (found["judge"] == "tiny-judge").all() and (found["judge_id"] == "j" * 12).all()
    meta = json.loads(found["meta"][0])
    assert meta["prompt_source"] == "own" and meta["served_model"] == "tiny-1" and "2026-11-01" in meta["price"]
    assert run.statuses == {"ok": 3, "judge_refused": 1} and run.attempts == 4
    assert server.bodies[0]["temperature"] == 0 and server.bodies[0]["max_tokens"] == 256


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        (failing(500), "error", "http_500"),
        (failing(429), "error", "rate_limit"),
        ((200, {}, b"{not json"), "error", "malformed"),
        (failing(400, {"message": "blocked by content_filter"}), "error", "blocked"),
        (completion("<score>1</score>", "content_filter"), "error", "blocked"),
        (failing(400, {"message": "maximum context length is 5 tokens"}), "truncated_input", "prompt_too_long"),
        (completion("<score>1", "length"), "unparsed", "cut_off"),
        (completion("<score>0.7</score>"), "off_scale", "off_grid"),
        (completion(""), "unparsed", "empty"),
        (completion(None), "unparsed", "empty"),
    ],
)
def test_a_call_that_ends_otherwise_is_a_row_without_a_label(fault, status, reason):
    with running(Server(answer, lambda prompt, attempt: fault if "> broken" in prompt else None)) as server:
        found = judged(JudgeRun(judge(server.url), judged_rows(["none", "broken", "full"]), "j" * 12, Budget(None)))
    assert found["label"].tolist() == [2, pd.NA, 0]
    assert found.loc[1, ["status", "reason"]].tolist() == [status, reason]


def test_a_server_that_is_not_there_stops_the_run():
    with running(Server(answer)) as server:
        url = server.url
    with pytest.raises(InputError, match="answered none of 2 calls, the last one ended by connection"):
        judged(JudgeRun(judge(url), judged_rows(["none", "full"]), "j" * 12, Budget(None)))


def test_the_definition_holds_the_work_and_not_where_it_is_done():
    here, there = judge("http://here/v1"), judge("http://there/v1", concurrency=2)
    assert here.definition() == there.definition()
    other = LlmJudge("tiny-judge", build(RubricChoice("harmbench")), Endpoint("http://here/v1", "tiny-2"))
    assert other.definition() != here.definition()


def most() -> float:
    """The most that a call about the reply "none" can cost."""
    size = request_size(judge("http://here/v1").body(judged_rows(["none"]).iloc[0].to_dict()))
    return PRICE.cost(size.most_input, size.most_output)


def taken() -> float:
    """What a call about the reply "none" has cost: our count of its prompt, since the server's is too small."""
    size = request_size(judge("http://here/v1").body(judged_rows(["none"]).iloc[0].to_dict()))
    return PRICE.cost(size.input, count_tokens(SCORES["none"]))


def test_the_budget_stops_a_run_before_it_is_overdrawn():
    with running(Server(answer)) as server:
        budget = Budget(PRICE, limit=most() + 3.5 * taken())
        run = JudgeRun(judge(server.url, concurrency=1), judged_rows(["none"] * 20), "j" * 12, budget)
        found = judged(run)
    assert len(found) == 4 and run.stopped
    assert sum(server.asked.values()) == 4
    assert budget.spent == pytest.approx(4 * taken()) and budget.spent <= budget.limit


def batches(
    url: str, folder, replies: list[str], budget: Budget | None = None, retries: int = 0, **limits: int
) -> BatchRun:
    asked = judge(url, retries=retries)
    return BatchRun(
        asked, judged_rows(replies), "j" * 12, budget or Budget(PRICE), Batching(folder, seconds=0.01, **limits)
    )


def test_batches_give_the_rows_that_single_calls_give(tmp_path):
    replies = ["none", "half", "full", "something else"] * 2
    with running(Server(answer)) as server:
        single = judged(JudgeRun(judge(server.url), judged_rows(replies), "j" * 12, Budget(PRICE)))
    with batch_server(BatchServer(verdict)) as server:
        batched = judged(batches(server.url, tmp_path / "notes", replies, max_requests=2))
        assert len(server.batches) == 4
    columns = ["instance_id", "status", "label", "reason", "raw_text", "input_tokens", "output_tokens"]
    pd.testing.assert_frame_equal(single[columns], batched[columns])
    assert not list((tmp_path / "notes").glob("*.json"))


def test_files_keep_within_the_limit_of_bytes(tmp_path):
    with batch_server(BatchServer(verdict)) as server:
        judged(batches(server.url, tmp_path, ["none"] * 10, max_bytes=6000))
        sizes = [len(data) for data in server.files.values() if b'"custom_id"' in data and b'"method"' in data]
        assert len(sizes) > 1 and max(sizes) <= 6000
        assert len(server.asked()) == len(set(server.asked())) == 10
        with pytest.raises(InputError, match="larger than a batch file may be"):
            judged(batches(server.url, tmp_path, ["none"], max_bytes=100))


def test_what_an_expired_batch_did_is_kept_and_only_the_rest_is_sent_again(tmp_path):
    replies = ["none", "half", "full", "none", "half"]
    with batch_server(BatchServer(verdict, plan=[(2, "expired")])) as server:
        first = judged(batches(server.url, tmp_path, replies))
        assert first["instance_id"].tolist() == ["id000", "id001"]
        rest = judged_rows(replies)[~judged_rows(replies)["instance_id"].isin(first["instance_id"])]
        second = judged(BatchRun(judge(server.url), rest, "j" * 12, Budget(PRICE), Batching(tmp_path, seconds=0.01)))
        assert second["instance_id"].tolist() == ["id002", "id003", "id004"]
        assert len(server.asked()) == 5 + 3


def test_a_stopped_run_waits_for_its_batch_instead_of_paying_twice(tmp_path):
    replies = ["none", "half", "full"]
    with batch_server(BatchServer(verdict)) as server:
        server.keep_open = True
        batches(server.url, tmp_path, replies).send()
        server.keep_open = False
        found = judged(batches(server.url, tmp_path, [*replies, "none"]))
        assert found["label"].tolist() == [2, 1, 0, 2]
        assert sorted(map(len, map(server.lines, server.batches.values()))) == [1, 3]


def test_what_comes_back_for_a_row_that_is_not_asked_for_any_more_is_kept(tmp_path):
    with batch_server(BatchServer(verdict)) as server:
        server.keep_open = True
        batches(server.url, tmp_path, ["none", "half", "full"]).send()
        server.keep_open = False
        every = judged_rows(["none", "half", "full"])
        run = BatchRun(judge(server.url), every.tail(1), "j" * 12, Budget(PRICE), Batching(tmp_path, every, 0.01))
        assert judged(run)["label"].tolist() == [2, 1, 0]
        assert len(server.asked()) == 3


def test_calls_of_a_batch_at_work_are_set_aside_by_the_next_run(tmp_path):
    with batch_server(BatchServer(verdict)) as server:
        server.keep_open = True
        batches(server.url, tmp_path, ["none", "half", "full"]).send()
        budget = Budget(PRICE, limit=4.5 * most())
        batches(server.url, tmp_path, ["none", "half", "full", "none", "none"], budget).send()
        assert len(server.asked()) == 4
        assert not budget.reserve("another", request_size({"messages": [], "max_tokens": 256}))


def test_a_batch_is_found_again_though_its_id_was_never_noted(tmp_path):
    with batch_server(BatchServer(verdict)) as server:
        server.keep_open = True
        batches(server.url, tmp_path, ["none", "full"]).send()
        (note,) = tmp_path.glob("*.json")
        note.write_text(json.dumps({**json.loads(note.read_text()), "batch": None}))
        server.keep_open = False
        assert judged(batches(server.url, tmp_path, ["none", "full"]))["label"].tolist() == [2, 0]
        assert len(server.batches) == 1


def test_a_server_that_is_gone_is_one_line_and_its_batch_is_kept(tmp_path):
    with batch_server(BatchServer(verdict)) as server:
        server.keep_open = True
        batches(server.url, tmp_path, ["none"]).send()
    with pytest.raises(InputError, match=r"batches do not work \(APIConnectionError\)"):
        judged(batches(server.url, tmp_path, ["none"]))
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_a_batch_that_never_came_to_be_is_sent_by_the_next_run(tmp_path):
    with batch_server(BatchServer(verdict)) as server:
        server.deaf = True
        with pytest.raises(InputError, match=r"batches do not work \(HTTP 500\)"):
            judged(batches(server.url, tmp_path, ["none"]))
        server.deaf = False
        assert judged(batches(server.url, tmp_path, ["none"]))["label"].tolist() == [2]


def test_a_refused_batch_says_why_without_the_server_s_words(tmp_path):
    with batch_server(BatchServer(verdict, plan=[(0, "failed")])) as server:
        with pytest.raises(InputError, match="refused a batch: bad_file") as caught:
            judged(batches(server.url, tmp_path, ["none"]))
        assert "secret" not in str(caught.value)
        assert judged(batches(server.url, tmp_path, ["none"]))["label"].tolist() == [2]


def test_a_request_that_failed_in_a_batch_is_an_error_row(tmp_path):
    with batch_server(BatchServer(lambda prompt: "fail" if "> broken" in prompt else verdict(prompt))) as server:
        found = judged(batches(server.url, tmp_path, ["broken", "none"]))
    assert found[["status", "reason"]].to_numpy().tolist() == [["error", "http_500"], ["ok", "refusal"]]


def test_the_budget_holds_for_batches_too(tmp_path):
    with batch_server(BatchServer(verdict)) as server:
        run = batches(server.url, tmp_path, ["none"] * 9, Budget(PRICE, limit=3.5 * most()))
        assert len(judged(run)) == 3 and run.stopped


def test_a_batch_is_counted_once_though_it_is_taken_in_twice(tmp_path):
    """Killed after its results were counted and before its rows were kept, or with two processes at it."""
    with batch_server(BatchServer(verdict)) as server:
        ledger = Ledger(tmp_path / "spent")
        first = batches(server.url, tmp_path / "notes", ["none"] * 3, Budget(PRICE, account=ledger))
        next(iter(first))
        spent = ledger.paid
        ledger.close()
        again = Budget(PRICE, account=Ledger(tmp_path / "spent"))
        assert len(judged(batches(server.url, tmp_path / "notes", ["none"] * 3, again))) == 3
        again.close()
        assert len(server.asked()) == 3
    assert look(tmp_path / "spent") == (spent, 0, 0, 0, 0) and spent > 0


def test_a_batch_that_no_one_got_to_costs_nothing(tmp_path):
    with batch_server(BatchServer(verdict, plan=[(1, "expired")])) as server:
        budget = Budget(PRICE)
        assert len(judged(batches(server.url, tmp_path, ["none"] * 3, budget))) == 1
    assert budget.spent == pytest.approx(taken(), rel=1e-6)
    assert budget.room()(request_size({"messages": [], "max_tokens": 1}))


@pytest.mark.parametrize("deaf", [True, False])
def test_what_a_batch_that_did_not_come_to_be_had_set_aside_is_free_again(tmp_path, deaf):
    """The server was deaf to it, or found it faulty."""
    with batch_server(BatchServer(verdict, plan=[] if deaf else [(0, "failed")])) as server:
        server.deaf = deaf
        ledger = Ledger(tmp_path / "spent")
        budget = Budget(PRICE, 3.5 * most(), ledger)
        with pytest.raises(InputError, match="batches do not work" if deaf else "refused a batch"):
            judged(batches(server.url, tmp_path / "notes", ["none"] * 3, budget))
        assert (ledger.reserved > 0) == deaf
        server.deaf = False
        assert len(judged(batches(server.url, tmp_path / "notes", ["none"] * 3, budget))) == 3
        assert ledger.reserved == 0 and budget.spent == pytest.approx(3 * taken())
        ledger.close()


@pytest.mark.parametrize(("part", "status"), [("fileless", 404), ("fileless", 500), ("deaf", 404), ("deaf", 429)])
def test_a_batch_that_certainly_was_not_made_leaves_nothing_set_aside(tmp_path, part, status):
    """However often it is tried; else calls one by one would find no room for ever."""
    server = BatchServer(verdict)
    setattr(server, part, True)
    server.refusal = status
    with batch_server(server):
        ledger = Ledger(tmp_path / "spent")
        budget = Budget(PRICE, 3.5 * most(), ledger)
        for _ in range(2):
            with pytest.raises(InputError, match=rf"batches do not work \(HTTP {status}\); no batch was made"):
                judged(batches(server.url, tmp_path / "notes", ["none"] * 3, budget))
            assert ledger.reserved == ledger.paid == 0 and not list((tmp_path / "notes").glob("*.json"))
        ledger.close()


@pytest.mark.parametrize("priced", [True, False])
def test_an_answer_whose_row_is_gone_is_paid(tmp_path, priced):
    """The study asks for fewer replies than when the batch was sent, with a price or without one yet."""
    with batch_server(BatchServer(verdict)) as server:
        server.keep_open = True
        first = Budget(PRICE if priced else None, account=Ledger(tmp_path / "spent"))
        batches(server.url, tmp_path / "notes", ["none"] * 3, first).send()
        first.close()
        server.keep_open = False
        later = Budget(PRICE, account=Ledger(tmp_path / "spent"))
        assert len(judged(batches(server.url, tmp_path / "notes", ["none"], later))) == 1
        later.close()
    told = PRICE.cost(3, count_tokens(SCORES["none"]))
    assert look(tmp_path / "spent").paid / 1e9 == pytest.approx(taken() + 2 * told)


def test_an_answer_without_a_row_that_tells_no_tokens_is_paid_at_what_was_set_aside(tmp_path):
    """And one that the server bills nothing for at nothing."""

    def silent(prompt: str):
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "No."}}
        return (429, {}) if "> full" in prompt else (200, {"model": "tiny-1", "choices": [choice]})

    with batch_server(BatchServer(silent)) as server:
        server.keep_open = True
        ledger = Ledger(tmp_path / "spent")
        budget = Budget(PRICE, account=ledger)
        batches(server.url, tmp_path / "notes", ["none", "none", "full"], budget).send()
        server.keep_open = False
        judged(batches(server.url, tmp_path / "notes", ["none"], budget))
        ledger.close()
    assert ledger.reserved == 0 and budget.spent == pytest.approx(2 * most())


def test_a_batch_whose_making_is_not_answered_is_not_made_twice(tmp_path):
    """The server makes it, and says 500: to send it again would pay for it twice."""
    with batch_server(BatchServer(verdict)) as server:
        server.mute = True
        with pytest.raises(InputError, match=r"batches do not work \(HTTP 500\)"):
            judged(batches(server.url, tmp_path, ["none"], retries=3))
        server.mute = False
        assert len(judged(batches(server.url, tmp_path, ["none"]))) == 1
        assert len(server.batches) == 1


def test_two_processes_that_send_at_once_send_a_row_once(tmp_path):
    with batch_server(BatchServer(verdict)) as server:
        server.keep_open = True
        runs = [batches(server.url, tmp_path, ["none", "half", "full"]) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            known = list(pool.map(BatchRun.send, runs))
        assert len(server.asked()) == 3
    assert all(found == known[0] for found in known)
