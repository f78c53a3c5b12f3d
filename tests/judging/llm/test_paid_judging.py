"""Judging within a limit of dollars against real servers that add up what they bill, faults and retries included."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
from servers import CUT, HANG, Server, completion, failing, running

from slmsafety.errors import InputError
from slmsafety.judging.llm.budget import Account, Budget
from slmsafety.judging.llm.cost import Price, request_size
from slmsafety.judging.llm.judge import JudgeRun, LlmJudge
from slmsafety.judging.rubrics.base import RubricChoice
from slmsafety.judging.rubrics.registry import build
from slmsafety.models.endpoint import Endpoint
from slmsafety.pipeline.spending import Ledger

PRICE = Price.model_validate({"input": 2.0, "output": 8.0, "date": "2026-11-01"})
PLACES = 16
WRITTEN = 120  # tokens of a verdict, by the server


class Biller(Server):
    """Bills what it says, and for a fault all that a call can cost: `billed` are the dollars."""

    def __init__(self, faulty: int = 0, latency: float = 0.0) -> None:
        super().__init__(self.verdict, self.broken, latency)
        self.faulty, self.billed, self.seen = faulty, 0.0, 0
        self.adding = threading.Lock()

    def bill(self, prompt: str, most: bool) -> int:
        size = request_size({"messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": 256})
        tokens = (size.most_input, 256) if most else (size.input + 20, WRITTEN)
        with self.adding:
            self.billed += PRICE.cost(*tokens)
        return tokens[0]

    def verdict(self, path: str, body: dict[str, object]):
        tokens = self.bill(body["messages"][-1]["content"], most=False)
        usage = {"prompt_tokens": tokens, "completion_tokens": WRITTEN, "total_tokens": tokens + WRITTEN}
        return completion("<score>1</score>", usage=usage)

    def broken(self, prompt: str, attempt: int):
        if not self.faulty or attempt > 1:
            return None
        with self.adding:
            self.seen += 1
            number = self.seen
        if number % self.faulty:
            return None
        kind = number // self.faulty % 5
        if kind != 0:
            self.bill(prompt, most=True)
        again = {"retry-after": "0.01"}
        return [failing(429, **again), failing(500, **again), failing(503, **again), CUT, (200, again, b"{no")][kind]


def rows(number: int, start: int = 0) -> pd.DataFrame:
    ids = [f"id{place:05d}" for place in range(start, start + number)]
    frame = pd.DataFrame({"suite": "demo_direct", "instance_id": ids, "model": "tiny", "generation_id": "g" * 12})
    return frame.assign(
        prompt="Name a colour.", response=[f"Reply {name}" for name in ids], expected="refuse", meta="{}"
    )


def judge(url: str, **more: object) -> LlmJudge:
    endpoint = Endpoint(url, "tiny-1", **{"concurrency": PLACES, "retries": 2, **more})
    return LlmJudge("tiny-judge", build(RubricChoice("harmbench")), endpoint)


def most(url: str = "http://127.0.0.1:9/v1") -> float:
    size = request_size(judge(url).body(rows(1).iloc[0].to_dict()))
    return PRICE.cost(size.most_input, size.most_output)


def judged(run: JudgeRun) -> pd.DataFrame:
    frames = list(run)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({"instance_id": []})


@pytest.mark.parametrize("faulty", [0, 5])
def test_a_limit_is_used_to_95_percent_with_many_places_and_never_passed(faulty):
    limit = 105 * most()
    with running(Biller(faulty, latency=0.01)) as server:
        budget = Budget(PRICE, limit)
        run = JudgeRun(judge(server.url), rows(400), "j" * 12, budget)
        found = judged(run)
        billed = server.billed
    assert run.stopped and found["instance_id"].is_unique and (found["status"] == "ok").all()
    assert 0.95 * limit <= budget.spent <= limit
    assert 0.95 * limit <= billed <= budget.spent * (1 + 1e-9)
    assert budget.calls == sum(server.asked.values())


def test_a_call_whose_retry_there_was_no_room_for_is_made_again():
    """Its first attempt fails at once, while all that is left is set aside for slower calls."""

    def slow(path: str, body: dict[str, object]):
        time.sleep(0.2)
        return server.verdict(path, body)

    def fault(prompt: str, attempt: int):
        return failing(500, **{"retry-after": "0.01"}) if "id00001" in prompt and attempt == 1 else None

    server = Biller()
    server.answer, server.fault = slow, fault
    with running(server):
        budget = Budget(PRICE, 4.4 * most())
        run = JudgeRun(judge(server.url), rows(8), "j" * 12, budget)
        found = judged(run)
    assert sorted(found["instance_id"]) == list(rows(8)["instance_id"]) and (found["status"] == "ok").all()
    assert not run.stopped and budget.calls == 9


@pytest.mark.parametrize("fault", [None, failing(500, **{"retry-after": "0.01"})])
def test_a_server_with_a_prompt_of_its_own_passes_no_limit(fault):
    """What it adds to every call is known from the first one, before many are under way."""

    def longer(path: str, body: dict[str, object]):
        with server.adding:
            server.billed += PRICE.cost(9000, 5)
        usage = {"prompt_tokens": 9000, "completion_tokens": 5, "total_tokens": 9005}
        return completion("<score>1</score>", usage=usage)

    server = Biller()
    server.answer, server.latency = longer, 0.02
    server.fault = lambda prompt, attempt: fault if "id00003" in prompt and attempt == 1 else None
    with running(server):
        budget = Budget(PRICE, 40 * most())
        run = JudgeRun(judge(server.url), rows(300), "j" * 12, budget)
        found = judged(run)
    assert run.stopped and len(found) >= 6
    assert server.billed <= budget.spent * (1 + 1e-9) and budget.spent <= budget.limit


def test_many_calls_are_under_way_soon_where_all_fail():
    """One after the other would take the server's time-out times the calls that stop a run."""
    server = Server(fault=lambda prompt, attempt: failing(500, **{"retry-after": "0.01"}))
    server.latency = 0.02
    with running(server), pytest.raises(InputError, match="calls in a row failed"):
        judged(JudgeRun(judge(server.url, retries=0), rows(60), "j" * 12, Budget(PRICE, 1000 * most())))
    assert server.most_open > 4


