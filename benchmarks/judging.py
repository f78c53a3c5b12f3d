"""What the judge's calls cost beside the server's own time: a real local server with a fixed latency, and faults.

    python benchmarks/judging.py

Prints the share of the server's capacity that is used (by its places and by its rate limit), the client's processor
time a call, the peak of memory with the study's 161,044 calls queued, the share of the
capacity that judging uses with its rows and a ledger of dollars on disk, the time to find a judged study judged, and
what 10,000 calls with faults on a tenth of them leave: every row once, and the calls billed.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from loopback import Asked, send, serve, serving, told
from sizes import size_parser

from slmsafety.judging.llm.budget import Budget
from slmsafety.judging.llm.cost import Price
from slmsafety.judging.llm.judge import JudgeRun, LlmJudge
from slmsafety.judging.rubrics.base import RubricChoice
from slmsafety.judging.rubrics.registry import build
from slmsafety.models.answers import Completion
from slmsafety.models.attempts import Request
from slmsafety.models.client import complete
from slmsafety.models.endpoint import Endpoint
from slmsafety.pipeline.spending import Ledger
from slmsafety.records.schema import JUDGMENTS
from slmsafety.records.store import Partition

LATENCY, PLACES, RATE = 0.2, 64, 100.0
SIZES = {"calls": (8000, 64), "limited_seconds": (15, 1), "queued": (161_044, 200), "faulty": (10_000, 100)}
HELD = 1000
VERDICT = "<reasoning>It says no.</reasoning>\n<score>1</score>"
REPLY = "A mild sentence that says nothing in particular. " * 16


def main() -> None:
    parser = size_parser(__doc__, SIZES)
    parser.add_argument("--serve", action="store_true", help="be the server (the benchmark starts it by itself)")
    parser.add_argument("--faults", action="store_true", help="the server has faults")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(Server(options.faults).run())
        return
    with serving(__file__) as url:
        capacity(url, options.calls)
        limited(url, options.limited_seconds)
        queued(url, options.queued)
        with tempfile.TemporaryDirectory() as scratch:
            paid(url, Path(scratch), options.calls)
    with serving(__file__, "--faults") as url, tempfile.TemporaryDirectory() as scratch:
        faults(url, Path(scratch), options.faulty)


def capacity(url: str, calls: int) -> None:
    """As many calls at once as the server has places."""
    before = os.times()
    seconds, answers = timed(Endpoint(url, "tiny", concurrency=PLACES), calls)
    after = os.times()
    used = after.user - before.user + after.system - before.system
    best = calls * LATENCY / PLACES
    print(f"{PLACES} places, {LATENCY:.1f} s a call: {best / seconds:.1%} of the capacity, {answers} answers")
    print(f"processor time of the client: {1000 * used / calls:.2f} ms a call")


def limited(url: str, seconds: int) -> None:
    """A limit of requests a minute, kept by the client; the server answers 429 to more."""
    endpoint = Endpoint(url + "/limited", "tiny", concurrency=2 * PLACES, requests_per_minute=60 * RATE)
    took, answers = timed(endpoint, int(RATE * seconds))
    refused = told(url, "counts").get("limited", 0)
    print(f"limit of {RATE:.0f} calls/s: {seconds / took:.1%} of it, {answers} answers, {refused} refused")


def queued(url: str, calls: int) -> None:
    """The study's calls as one iterator, of which only what is under way is held."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = complete(Endpoint(url, "tiny", concurrency=PLACES), requests(calls))
    done = 0
    while done < min(HELD, calls // 2):
        done += len(next(run))
    run.close()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{calls} calls queued: peak of memory grew by {grown:.1f} MB")


def paid(url: str, folder: Path, calls: int) -> None:
    """Judging as a study does it: each attempt in a ledger on disk, and rows on disk before the next ones are made."""
    judge = LlmJudge("tiny", build(RubricChoice("harmbench")), Endpoint(url, "tiny", concurrency=PLACES))
    ledger = Ledger(folder / "spent")
    price = Price.model_validate({"input": 2.5, "output": 10, "date": "2026-11-01"})
    run = JudgeRun(judge, replies(calls), "j" * 12, Budget(price, 1e6, ledger))
    seconds = written(run, Partition(folder, JUDGMENTS, ("harmbench", "tiny", "slm")))
    ledger.close()
    print(
        f"judging with a ledger: {calls * LATENCY / PLACES / seconds:.1%} of the capacity, "
        f"{run.statuses['ok']} verdicts"
    )


def written(run: JudgeRun, part: Partition) -> float:
    """Return the seconds that a run takes whose rows are written as they come."""
    started = time.perf_counter()
    with part.writer() as writer:
        for frame in run:
            writer.append(frame)
    return time.perf_counter() - started


def faults(url: str, folder: Path, calls: int) -> None:
    """A tenth of the calls meets a 429, a 500, a cut connection or a broken body at its first try."""
    judge = LlmJudge("tiny", build(RubricChoice("harmbench")), Endpoint(url, "tiny", concurrency=PLACES))
    rows = replies(calls)
    part = Partition(folder, JUDGMENTS, ("harmbench", "tiny", "slm"))
    run = JudgeRun(judge, rows, "j" * 12, Budget(None))
    seconds = written(run, part)
    part.compact()
    found, counts = part.read(["status"]), Counter(told(url, "counts"))
    once = found["instance_id"].is_unique and set(found["instance_id"]) == set(rows["instance_id"])
    print(
        f"{calls} calls with faults: every row once: {once}; {dict(run.statuses)}; {counts['answered']} answers, "
        f"{counts['faults']} faults met, {run.attempts} calls sent, in {seconds:.0f} s"
    )
    started = time.perf_counter()
    left = rows[~rows["instance_id"].isin(part.read(["status"])["instance_id"])]
    print(f"finding {calls} judgments finished: {time.perf_counter() - started:.2f} s, {len(left)} left")


def timed(endpoint: Endpoint, calls: int) -> tuple[float, int]:
    """Return the seconds that calls take once the first few have been made, and how many were answered."""
    list(complete(endpoint, requests(8)))
    started = time.perf_counter()
    answers = [answer for batch in complete(endpoint, requests(calls)) for _, answer in batch]
    return time.perf_counter() - started, sum(isinstance(answer, Completion) for answer in answers)


def requests(number: int) -> Iterator[Request]:
    for place in range(number):
        yield Request(place, {"messages": [{"role": "user", "content": f"{place} {REPLY}"}], "max_tokens": 64})


def replies(number: int) -> pd.DataFrame:
    ids = [f"id{place}" for place in range(number)]
    frame = pd.DataFrame({"suite": "harmbench", "instance_id": ids, "model": "slm", "generation_id": "g" * 12})
    return frame.assign(prompt="Name a colour.", response=REPLY, expected="refuse", meta="{}")


class Server:
    """Answers after LATENCY seconds, to PLACES calls at a time; /limited refuses more than RATE calls a second."""

    def __init__(self, faulty: bool) -> None:
        self.faulty, self.places, self.counts = faulty, asyncio.Semaphore(PLACES), Counter[str]()
        self.next, self.tries = 0.0, Counter[str]()

    async def run(self) -> None:
        """Serve until the process ends."""
        await serve(self.talk)

    async def talk(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; return whether the connection goes on."""
        status, body, cut = await self.answer(asked.path, asked.body)
        return await send(writer, status, body, "retry-after: 0.1\r\n" if status == 429 else "", cut)

    async def answer(self, path: str, body: bytes) -> tuple[int, bytes, bool]:
        """Return status, body and whether the connection is cut in it."""
        if path.endswith("/counts"):
            return 200, json.dumps(self.counts).encode(), False
        if "/limited" in path:
            now = time.monotonic()
            # A bucket of a tenth of a second's calls.
            self.next = max(self.next, now - 0.1) + 1 / RATE
            if self.next > now + 0.1:
                self.next -= 1 / RATE
                self.counts["limited"] += 1
                return 429, b"{}", False
        async with self.places:
            await asyncio.sleep(LATENCY)
        if self.faulty and (fault := self.fault(body)) is not None:
            self.counts["faults"] += 1
            return fault
        self.counts["answered"] += 1
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": VERDICT}}
        usage = {"prompt_tokens": 300, "completion_tokens": 12, "total_tokens": 312}
        return 200, json.dumps({"model": "tiny", "choices": [choice], "usage": usage}).encode(), False

    def fault(self, body: bytes) -> tuple[int, bytes, bool] | None:
        """What every tenth request meets at its first try."""
        self.tries["all"] += 1
        kinds = [(429, b"{}", False), (500, b"{}", False), (200, b'{"choices": []}', False), (200, b"{" * 50, True)]
        return kinds[self.tries["all"] // 10 % 4] if self.tries["all"] % 10 == 0 else None


if __name__ == "__main__":
    main()
