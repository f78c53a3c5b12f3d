"""One study filled by several processes: the tables of a single process, no row lost or made twice."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import copytree
from threading import Thread
from typing import Any

import pandas as pd
import pytest
import yaml
from tiny_folders import write_with_smollm2_words

from slmsafety.errors import InputError
from slmsafety.pipeline.workers import Report
from slmsafety.records.schema import TABLES
from slmsafety.records.store import read_journal, read_table
from slmsafety.study import Study

# A small model with random weights: what is tried is who does which row. It writes long enough to be watched.
SMALL: dict[str, Any] = {
    "kind": "run",
    "suites": [{"name": "demo_direct", "limit": 9}, {"name": "demo_framed", "limit": 6}],
    "models": [{"id": "tiny", "folder": "tiny"}],
    "generation": {"max_new_tokens": 48, "batch_size": 1},
    "judges": ["refusal_rules"],
}
ROWS = 9 + 6
BY_WORKERS = {**SMALL["generation"], "workers": 2}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A project root of its own with a model in it, so that nothing touches the repository's runs."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "params").mkdir()
    write_with_smollm2_words(folder / "tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLMSAFETY_ROOT", str(folder))
        yield folder


@pytest.fixture(scope="module")
def alone(root):
    """The study collected by one process."""
    study = Study.load({"name": "alone", **SMALL})
    study.collect()
    return study


class Watch(Thread):
    """Notes which process writes which journal of the replies, and which rows, while they are there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.stopped = folder, False
        self.journals: dict[tuple[str, str], set[str]] = {}

    def run(self) -> None:
        while not self.stopped:
            for path in self.folder.glob("responses/*/*.journal/*.jsonl"):
                with suppress(FileNotFoundError):  # folded meanwhile
                    rows = {record["instance_id"] for record in read_journal(path)[0]}
                    self.journals.setdefault((path.parts[-3], path.name), set()).update(rows)
            time.sleep(0.005)

    def writers(self) -> dict[str, list[str]]:
        """The process ids of the journals of each suite, one for each journal; no two of them hold one row."""
        self.stopped = True
        self.join()
        pids: dict[str, list[str]] = {}
        rows = [(suite, row) for (suite, _), found in self.journals.items() for row in found]
        assert rows
        assert len(rows) == len(set(rows))
        for suite, name in sorted(self.journals):
            pids.setdefault(suite, []).append(name.rsplit("-", 2)[1])
        return pids


def same_tables(study: Study, alone: Study, names=tuple(TABLES)) -> None:
    for name in names:
        pd.testing.assert_frame_equal(read_table(study.folder, name), read_table(alone.folder, name))
    assert not list(study.folder.rglob("*.jsonl"))


def two_writers_each(watch: Watch) -> set[str]:
    """Both processes wrote one journal for each suite; their ids."""
    writers = watch.writers()
    assert set(writers) == {"demo_direct", "demo_framed"}
    assert all(len(pids) == len(set(pids)) == 2 for pids in writers.values())
    assert len({pid for pids in writers.values() for pid in pids}) == 2
    return set(writers["demo_direct"])