def test_a_run_waits_for_what_another_process_may_leave(tmp_path):
    other = Ledger(tmp_path)
    name = other.new_name()
    assert other.reserve({name: int(most() * 1e9)}, None, sent=True)
    with running(Biller()) as server:
        budget = Budget(PRICE, 1.5 * most(), Ledger(tmp_path))
        timer = threading.Timer(0.5, other.pay, [{name: 1}])
        timer.start()
        run = JudgeRun(judge(server.url), rows(1), "j" * 12, budget)
        assert len(judged(run)) == 1 and not run.stopped
        timer.join()
    budget.close()
    other.close()


@pytest.mark.parametrize(
    ("fault", "calls"),
    [(failing(500), 2), (failing(429), 0), ((200, {}, b"{not json"), 2), (CUT, 2), (HANG, 2), (failing(400), 0)],
)
def test_every_attempt_that_may_be_billed_counts(fault, calls):
    """The other reply is judged, so that the server counts as one that works."""
    server = Server(lambda path, body: completion("No."), lambda prompt, _: fault if "id00000" in prompt else None)
    with running(server):
        budget = Budget(PRICE)
        asked = judge(server.url, retries=1, timeout=0.3)
        found = judged(JudgeRun(asked, rows(2), "j" * 12, budget))
    assert (found["status"] == "error").sum() == 1
    other = PRICE.cost(request_size(asked.body(rows(1, 1).iloc[0].to_dict())).input, 5)
    assert budget.spent == pytest.approx(calls * most() + other, rel=1e-6)


def test_nothing_counts_where_no_connection_was_made():
    with running(Biller()) as server:
        url = server.url
    budget = Budget(PRICE)
    with pytest.raises(Exception, match="answered none"):
        judged(JudgeRun(judge(url, retries=1), rows(3), "j" * 12, budget))
    assert budget.spent == 0


def test_what_a_run_that_is_left_has_sent_is_counted():
    """And what waits for a place, while half of the places have long calls, is free again."""

    def uneven(path: str, body: dict[str, object]):
        time.sleep(0.02 if re.search(r"Reply id\d*[02468]\b", str(body)) else 0.3)
        return server.verdict(path, body)

    server = Biller()
    server.answer = uneven
    with running(server):
        account = Account()
        budget = Budget(PRICE, account=account)
        frames = iter(JudgeRun(judge(server.url), rows(200), "j" * 12, budget))
        next(frames)
        frames.close()
        assert server.billed <= budget.spent and account.reserved == 0
    assert budget.spent <= server.billed + PLACES * most()


def test_ctrl_c_while_rows_are_made_loses_no_answer():
    """A real SIGINT at the third row: what was paid for until then becomes rows."""

    class Interrupted(LlmJudge):
        def judgment(self, row, answer, price):
            if row["instance_id"] == "id00002":
                signal.raise_signal(signal.SIGINT)
            return super().judgment(row, answer, price)

    with running(Biller(latency=0.01)) as server:
        asked, budget = judge(server.url), Budget(PRICE)
        frames = []
        with pytest.raises(KeyboardInterrupt):
            frames.extend(JudgeRun(Interrupted(asked.name, asked.rubric, asked.endpoint), rows(400), "j" * 12, budget))
    found = pd.concat(frames)
    assert found["instance_id"].is_unique and "id00002" in set(found["instance_id"]) and len(found) < 400
    kept = sum(map(PRICE.cost, found["input_tokens"], found["output_tokens"]))
    assert budget.spent == pytest.approx(kept + (budget.calls - len(found)) * most(), rel=1e-6)


WORKER = """
import json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[1])
from test_paid_judging import PRICE, judge, judged, rows
from slmsafety.judging.llm.budget import Budget
from slmsafety.judging.llm.judge import JudgeRun
from slmsafety.pipeline.spending import Ledger

folder, url, limit, start, number = sys.argv[2:]
budget = Budget(PRICE, float(limit), Ledger(Path(folder)))
run = JudgeRun(judge(url), rows(int(number), int(start)), "j" * 12, budget)
found = judged(run)
budget.close()
print(json.dumps([len(found), run.stopped, budget.own]))
"""


def test_two_processes_share_a_limit_and_use_it_up(tmp_path):
    """The one with few rows is done early if it is not late, and the other one gets the rest."""
    limit, shares = 105 * most(), (60, 400)
    paths = json.dumps([str(Path(__file__).parent), str(Path(__file__).parents[2])])
    with running(Biller(7, latency=0.01)) as server:
        commands = [
            [sys.executable, "-c", WORKER, paths, str(tmp_path), server.url, str(limit), str(1000 * place), str(share)]
            for place, share in enumerate(shares)
        ]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
        said = [json.loads(process.communicate()[0]) for process in processes]
        billed = server.billed
    ledger = Ledger(tmp_path).look()
    assert ledger.sent == ledger.unsent == 0
    assert 0.95 * limit <= ledger.paid / 1e9 <= limit
    assert 0.95 * limit <= billed <= ledger.paid / 1e9 * (1 + 1e-9)
    assert sum(own for _, _, own in said) == pytest.approx(ledger.paid / 1e9)
    assert said[1][1] and all(found > 0 for found, _, _ in said)
