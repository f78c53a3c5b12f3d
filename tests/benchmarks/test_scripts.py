"""Every benchmark runs: each script once, at its smallest size, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(path.name for path in BENCHMARKS.glob("*.py") if '__name__ == "__main__"' in path.read_text("utf-8"))
LIMIT = 600
"""Seconds that a script may take beside other tests; alone on a core the slowest takes a minute."""


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_runs_at_its_smallest_size_and_prints_something(script):
    command = [sys.executable, str(BENCHMARKS / script), "--smallest"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
