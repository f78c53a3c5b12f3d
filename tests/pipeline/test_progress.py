"""A progress bar on a terminal leaves it on a fresh line, whatever ends it, and never shares a line with another."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pandas as pd
import pytest

from slmsafety.study import Study

# A judge gets 500 replies at a time.
ROWS = 700
MODEL = "smollm2-135m-it-q4"
# A judge of the study's own, in a module: it fails, is stopped, or says something when it is half through.
JUDGE = """
import pandas as pd
from slmsafety.pipeline.run import say

seen = 0

def measure(rows):
    global seen
    seen += len(rows)
    if seen > 500:
        {act}
    return pd.DataFrame({{"label": [2] * len(rows)}})
"""
ACTS = {
    "says": ("say('half of it is done')", 0, "half of it is done"),
    "fails": ("raise OSError(28, 'No space left on device', '/some/file')", 2, "slmsafety: "),
    "stops": ("raise KeyboardInterrupt", 130, "slmsafety: stopped; finished rows are kept"),
}


def _study(root: Path, act: str) -> None:
    """A study whose replies are made, and whose judge gets them in two parts."""
    (root / "params").mkdir()
    (root / "planes.csv").write_text("prompt\n" + "".join(f"How do I fold plane {n}?\n" for n in range(ROWS)))
    (root / "own.py").write_text(JUDGE.format(act=act))
    study = {
        "name": "mine",
        "kind": "run",
        "suites": [{"name": "planes", "path": "planes.csv"}],
        "models": [MODEL],
        "judges": [{"name": "own", "module": "own.py"}],
    }
    (root / "params/mine.yaml").write_text(json.dumps({"study": study}))
    made = Study.load(study)
    made.collect(["prompts"])
    rows = made.run.stored_prompts("planes")[["suite", "instance_id"]].assign(
        model=MODEL, generation_id=made.run.generation_ids["planes", MODEL], response="Fold it twice."
    )
    rows = rows.assign(prompt_tokens=1, output_tokens=1, finish_reason="stop", prompt_truncated=False, meta="{}")
    made.run.responses("planes", MODEL).replace(pd.DataFrame(rows))


def _on_a_terminal(command: list[str], environment: dict[str, str]) -> tuple[int, list[str]]:
    """Run a command on a terminal of its own; return its exit code and the lines that are to be seen at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    said = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        said += data
    os.close(ours)
    code = child.wait(timeout=60)
    text = said.decode().replace("\r\n", "\n")
    assert text.endswith("\n"), text[-200:]
    return code, [_seen(line) for line in text.splitlines()]


def _seen(line: str) -> str:
    """What a line shows: each carriage return writes over what is there."""
    shown = ""
    for part in line.split("\r"):
        shown = part + shown[len(part) :]
    return shown.rstrip()


@pytest.mark.parametrize(("act", "code", "says"), ACTS.values(), ids=ACTS)
def test_a_bar_ends_its_line(act: str, code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm")
    _study(tmp_path, act)
    command = [sys.executable, "-m", "slmsafety", "collect", "mine", "--stage", "judge"]
    ended, lines = _on_a_terminal(command, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert ended == code, lines
    bars = [line for line in lines if "own smollm2" in line and "%|" in line]
    assert bars, lines
    assert all(line.startswith("own smollm2-135m-it-q4 planes: ") and line.endswith("row/s]") for line in bars), bars
    assert any(line.startswith(says) for line in lines), lines
