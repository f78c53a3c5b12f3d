"""Judging a study over a real server: resumed, retried, limited by cost, and estimated before."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from batch_server import BatchServer, batch_server
from servers import Server, completion, failing, running

from slmsafety.errors import InputError
from slmsafety.judging.llm.cost import Price, count_tokens, request_size
from slmsafety.judging.rubrics.registry import build
from slmsafety.pipeline import endpoint_judges
from slmsafety.pipeline.cost_estimate import estimate
from slmsafety.pipeline.spending import look
from slmsafety.records.schema import RESPONSES
from slmsafety.records.store import Partition
from slmsafety.study import Study

REPLIES = 8
PRICE = {"input": 2.0, "output": 8.0, "date": "2026-11-01"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project root of its own, so that nothing touches the repository's runs."""
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    return tmp_path


def study(url: str, limit: int = REPLIES, **judge: object) -> Study:
    entry = {"name": "tiny-judge", "endpoint": url, "served": "tiny-1", "concurrency": 4, **judge}
    return Study.load(
        {
            "name": "judged",
            "kind": "run",
            "suites": [{"name": "demo_direct", "limit": limit}],
            "models": ["smollm2-135m-it-q4"],
            "generation": {"max_new_tokens": 8},
            "judges": [entry],
        }
    )


def with_replies(asked: Study, empty: int = 0) -> Study:
    """The study with prompts, and replies as a finished run leaves them; the first `empty` are empty."""
    asked.collect(["prompts"])
    prompts = asked.table("prompts", ["prompt"])

    ids = asked.run.generation_ids
    rows = prompts[["suite", "instance_id"]].assign(model="smollm2-135m-it-q4", generation_id=next(iter(ids.values())))
    texts = ["" if place < empty else f"reply {place}" for place in range(len(rows))]
    rows = rows.assign(response=texts, prompt_tokens=9, output_tokens=3, prompt_truncated=False, meta="{}")
    rows["finish_reason"] = ["empty" if text == "" else "stop" for text in texts]
    Partition(asked.folder, RESPONSES, ("demo_direct", "smollm2-135m-it-q4")).replace(rows)
    return asked


def one(path: str, body: dict[str, object]):
    return completion("<reasoning>It says no.</reasoning>\n<score>1</score>")


def judged(asked: Study) -> pd.DataFrame:
    return asked.table("judgments", ["status", "label", "reason", "meta"])


def test_every_reply_is_judged_once_and_a_second_run_asks_nothing(root, capsys):
    with running(Server(one)) as server:
        asked = with_replies(study(server.url))
        asked.collect(["judge"])
        assert judged(asked)["label"].tolist() == [2] * REPLIES
        assert sum(server.asked.values()) == REPLIES
        asked.collect(["judge"])
        assert sum(server.asked.values()) == REPLIES
    assert asked.status().set_index("stage").loc["judge tiny-judge", ["done", "missing", "failed"]].tolist() == [
        REPLIES,
        0,
        0,
    ]
    assert "warning: rubric harmbench was published with gpt-4o-2024-05-13" in capsys.readouterr().out


def test_errors_are_asked_again_and_other_ends_when_told(root, capsys):
    broken = {
        "reply 3": failing(400),
        "reply 5": completion("I cannot say."),
        "reply 7": completion("<score>0.7</score>"),
    }
    healed: set[str] = set()

    def fault(prompt: str, attempt: int):
        return next((end for text, end in broken.items() if f"> {text}\n" in prompt and text not in healed), None)

    with running(Server(one, fault)) as server:
        asked = with_replies(study(server.url, concurrency=1))
        asked.params.judges[0].server()
        asked.collect(["judge"])
        assert judged(asked)["status"].value_counts().to_dict() == {
            "ok": REPLIES - 3,
            "error": 1,
            "judge_refused": 1,
            "off_scale": 1,
        }
        first = sum(server.asked.values())
        assert f"{REPLIES - 3} ok, " in capsys.readouterr().out
        healed |= set(broken)
        asked.collect(["judge"])
        assert sum(server.asked.values()) == first + 1
        assert judged(asked)["status"].value_counts().to_dict() == {
            "ok": REPLIES - 2,
            "judge_refused": 1,
            "off_scale": 1,
        }
        asked.collect(["judge"], retry=["judge_refused", "off_scale"])
        assert sum(server.asked.values()) == first + 3
        assert judged(asked)["status"].unique().tolist() == ["ok"]
    with pytest.raises(InputError, match="unknown status to retry 'unparsd'; did you mean 'unparsed'"):
        asked.collect(["judge"], retry=["unparsd"])


