"""The suites of the study: their titles, sizes, licences and origins, and the one way to load a suite's prompts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.suites import airbench, bbq, demo, harmbench, salad, sst, xstest
from slmsafety.suites.source import present, resolve
from slmsafety.suites.upstream import BBQ, HUB, UPSTREAM


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
    """A loaded suite. A part of it (`complete` false) says so in its title."""

    prompts: pd.DataFrame
    title: str
    complete: bool
    rows_expected: int


_OWN = ("Apache-2.0", "this package", "the file's hash", "ships with the package")
_BBQ = ("CC-BY-4.0", BBQ[0].repository, BBQ[0].commit)
_FOLDER = "downloaded on first use, or `path:` with a folder of upstream's files"


def _file(title: str, rows: int, licence: str, name: str) -> Suite:
    how = "downloaded on first use, or `path:` with upstream's file"
    return Suite(title, rows, licence, UPSTREAM[name].repository, UPSTREAM[name].commit, how)


SUITES = {
    "demo_direct": Suite("Demo direct", 52, *_OWN),
    "demo_framed": Suite("Demo framed", 52, *_OWN),
    "harmbench": _file("HarmBench", 400, "MIT", "harmbench"),
    "sst": _file("Simple Safety Tests", 100, "CC-BY-4.0", "sst"),
    "airbench": Suite(
        "AirBench",
        airbench.ROWS,
        "CC-BY-4.0",
        HUB["airbench"].repository,
        HUB["airbench"].revision,
        "downloaded on first use, or `path:` with upstream's columns in one CSV, or a folder of its files",
    ),
    "salad": Suite(
        "SALAD",
        salad.ROWS,
        "Apache-2.0",
        HUB["salad"].repository,
        "not pinned",
        "downloaded on first use, or `path:` with upstream's base_set.json",
    ),
    "bbq": Suite("BBQ", bbq.DRAW, *_BBQ, _FOLDER),
    "bbq_full": Suite("BBQ full", bbq.ROWS, *_BBQ, _FOLDER),
    "xstest": _file("XSTest", 450, "CC-BY-4.0", "xstest"),
}
# Their outcome is accuracy: judged by letter, without HCR, AR, SRR and over-refusal.
MULTIPLE_CHOICE = ("bbq", "bbq_full")

_LOADERS = {
    "harmbench": harmbench.load,
    "sst": sst.load,
    "airbench": airbench.load,
    "salad": salad.load,
    "bbq": bbq.load_draw,
    "bbq_full": bbq.load_full,
    "xstest": xstest.load,
}


def load_suite(name: str, path: str | Path | None = None) -> SuiteData:
    """Return a suite's prompts and how to call them: from `path` where given, else from the package or upstream.

    A part of a suite is accepted and shows in the title, as in HarmBench-80. Raises InputError for an unknown name, a
    path where none is read, and every fault of a file.
    """
    if name not in SUITES:
        raise unknown("suite", name, SUITES)
    if name in demo.SUITES:
        if path is not None:
            raise InputError(f"suite {name} ships with the package and reads no file; remove 'path: {path}'")
        prompts = demo.load(name)
    else:
        prompts = _LOADERS[name](resolve(name, path))
    heading = title(name, prompts)
    return SuiteData(prompts, heading, heading == SUITES[name].title, SUITES[name].rows)


def title(name: str, prompts: pd.DataFrame) -> str:
    """Return the title of the prompts of a suite in figures and tables; a part of the suite says what it is.

    A part has its number of prompts: HarmBench-80, AIR-261. BBQ has the number of its source's categories, as in
    BBQ-6, and its number of items only where fewer were taken than the source gives. `prompts` holds the
    column `meta`. Raises InputError for an unknown suite.
    """
    if name not in SUITES:
        raise unknown("suite", name, SUITES)
    suite, rows = SUITES[name], len(prompts)
    if name not in MULTIPLE_CHOICE:
        short = "AIR" if name == "airbench" else suite.title
        return suite.title if rows == suite.rows else f"{short}-{rows}"
    sources = json.loads(prompts["meta"].iloc[0])["sources"] if rows else []
    whole = sum(bbq.CATEGORIES[category] for category in sources)
    heading = suite.title if len(sources) == len(bbq.CATEGORIES) else suite.title.replace("BBQ", f"BBQ-{len(sources)}")
    return heading if rows == min(whole, suite.rows) else f"{heading} ({rows:,} items)"


def overview() -> pd.DataFrame:
    """Return every suite as suite, title, prompts, licence, source, revision, present and how to get it, all as text.

    `present` says how many of its files are here, by their names alone: a file's hash is checked when it is loaded.
    """
    columns = ["suite", "title", "prompts", "licence", "source", "revision", "present", "how"]
    rows = [
        (name, s.title, f"{s.rows:,}", s.licence, s.upstream, s.revision, _present(name), s.how)
        for name, s in SUITES.items()
    ]
    return pd.DataFrame(rows, columns=columns)


def inspect(name: str, path: str | Path | None, limit: int | None = None) -> dict[str, str]:
    """Return suite, path, present, title, prompts and revision of what a suite loads, as text, after a study's limit.

    Without a path only what is present is loaded, and nothing is downloaded for it but a file that is damaged. Raises
    InputError as `load_suite` does.
    """
    if path is None and not _present(name).startswith("yes"):
        return {"suite": name, "present": f"{_present(name)}: {SUITES[name].how}"}
    prompts = load_suite(name, path).prompts
    used = len(prompts) if limit is None else min(limit, len(prompts))
    sample = f"; {used:,} are sampled" if used < len(prompts) else ""
    return {
        "suite": name,
        "path": str(path or ""),
        "present": "" if path else "yes",
        "title": title(name, prompts.head(used)),
        "prompts": f"{len(prompts):,} of {SUITES[name].rows:,}{sample}",
        "revision": str(prompts["suite_revision"].iloc[0]),
    }


def _present(name: str) -> str:
    """Whether a suite's files are here: yes, no, or a part of them."""
    there, files = (1, 1) if name in demo.SUITES else present(name)
    return "yes" if there == files else f"{there} of {files} files" if there else "no"


def check_suite_name(name: str, path: str | None, own: bool) -> None:
    """Raise InputError for a name that is no suite's."""
    if name not in SUITES and path is None:
        raise unknown("suite", name, SUITES)
