"""kill -9 at random moments of judging: a server has never billed more than the ledger says, and no row is lost.

A study of made-up replies is judged by `slmsafety collect` against a real server in a process of its own, which adds up
what it bills: call by call in one process and in two that share the study, and by batches. A tenth of the calls meets a
429, a 500, a cut connection or a reply that cannot be read. The processes are killed at a seeded moment; when the
server has nothing under way, the ledger must be at least what was billed, and at most that and what was under way. The
same command goes on until it ends: then every reply has one verdict, no batch held a reply twice, and the ledger of a
study that nobody killed is the bill to the billionth. Prints the counts and ends with 1 where anything was otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loopback import Asked, send, serve, serving, told
from sizes import size_parser

from slmsafety.judging.llm.cost import count_tokens, request_size
from slmsafety.pipeline.spending import look
from slmsafety.records.schema import JUDGMENTS
from slmsafety.records.store import Partition

SIZES = {"kills": (100, 3), "replies": (300, 40)}
SEED, PLACES, LATENCY, BATCH_SECONDS = 1337, 8, 0.1, 0.3
INPUT, OUTPUT = 2000, 8000  # billionths of a dollar a token
VERDICT = "<reasoning>It says no.</reasoning>\n<score>1</score>"
MODES = {"one process": (1, False), "two processes": (2, False), "batches": (1, True)}
# Imports all that judging needs once, and forks a process for each command.
FORKS = """
import os, sys
import openai, httpx, torch
import slmsafety.study
from slmsafety.cli import main
from slmsafety.judging.llm.batches import Batching
from slmsafety.pipeline import endpoint_judges

endpoint_judges.Batching = lambda notes, every: Batching(notes, every, 0.05, 25)
for line in sys.stdin:
    word, *given = line.split()
    if word == "wait":
        print(os.waitstatus_to_exitcode(os.waitpid(int(given[0]), 0)[1]), flush=True)
        continue
    child = os.fork()
    if child == 0:
        rank, world, said = given
        if world != "1":
            os.environ.update(RANK=rank, WORLD_SIZE=world)
        handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout.reconfigure(line_buffering=True)
        code = 1
        try:
            code = main(["collect", "killed", "--stage", word])
        finally:
            sys.stdout.flush()
            os._exit(code)
    print(child, flush=True)
"""


class Commands:
    """Processes that work on the study below a root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        command = [sys.executable, "-c", FORKS]
        self._forks = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def start(self, stage: str, world: int = 1) -> list[int]:
        """Start a stage in so many processes, and return their numbers."""
        return [self._tell(f"{stage} {rank} {world} {self.root}/said.{rank}") for rank in range(world)]

    def wait(self, children: list[int]) -> list[int]:
        """Wait for processes, and return how they ended."""
        return [self._tell(f"wait {child}") for child in children]

    def said(self) -> str:
        """What all processes have printed."""
        return "".join(path.read_text() for path in sorted(self.root.glob("said.*")))

    def close(self) -> None:
        """End the process that forks."""
        self._forks.communicate()

    def _tell(self, line: str) -> int:
        assert self._forks.stdin is not None and self._forks.stdout is not None
        self._forks.stdin.write(f"{line}\n")
        return int(self._forks.stdout.readline())


def main() -> int:
    parser = size_parser(__doc__, SIZES)
    parser.add_argument("--serve", action="store_true", help="be the server (the benchmark starts it by itself)")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(Server().run())
        return 0
    with tempfile.TemporaryDirectory() as scratch, serving(__file__) as url:
        os.environ["SLMSAFETY_ROOT"] = scratch
        commands = Commands(Path(scratch))
        try:
            return run(commands, url, options)
        finally:
            commands.close()


def run(commands: Commands, url: str, options: argparse.Namespace) -> int:
    """Kill commands of each mode, print what became of them, and return how the script ends."""
    rng, problems, counts = random.Random(SEED), list[str](), Counter[str]()
    for number, (name, (world, batch)) in enumerate(MODES.items()):
        kills = options.kills // len(MODES) + (number < options.kills % len(MODES))
        life = Life(commands, url, options.replies, world, batch)
        seconds = life.judged_whole()
        print(f"{name}: {options.replies} replies in {seconds:.1f} s without a kill", flush=True)
        problems += [f"{name}: {problem}" for problem in life.ended(killed=False)]
        done = 0
        life.begin()
        while done < kills:
            killed = life.kill(rng.uniform(0, seconds), only_one=world > 1 and rng.random() < 0.5)
            if killed:
                done += 1
                counts[f"{name}: kills"] += 1
                counts[f"{name}: calls under way at kills"] += life.under_way
                problems += [f"{name}, kill {done}: {problem}" for problem in life.checked()]
            if not killed or done == kills:
                life.judged_whole()
                problems += [f"{name}, after kill {done}: {problem}" for problem in life.ended(killed=True)]
                counts[f"{name}: studies judged to their end"] += 1
                life.begin()
    for what, count in counts.items():
        print(f"{what}: {count}")
    for problem in problems:
        print(problem)
    print(f"{options.kills} kills, {len(problems)} violation(s)")
    return 1 if problems else 0


