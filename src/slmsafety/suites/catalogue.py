"""The suites of the study: their titles, sizes, licences and origins, and the one way to load a suite's prompts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.suites import demo, harmbench, sst
from slmsafety.suites.source import UPSTREAM, resolve


@dataclass(frozen=True)
class Suite:
    """A suite: its title in figures, its number of prompts when complete, its licence, and where it comes from."""

    title: str
    rows: int
    licence: str
    upstream: str
    revision: str
    how: str


@dataclass(frozen=True)
class SuiteData:
    """A loaded suite. A part of it (`complete` false) carries its own number of prompts in the title."""

    prompts: pd.DataFrame
    title: str
    complete: bool
    rows_expected: int


_OWN = ("Apache-2.0", "this package", "the file's hash", "ships with the package")
_DOWNLOAD = "downloaded on first use, or `path:` with upstream's CSV"
_NOT_YET = "no loader yet"

SUITES = {
    "demo_direct": Suite("Demo direct", 52, *_OWN),
    "demo_framed": Suite("Demo framed", 52, *_OWN),
    "harmbench": Suite(
        "HarmBench", 400, "MIT", UPSTREAM["harmbench"].repository, UPSTREAM["harmbench"].commit, _DOWNLOAD
    ),
    "sst": Suite(
        "Simple Safety Tests", 100, "CC-BY-4.0", UPSTREAM["sst"].repository, UPSTREAM["sst"].commit, _DOWNLOAD
    ),
    "airbench": Suite(
        "AirBench",
        5694,
        "CC-BY-4.0",
        "stanford-crfm/air-bench-2024",
        "976d9fbb0f52bce704dcbef5bd7a2652e65f2a21",
        _NOT_YET,
    ),
    "salad": Suite("SALAD", 21318, "Apache-2.0", "OpenSafetyLab/Salad-Data", "not pinned", _NOT_YET),
    "bbq": Suite("BBQ", 1000, "CC-BY-4.0", "nyu-mll/BBQ", "not pinned", _NOT_YET),
}

_LOADERS = {"harmbench": harmbench.load, "sst": sst.load}


def load_suite(name: str, path: str | Path | None = None) -> SuiteData:
    """Return a suite's prompts and how to call them: from `path` where given, else from the package or upstream.

    A file with another number of rows than the whole suite is accepted and shows in the title, as in HarmBench-80.
    Raises InputError for an unknown name, a suite without loader, a path where none is read, and every fault of a file.
    """
    if name not in SUITES:
        raise unknown("suite", name, SUITES)
    suite = SUITES[name]
    if name in demo.SUITES:
        if path is not None:
            raise InputError(f"suite {name} ships with the package and reads no file; remove 'path: {path}'")
        prompts = demo.load(name)
    elif name in _LOADERS:
        prompts = _LOADERS[name](resolve(name, path))
    else:
        loadable = ", ".join((*demo.SUITES, *_LOADERS))
        raise InputError(f"suite {name} ({suite.title}) has no loader yet; suites with one: {loadable}")
    complete = len(prompts) == suite.rows
    title = suite.title if complete else f"{suite.title}-{len(prompts)}"
    return SuiteData(prompts, title, complete, suite.rows)