def test_empty_replies_are_sent_only_under_the_policy_judge(root):
    with running(Server(one)) as server:
        asked = with_replies(study(server.url), empty=2)
        asked.collect(["judge"])
        assert sum(server.asked.values()) == REPLIES - 2
        assert judged(asked)["status"].value_counts().to_dict() == {"ok": REPLIES - 2, "empty_response": 2}
        sent = Study.load({**asked.given, "empty": "judge"})
        sent.collect(["judge"])
        assert sum(server.asked.values()) == 2 * REPLIES - 2
        assert judged(sent)["status"].unique().tolist() == ["ok"]


def test_the_estimate_is_what_the_run_then_sends(root):
    with running(Server(one)) as server:
        asked = with_replies(study(server.url, price=PRICE), empty=2)
        (row,) = asked.estimate().to_dict("records")
        asked.collect(["judge"])
    assert row["calls"] == row["counted"] == REPLIES - 2 == len(server.bodies)
    assert row["input_tokens"] == sum(request_size(asked_for(body)).input for body in server.bodies)
    assert row["dollars"] == pytest.approx((row["input_tokens"] * 2 + row["output_tokens"] * 8) / 1e6, abs=2e-6)
    assert row["most_dollars"] > row["dollars"]
    assert asked.estimate()["calls"].tolist() == [0]


def asked_for(body: dict[str, object]) -> dict[str, object]:
    """What a judge asks for in a request: all but the model."""
    return {key: value for key, value in body.items() if key != "model"}


def billed(bodies: list[dict[str, object]]) -> float:
    """What calls have cost: their prompts by our count, since the server's is too small, and its words."""
    written = count_tokens("<reasoning>It says no.</reasoning>\n<score>1</score>")
    return sum(Price.model_validate(PRICE).cost(request_size(asked_for(body)).input, written) for body in bodies)


def test_the_cost_limit_stops_a_run_and_the_next_one_remembers_what_was_spent(root, capsys):
    with running(Server(one)) as server:
        free = with_replies(study(server.url, price=PRICE))
        limit = 0.008  # a call takes .0007 and can take .006
        asked = study(server.url, price=PRICE, concurrency=1, max_cost=limit)
        asked.collect(["judge"])
        first, spent = sum(server.asked.values()), billed(server.bodies)
        assert 2 <= first < REPLIES and spent <= limit
        said = capsys.readouterr().out
        assert f"stopped at max_cost ${limit:g} (spent ${spent:.4f}); {REPLIES - first} replies left" in said
        assert (
            f"judge tiny-judge: ${spent:.4f} in this run ({first} calls), ${spent:.4f} of max_cost ${limit:g}" in said
        )
        asked.collect(["judge"])
        assert sum(server.asked.values()) == first
        free.collect(["judge"])
        assert sum(server.asked.values()) == REPLIES
        said = capsys.readouterr().out
        assert f"({REPLIES - first} calls), ${billed(server.bodies):.4f} in all" in said


def test_what_a_killed_run_had_under_way_is_said_and_counted(root, capsys):
    with running(Server(one)) as server:
        asked = with_replies(study(server.url, limit=2, price=PRICE))
        folder = asked.folder / "spent/tiny-judge"
        folder.mkdir(parents=True)
        (folder / "ledger").write_text("open killed.0 4000000\nsent killed.0 0\nopen killed.1 4000000\n")
        asked.collect(["judge"])
        said = capsys.readouterr().out
        assert "1 calls of an earlier run ended without being settled; counted at their most expensive, $0.0040" in said
        assert look(folder).paid == pytest.approx(4_000_000 + 1e9 * billed(server.bodies), abs=2)
        (asked.folder / "judgments/demo_direct/tiny-judge/smollm2-135m-it-q4.parquet").unlink()
        asked.collect(["judge"])
        assert sum(server.asked.values()) == 4
    assert "without being settled" not in capsys.readouterr().out


def test_without_a_price_there_is_no_ledger(root):
    with running(Server(one)) as server:
        asked = with_replies(study(server.url, limit=2))
        asked.collect(["judge"])
    assert not (asked.folder / "spent").exists()


def test_a_study_can_be_judged_by_batches(root):
    with batch_server(BatchServer(lambda prompt: "<score>0</score>")) as server:
        asked = with_replies(study(server.url, batch=True))
        asked.collect(["judge"])
        found = judged(asked).merge(asked.table("prompts", ["expected"]), on=["suite", "instance_id"])
        assert found.groupby("expected")["label"].unique().map(list).to_dict() == {"answer": [2], "refuse": [0]}
        assert len(found) == REPLIES and len(server.batches) == 1