class Life:
    """One study from its first call to its last verdict, whatever is killed meanwhile."""

    def __init__(self, commands: Commands, url: str, replies: int, world: int, batch: bool) -> None:
        self.commands, self.url, self.replies, self.world, self.batch = commands, url, replies, world, batch
        self.folder = commands.root / "runs/killed"
        self.under_way = 0
        self.begin()

    def begin(self) -> None:
        """Start anew: replies without verdicts, and a server that has billed nothing."""
        root = self.commands.root
        for old in (root / "runs", root / "params"):
            shutil.rmtree(old, ignore_errors=True)
        for said in root.glob("said.*"):
            said.unlink()
        (root / "params").mkdir()
        judge = {"name": "paid", "endpoint": self.url, "served": "tiny", "rubric": "harmbench", "concurrency": PLACES}
        price = {"input": INPUT / 1000, "output": OUTPUT / 1000, "date": "2026-11-01"}
        judge |= {"price": price, "max_cost": 1000, "batch": self.batch}
        study = {"name": "killed", "kind": "imported", "judged_csv": "judged.csv", "judges": [judge]}
        study["scores"] = {"higher": "safe"}
        (root / "params/killed.yaml").write_text(json.dumps({"study": study}))
        with (root / "judged.csv").open("w", newline="", encoding="utf-8") as handle:
            rows = csv.writer(handle)
            rows.writerow(["suite", "instance_id", "model", "judge", "score", "prompt", "response"])
            rows.writerows(
                ["planes", number, "slm", "rater", 1, f"How do I fold plane {number}?", f"Fold it {number} times."]
                for number in range(self.replies)
            )
        if self.commands.wait(self.commands.start("import")) != [0]:
            raise SystemExit(f"the import failed: {self.commands.said()}")
        told(self.url, "reset")

    def judged_whole(self) -> float:
        """Judge to the end, and return the seconds that it took."""
        started = time.perf_counter()
        codes = self.commands.wait(self.commands.start("judge", self.world))
        if any(codes):
            raise SystemExit(f"judging that nobody stopped failed: {self.commands.said()}")
        return time.perf_counter() - started

    def kill(self, after: float, only_one: bool) -> bool:
        """Start to judge and kill all processes, or one of them, after some seconds; return whether any still ran."""
        children = self.commands.start("judge", self.world)
        time.sleep(after)
        for child in children[: 1 if only_one else None]:
            os.kill(child, signal.SIGKILL)  # nobody has waited for it yet: its number is still its own, ended or not
        codes = self.commands.wait(children)
        if any(code not in (0, -signal.SIGKILL) for code in codes):
            raise SystemExit(f"judging failed: {self.commands.said()}")
        time.sleep(0.05)  # what the processes have sent reaches the server
        while told(self.url, "told")["open"]:
            time.sleep(0.02)
        return -signal.SIGKILL in codes

    def checked(self) -> Iterator[str]:
        """Yield what is wrong with the ledger, once the server has nothing under way."""
        found, billed = look(self.folder / "spent/paid"), told(self.url, "told")["billed"]
        self.under_way = found.sent_calls
        most = self.replies if self.batch else PLACES * self.world
        if not billed <= found.paid + found.sent:
            yield f"${billed / 1e9:.9f} billed, and the ledger says ${(found.paid + found.sent) / 1e9:.9f}"
        if not found.paid <= billed + found.lost:
            yield f"${billed / 1e9:.9f} billed, and the ledger has ${found.paid / 1e9:.9f} without what was under way"
        if found.sent_calls > most:
            yield f"{found.sent_calls} calls under way, of {most} that there can be"

    def ended(self, killed: bool) -> Iterator[str]:
        """Yield what is wrong with a study that is judged to its end."""
        found, state = look(self.folder / "spent/paid"), told(self.url, "told")
        rows = Partition(self.folder, JUDGMENTS, ("planes", "paid", "slm")).read(["status"])
        if len(rows) != self.replies or not rows["instance_id"].is_unique or set(rows["status"]) != {"ok"}:
            yield f"{len(rows)} verdicts on {self.replies} replies: {rows['status'].value_counts().to_dict()}"
        if found.sent or found.unsent:
            yield f"{found.sent_calls} calls are still open"
        if not state["billed"] <= found.paid <= state["billed"] + found.lost:
            yield f"${state['billed'] / 1e9:.9f} billed, and the ledger says ${found.paid / 1e9:.9f}"
        if not killed and found.paid != state["billed"]:
            yield f"the ledger is {found.paid - state['billed']} billionths off the bill"
        if self.batch and state["most_asked"] > 1:
            yield "a reply was in two batches"


