"""Worker processes: their progress arrives, and the first error, an interrupt or their parent's end stops all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import pytest

from slmsafety.errors import InputError
from slmsafety.pipeline.workers import Report, run_workers

# A parent that can be stopped from outside: two workers that note their ids and report until they are ended.
PARENT = """
import sys
from functools import partial
from pathlib import Path

from test_workers import endless
from slmsafety.pipeline.workers import run_workers

if __name__ == "__main__":
    try:
        run_workers(partial(endless, Path(sys.argv[1])), 2, lambda rows, text: None)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def steps(worker: int, report: Report) -> None:
    for step in range(3):
        report(step, f"{worker} {os.getpid()} {os.environ['OMP_NUM_THREADS']}")


def one_fails(error: type[Exception], worker: int, report: Report) -> None:
    report(1, "started")
    if worker == 1:
        raise error(f"row 7 is bad, {os.environ['OMP_NUM_THREADS']} thread")
    time.sleep(120)


def one_is_killed(worker: int, report: Report) -> None:
    report(1, "started")
    if worker == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(120)


def endless(folder: Path, worker: int, report: Report) -> None:
    (folder / str(os.getpid())).touch()
    while True:
        report(1, "still here")
        time.sleep(0.05)


def test_every_worker_works_in_a_process_of_its_own_and_reports(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    seen: list[tuple[int, str]] = []
    run_workers(steps, 2, lambda rows, text: seen.append((rows, text)))
    workers, pids, threads = zip(*sorted({tuple(text.split()) for _, text in seen}), strict=True)
    assert workers == ("0", "1")
    assert set(threads) == {"2"}
    assert os.environ["OMP_NUM_THREADS"] == "5"
    assert len({*pids, str(os.getpid())}) == 3
    assert sorted(rows for rows, _ in seen) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("target", "error", "says"),
    [
        (partial(one_fails, InputError), InputError, r"\Arow 7 is bad, 1 thread\Z"),
        (partial(one_fails, KeyError), RuntimeError, r"worker 2 failed:\nTraceback(.|\n)*in one_fails(.|\n)*row 7"),
        (one_is_killed, InputError, r"\Aworker 2 was killed \(signal 9\), as happens when memory runs out; finished"),
    ],
    ids=["bad input", "a bug", "kill -9"],
)
def test_the_first_error_stops_all(target, error, says, monkeypatch, capfd):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # less than one for each worker
    begin = time.monotonic()
    with pytest.raises(error, match=says):
        run_workers(target, 2, lambda rows, text: None)
    assert time.monotonic() - begin < 60
    assert active_children() == []
    if error is InputError:
        assert capfd.readouterr().err == ""


def test_a_target_that_no_other_process_can_import_is_named(tmp_path, capfd):
    """A script without the usual guard would start itself again in every worker."""
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from test_workers import steps\nfrom slmsafety.errors import InputError\n"
        "from slmsafety.pipeline.workers import run_workers\n"
        "try:\n    run_workers(steps, 1, print)\nexcept InputError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], env=_environment(), capture_output=True, text=True, timeout=120
    )
    assert "ended with exit code 1 before its work began; a script that starts workers needs the line" in done.stdout


@pytest.fixture
def parent(tmp_path):
    """A parent in a process group of its own, once both of its workers have begun; and the workers' ids."""
    script, folder = tmp_path / "parent.py", tmp_path / "pids"
    script.write_text(PARENT)
    folder.mkdir()
    command = [sys.executable, str(script), str(folder)]
    child = subprocess.Popen(command, env=_environment(), stderr=subprocess.PIPE, text=True, start_new_session=True)
    _wait_for(lambda: len(list(folder.iterdir())) == 2 or child.poll() is not None)
    pids = [int(path.name) for path in folder.iterdir()]
    assert len(pids) == 2
    yield child, pids
    for pid in [child.pid, *pids]:
        if _alive(pid):
            os.kill(pid, signal.SIGKILL)
    child.wait()
    child.stderr.close()


def test_workers_of_a_killed_parent_stop_by_themselves(parent):
    child, pids = parent
    child.kill()
    _wait_for(lambda: not any(map(_alive, [child.pid, *pids])))
    assert child.stderr.read() == ""


def test_ctrl_c_ends_parent_and_workers_without_a_traceback(parent):
    child, pids = parent
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to all of them
    assert child.wait(30) == 130
    assert not any(map(_alive, pids))
    assert child.stderr.read() == ""


def _environment() -> dict[str, str]:
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _wait_for(true, limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def _alive(pid: int) -> bool:
    """Whether a process runs; one that waits for its parent to read its exit code has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
