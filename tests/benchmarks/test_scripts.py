"""Every benchmark runs: each script once, at its smallest size, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = sorted(path.name for path in BENCHMARKS.glob("*.py") if '__name__ == "__main__"' in path.read_text("utf-8"))
# It runs every analysis of 26 models on five suites: minutes, however few the prompts.
SLOW = {"analysis.py"}
LIMIT = 600
"""Seconds that a script may take beside other tests; alone on a core it takes half a minute at most."""


@pytest.mark.parametrize("script", [script for script in SCRIPTS if script not in SLOW])
def test_a_benchmark_runs_at_its_smallest_size_and_prints_something(script):
    command = [sys.executable, str(BENCHMARKS / script), "--smallest"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