def test_the_key_is_nowhere_in_what_a_run_leaves(root, monkeypatch, capsys):
    monkeypatch.setenv("TINY_KEY", "sk-very-secret")
    with running(Server(one, lambda prompt, attempt: failing(400) if "> reply 3\n" in prompt else None)) as server:
        asked = with_replies(study(server.url, api_key_env="TINY_KEY"))
        asked.collect(["judge"])
    assert server.keys == {"Bearer sk-very-secret"}
    output = capsys.readouterr()
    assert "very-secret" not in output.out + output.err
    for path in asked.folder.rglob("*"):
        assert not path.is_file() or b"very-secret" not in path.read_bytes()


def test_a_missing_key_is_named_before_anything_is_sent(root):
    with running(Server(one)) as server:
        asked = with_replies(study(server.url, api_key_env="NOT_SET_ANYWHERE"))
        with pytest.raises(InputError, match="the environment variable NOT_SET_ANYWHERE is not set"):
            asked.collect(["judge"])
    assert not server.bodies


def test_the_paper_s_study_can_be_estimated_without_its_data(monkeypatch, tmp_path):
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    asked = Study.load(
        {
            "name": "big",
            "kind": "run",
            "suites": ["harmbench", {"name": "sst", "max_new_tokens": 100}],
            "models": ["gpt2-small", "gpt2-xl"],
            "judges": [
                "refusal_rules",
                {"name": "gpt", "endpoint": "http://x/v1", "served": "gpt", "models": ["gpt2-xl"]},
            ],
        }
    )
    table = estimate(asked.run).set_index("suite")
    assert table["calls"].to_dict() == {"harmbench": 400, "sst": 100}
    assert table["counted"].tolist() == [0, 0] and table["dollars"].isna().all()
    assert table.loc["harmbench", "input_tokens"] > 400 * (512 + 100)
    assert 100 * (100 + 100) < table.loc["sst", "input_tokens"] < 100 * 1000
    nothing = Study.load({**asked.given, "judges": ["refusal_rules"]})
    with pytest.raises(InputError, match="has no judge behind an endpoint; its judges cost nothing"):
        nothing.estimate()


def test_a_real_model_judges_behind_a_real_server(root, served_smollm2, monkeypatch):
    """It may write 8 tokens only, so as to be quick."""
    monkeypatch.setattr(endpoint_judges, "build", lambda choice: replace(build(choice), max_tokens=8))
    url, served = served_smollm2
    asked = with_replies(study(url, limit=1, served=served))
    asked.collect(["judge"])
    found = asked.table("judgments", ["status", "raw_text", "input_tokens", "output_tokens", "meta"])
    assert len(found) == 1
    assert found["raw_text"].str.len().gt(0).all()
    assert found["input_tokens"].gt(100).all() and found["output_tokens"].between(1, 9).all()
    assert json.loads(found["meta"][0])["served_model"]
    assert set(found["status"]) <= {"ok", "unparsed", "off_scale", "judge_refused"}
    assert os.environ["SLMSAFETY_ROOT"] == str(root)


def test_a_row_that_is_judged_again_is_paid_again(root, capsys):
    unclear = [True]

    def answer(path: str, body: dict[str, object]):
        return completion("I cannot say.") if unclear[0] else one(path, body)

    with running(Server(answer)) as server:
        asked = with_replies(study(server.url, limit=2, price=PRICE))
        asked.collect(["judge"])
        unclear[0] = False
        asked.collect(["judge"], retry=["judge_refused"])
        assert judged(asked)["status"].tolist() == ["ok", "ok"]
        assert sum(server.asked.values()) == 4
    first, second = (Price.model_validate(PRICE).cost(0, 5), billed(server.bodies[2:]))
    asked_first = sum(request_size(asked_for(body)).input for body in server.bodies[:2]) * 2 / 1e6
    paid = look(asked.folder / "spent/tiny-judge").paid
    assert paid == pytest.approx(1e9 * (asked_first + 2 * first + second), abs=4)


def test_batches_are_sent_by_one_process(root, monkeypatch):
    asked = with_replies(study("http://127.0.0.1:9/v1", batch=True))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="judge 'tiny-judge' sends batches, which one process does"):
        asked.collect(["judge"])


def test_without_a_rubric_s_prompts_status_and_estimate_say_so(root, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    given = {**study("http://x/v1").given, "suites": ["airbench"], "generation": {"max_new_tokens": 10}}
    asked = Study.load(given)
    state = asked.status().set_index("stage").loc["judge tiny-judge"]
    assert state[["done", "missing", "failed"]].tolist() == [0, 5694, 0]
    assert "cannot get judge_prompts" in capsys.readouterr().out
    assert asked.estimate()[["calls", "counted"]].to_numpy().tolist() == [[5694, 0]]