def launch(root: Path, name: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    """Let two processes of one launcher collect a study, as docs/scaling.md has it."""
    (root / f"params/{name}.yaml").write_text(yaml.safe_dump({"study": {"name": name, **SMALL, **changes}}))
    start = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes=2"]
    options = ["--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0"]
    command = [*start, *options, "-m", "slmsafety", "collect", name]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_two_launched_processes_end_with_the_tables_of_one(root, alone):
    watch = Watch(root / "runs/launched")
    watch.start()
    done = launch(root, "launched")
    assert done.returncode == 0, done.stderr
    two_writers_each(watch)
    study = Study.load("launched")
    same_tables(study, alone)
    assert study.complete()
    made = Counter()
    for process, stage, new in re.findall(r"^\[process (\d) of 2\] (\w+): (\d+) new", done.stdout, re.MULTILINE):
        made[process, stage] += int(new)
    # What is written whole is written by process 0: prompts. Each measures its prompts and their replies.
    first = {("0", "prompts"): ROWS, ("0", "generate"): 8, ("0", "judge"): 8, ("0", "metrics"): 8 + 8}
    assert +made == {**first, ("1", "generate"): 7, ("1", "judge"): 7, ("1", "metrics"): 7 + 7}
    manifests = [json.loads(path.read_text()) for path in (study.folder / "manifests").glob("*.json")]
    assert sorted(manifest["process"]["rank"] for manifest in manifests) == [0, 1]


# A judge that takes its time in the second process.
SLOW = """
import os, time
import pandas as pd
def measure(rows):
    time.sleep(6 if os.environ["RANK"] == "1" else 0)
    return pd.DataFrame({"label": [2] * len(rows)})
"""


def test_a_process_whose_model_cannot_run_waits_for_the_others_before_it_fails(root):
    """The launcher ends all processes as soon as one has failed."""
    copytree(root / "tiny", root / "torn")
    (root / "torn/model.safetensors").unlink()
    (root / "slow.py").write_text(SLOW)
    models = [{"id": "torn", "folder": "torn"}, *SMALL["models"]]
    done = launch(root, "waits", models=models, judges=[{"name": "slow", "module": "slow.py"}])
    assert done.returncode == 1
    assert "1 of 2 models could not run, the others' work is done and kept: torn (" in done.stderr
    study = Study.load("waits")
    assert study.table("judgments")["model"].value_counts().to_dict() == {"tiny": ROWS}
    manifests = [json.loads(path.read_text()) for path in (study.folder / "manifests").glob("*.json")]
    assert [(set(manifest["could_not_run"]), bool(manifest["end"])) for manifest in manifests] == [({"torn"}, True)] * 2


def test_workers_end_with_the_tables_of_one_after_one_was_killed(root, alone, capsys, monkeypatch):
    study = Study.load({"name": "worked", **SMALL, "generation": BY_WORKERS})
    watch = Watch(study.folder)
    watch.start()
    killer = Thread(target=_kill_one, args=(study.folder,))
    killer.start()
    with pytest.raises(InputError, match=r"worker [12] was killed \(signal 9\)"):
        study.collect(["prompts", "generate"])
    killer.join()
    finished = len(read_table(study.folder, "responses", []))
    assert 0 < finished < ROWS
    writers = watch.writers()
    assert all(len(pids) == len(set(pids)) for pids in writers.values())
    assert str(os.getpid()) not in {pid for pids in writers.values() for pid in pids}
    capsys.readouterr()

    # The rest in this process, one worker after the other: starting and ending them is what test_workers is about.
    def one_after_the_other(target: Callable[[int, Report], Any], workers: int, report: Report) -> list[Any]:
        found = [target(worker, report) for worker in range(workers)]
        assert len(read_table(study.folder, "responses", [])) == ROWS  # nothing is left for their parent
        return found

    monkeypatch.setattr("slmsafety.pipeline.generate.run_workers", one_after_the_other)
    study.collect(["generate"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("generate:")]
    assert sum(int(line[1]) for line in lines) == ROWS - finished
    assert sum(int(line[3]) for line in lines) == finished
    same_tables(study, alone, ["prompts", "responses"])


def _kill_one(folder: Path) -> None:
    """kill -9 a worker as soon as it has written a reply."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for path in folder.glob("responses/*/*.journal/*.jsonl"):
            if path.stat().st_size:
                os.kill(int(path.name.rsplit("-", 2)[1]), signal.SIGKILL)
                return
        time.sleep(0.01)


def test_processes_that_start_at_different_times_leave_no_gap(root, alone, monkeypatch):
    """Process 1 comes when process 0 has long ended, and process 0 once more."""
    for rank in ("0", "1", "0"):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "2")
        Study.load({"name": "late", **SMALL}).collect(["prompts", "generate", "judge"])
    same_tables(Study.load({"name": "late", **SMALL}), alone, ["prompts", "responses", "judgments"])
