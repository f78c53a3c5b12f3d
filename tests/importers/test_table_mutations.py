"""A damaged table is refused in one line or read with every judgment counted (benchmarks/import_mutations.py)."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MUTATIONS = 30


@pytest.fixture(scope="module")
def script():
    """The benchmark's names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
        return runpy.run_path(str(BENCHMARKS / "import_mutations.py"))


FORMATS = ("csv", "csv, crlf", "csv, utf-16", "semicolons", "tsv", "json lines", "json list", "parquet")


@pytest.mark.parametrize("name", FORMATS)
def test_mutations_are_refused_or_read(script, name, tmp_path):
    found = dict(script["outcomes"](name, MUTATIONS, tmp_path))
    assert len(found) == MUTATIONS
    assert {seed: what for seed, what in found.items() if what not in ("refused", "read")} == {}


def test_every_format_is_tried(script):
    assert tuple(script["FORMATS"]) == FORMATS


def test_mutations_come_back_with_their_seed(script):
    mutated = script["mutated"]
    assert mutated(b"a,b\n1,2\n", 7) == mutated(b"a,b\n1,2\n", 7)
    assert len({mutated(b"a,b\n1,2\n", seed) for seed in range(30)}) > 20