class Server:
    """Answers calls and batches, and adds up what it bills. What a fault has cost is billed at the most it can be."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all, between two studies."""
        self.billed = self.open = self.calls = 0
        self.asked = Counter[str]()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}

    async def run(self) -> None:
        """Serve until the process ends."""
        await serve(self.talk)

    async def talk(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; return whether the connection goes on."""
        status, body, cut = await self.answer(*asked)
        return await send(writer, status, body, cut=cut)

    async def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes, bool]:
        """Return status, body and whether the connection is cut in it."""
        if path.startswith("/chat"):
            return await self.call(json.loads(body))
        if path.startswith("/files/"):
            return 200, self.files[path.split("/")[2]], False
        if path == "/reset":
            self.reset()
        elif path == "/files":
            name = f"file_{len(self.files)}"
            part = next(part for part in body.split(b"\r\n--") if b"filename=" in part)
            self.files[name] = part.partition(b"\r\n\r\n")[2]
            return as_json({"id": name, "object": "file", "bytes": 1, "created_at": 0, "purpose": "batch"})
        elif path == "/batches" and method == "POST":
            return as_json(self.batch(json.loads(body)))
        elif path.startswith("/batches/"):
            return as_json(self.batches[path.split("/")[2]])
        elif path.startswith("/batches"):
            return as_json({"object": "list", "data": list(self.batches.values()), "has_more": False})
        most = max(self.asked.values(), default=0)
        return as_json({"billed": self.billed, "open": self.open, "most_asked": most})

    async def call(self, body: dict[str, Any]) -> tuple[int, bytes, bool]:
        """Answer a call, or meet it with a fault, and bill it."""
        self.open += 1
        self.calls += 1
        fault = self.calls // 10 % 4 if self.calls % 10 == 0 else None
        try:
            if fault == 0:
                return 429, b"{}", False
            await asyncio.sleep(LATENCY * random.uniform(0.5, 1.5))
            if fault is None:
                return as_json(self.completion(body))
            size = request_size({key: value for key, value in body.items() if key != "model"})
            self.billed += size.most_input * INPUT + size.most_output * OUTPUT
            return [(500, b"{}", False), (200, b'{"choices": 1}', False), (200, b"{" * 50, True)][fault - 1]
        finally:
            self.open -= 1

    def batch(self, given: dict[str, Any]) -> dict[str, Any]:
        """Take a batch, which ends after BATCH_SECONDS."""
        name = f"batch_{len(self.batches)}"
        self.batches[name] = {"id": name, "object": "batch", "created_at": 0, "status": "in_progress", **given}
        self.open += 1
        asyncio.get_running_loop().call_later(BATCH_SECONDS, self.end, self.batches[name])
        return self.batches[name]

    def end(self, batch: dict[str, Any]) -> None:
        """End a batch and bill it."""
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines() if line.strip()]
        self.asked.update(line["custom_id"] for line in lines)
        answered = [
            {"custom_id": line["custom_id"], "response": {"status_code": 200, "body": self.completion(line["body"])}}
            for line in lines
        ]
        name = f"file_{len(self.files)}"
        self.files[name] = "\n".join(map(json.dumps, answered)).encode()
        batch |= {"status": "completed", "output_file_id": name}
        self.open -= 1

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer with a verdict, and bill it."""
        given, written = request_size(body).input + 20, count_tokens(VERDICT) + 3
        self.billed += given * INPUT + written * OUTPUT
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": VERDICT}}
        usage = {"prompt_tokens": given, "completion_tokens": written, "total_tokens": given + written}
        return {"model": "tiny", "choices": [choice], "usage": usage}


def as_json(answer: dict[str, Any]) -> tuple[int, bytes, bool]:
    """An answer of JSON."""
    return 200, json.dumps(answer).encode(), False


if __name__ == "__main__":
    raise SystemExit(main())
