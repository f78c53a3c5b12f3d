"""Ten thousand calls to a server with faults: each request must end once, by its own answer or by the right failure.

    python benchmarks/soak.py

The server runs in a process of its own. A tenth of the requests meet a fault, each kind of `faults.KINDS` in turn:
statuses, broken and odd bodies, cut, silent, dripping and endless answers, redirects, blocks and prompts that are too
long. Prints what was lost, doubled and wrong, requests that ended otherwise than they should, and attempts that the
server saw without the client having said so before. Ends with 1 where anything was.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Hashable, Iterator
from pathlib import Path

from faults import CLOSE, KINDS, OWN, RESET, Kind, completion, http
from loopback import Asked, serve, serving
from sizes import size_parser

from slmsafety.models.answers import Again, Completion, Failure, Halt
from slmsafety.models.attempts import Request
from slmsafety.models.client import Answer, complete
from slmsafety.models.endpoint import Endpoint

SIZES = {"calls": (10_000, 80), "places": (64, 16), "fault_every": (10, 1)}
LATENCY, TIMEOUT, RETRIES = 0.02, 1.5, 5


def main() -> None:
    parser = size_parser(__doc__, SIZES)
    parser.add_argument("--serve", metavar="LOG", help="be the server (the benchmark starts it by itself)")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(Server(Path(options.serve), options.fault_every).run())
        return
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with serving(__file__, str(log), "--fault-every", str(options.fault_every)) as url:
            endpoint = Endpoint(url, "tiny", concurrency=options.places, timeout=TIMEOUT, retries=RETRIES)
            started, toll = time.perf_counter(), CountingToll()
            answers = [answer for batch in complete(endpoint, requests(options.calls), toll) for answer in batch]
            seconds = time.perf_counter() - started
        seen = Counter(json.loads(line)["id"] for line in log.read_text().splitlines())
    if not report(options, answers, toll, seen, seconds):
        raise SystemExit(1)


class CountingToll:
    """Counts what is sent, by request, and what is under way."""

    def __init__(self) -> None:
        self.sent: Counter[Hashable] = Counter()
        self.open: Counter[Hashable] = Counter()

    def attempt(self, key: Hashable) -> bool:
        """Count an attempt."""
        self.sent[key] += 1
        self.open[key] += 1
        return True

    def ended(self, key: Hashable, heard: Completion | Failure | Again | Halt | None) -> None:
        """Count its end."""
        self.open[key] -= 1


def requests(number: int) -> Iterator[Request]:
    for place in range(number):
        yield Request(place, {"messages": [{"role": "user", "content": f"Question {place}: name a colour."}]})


def kind_of(place: int, every: int) -> Kind | None:
    """The fault that a request meets."""
    return KINDS[place // every % len(KINDS)] if place % every == 0 else None


def report(options: Namespace, answers: list[Answer], toll: CountingToll, seen: Counter[int], seconds: float) -> bool:
    """Print what was otherwise than it should be; return whether nothing was."""
    calls, every = options.calls, options.fault_every
    times = Counter(key for key, _ in answers)
    lost, doubled = calls - len(times), sum(count > 1 for count in times.values())
    wrong = sum(isinstance(answer, Completion) and answer.text != f"answer {key}" for key, answer in answers)
    otherwise = Counter(
        f"{kind.name if kind else 'no fault'}: {ended(answer)}"
        for key, answer in answers
        for kind in [kind_of(key, every)]
        if ended(answer) not in (kind.ends if kind else (OWN,))
    )
    untold = sum(seen[place] > toll.sent[place] for place in range(calls)) + sum(map(bool, toll.open.values()))
    faults = len(range(0, calls, every))
    print(
        f"{calls} calls, {faults} faults of {min(faults, len(KINDS))} kinds, {seen.total()} attempts, {seconds:.0f} s"
    )
    print(f"{lost} lost, {doubled} doubled, {wrong} wrong, {untold} not told of; ended otherwise: {dict(otherwise)}")
    return not (lost or doubled or wrong or untold or otherwise)


def ended(answer: Completion | Failure) -> str:
    """How a request ended, in a word."""
    return OWN if isinstance(answer, Completion) else answer.reason


class Server:
    """Answers each question with its number, but every so many with a fault; each attempt is a line of the log."""

    def __init__(self, log: Path, every: int) -> None:
        self.every, self.tries = every, Counter[int]()
        self.log = log.open("a", buffering=1)

    async def run(self) -> None:
        """Serve until the process ends."""
        await serve(self.answer)

    async def answer(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; return whether the connection goes on."""
        place = int(re.search(rb"Question (\d+)", asked.body)[1])
        self.tries[place] += 1
        kind = kind_of(place, self.every)
        if kind is not None and OWN in kind.ends and self.tries[place] > 1:
            kind = None
        name, billed = (kind.name, kind.billed) if kind else ("", True)
        self.log.write(json.dumps({"id": place, "kind": name, "billed": billed}) + "\n")
        await asyncio.sleep(LATENCY)
        good = completion(f"answer {place}")
        for step in kind.steps(good) if kind else [http(good)]:
            if step == CLOSE:
                return False
            if step == RESET:
                writer.transport.abort()
                return False
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                writer.write(step)
                await writer.drain()
        return True


if __name__ == "__main__":
    main()
