"""The known suites, one line each, and the one way to load a suite's prompts: a known one's or a user's own.

A suite is added by a file beside this one with a record `SUITE` (`base.Suite`) and its line in `_KNOWN`.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.suites import airbench, bbq, demo, harmbench, own, salad, sst, xstest
from slmsafety.suites.base import SuiteData

_KNOWN = (
    demo.DIRECT,
    demo.FRAMED,
    harmbench.SUITE,
    sst.SUITE,
    airbench.SUITE,
    salad.SUITE,
    bbq.SUITE,
    bbq.SUITE_FULL,
    xstest.SUITE,
)
SUITES = {suite.name: suite for suite in _KNOWN}
"""The known suites by their names."""
MULTIPLE_CHOICE = tuple(suite.name for suite in _KNOWN if suite.multiple_choice)
"""The suites that a letter answers: their outcome is accuracy; they have no HCR, AR, SRR and over-refusal."""


def check_suite_name(name: str, path: str | None = None, is_own: bool = False) -> None:
    """Accept the name of a known suite, or of a suite of a user's own, which has a path.

    Parameters
    ----------
    name : str
        The suite's name in a study.
    path : str or None
        The file that the study gives for it.
    is_own : bool
        The study's word (`own: true`) that a name close to a known one is meant as it is written.

    Raises
    ------
    InputError
        For an unknown name without a path, one that no file can carry, one that nearly is a known suite's without
        `own: true`, and `own: true` on a known suite's name.
    """
    if name in SUITES:
        if is_own:
            raise InputError(f"suite '{name}' is a known one; remove 'own: true', or give your suite another name")
        return
    if path is None:
        if _near(name):
            raise unknown("suite", name, SUITES)
        raise InputError(f"unknown suite '{name}'; valid: {', '.join(sorted(SUITES))}, or give 'path:' of your own")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise InputError(f"suite '{name}' cannot name a file; use letters, digits, dot, dash and underscore")
    if _near(name) and not is_own:
        raise InputError(
            f"suite '{name}' is nearly the known suite '{_near(name)}'; write that, or add 'own: true' for your own"
        )


def load_suite(name: str, path: str | Path | None = None) -> SuiteData:
    """Load a suite's prompts.

    Parameters
    ----------
    name : str
        A known suite (a key of `SUITES`), or the name of a suite of your own.
    path : str, Path or None
        The file or folder to read. A known suite without one comes from the package, the cache or upstream; a suite of
        your own needs one (`own.load_own` says of which form).

    Returns
    -------
    SuiteData
        The prompts, the title, and whether they are all. A part of a known suite is accepted, and its title says so,
        as in HarmBench-80.

    Raises
    ------
    InputError
        For an unknown name without a path, a path where none is read, and every fault of a file.
    """
    path = None if path is None else Path(path)
    if name not in SUITES:
        if path is None:
            check_suite_name(name)
        prompts = own.load_own(name, Path(str(path)))
        return SuiteData(prompts, own.title_of(name, prompts), True, len(prompts))
    suite = SUITES[name]
    prompts = suite.load(suite.locate(path))
    heading = suite.title_of(prompts)
    return SuiteData(prompts, heading, heading == suite.title, suite.rows)


def title(name: str, prompts: pd.DataFrame) -> str:
    """Return the title in figures and tables of a suite's prompts, of which the column `meta` is needed.

    A part of a suite has its number of prompts: HarmBench-80, AIR-261. BBQ has the number of its source's categories,
    as in BBQ-6, and its number of items only where fewer were taken than the source gives. A suite of a user's own is
    called by its file's title, or else by its name.
    """
    return SUITES[name].title_of(prompts) if name in SUITES else own.title_of(name, prompts)


def overview() -> pd.DataFrame:
    """Return the known suites, one row each.

    Returns
    -------
    DataFrame
        All columns are text: suite, title, prompts (their number when complete), licence, source, revision, present
        and how (to get it). `present` says how many of its files are here, by their names alone: a file's hash is
        checked when it is loaded.
    """
    rows = [
        {
            "suite": suite.name,
            "title": suite.title,
            "prompts": f"{suite.rows:,}",
            "licence": suite.licence,
            "source": suite.origin.repository,
            "revision": suite.revision,
            "present": suite.files_here(),
            "how": suite.how,
        }
        for suite in _KNOWN
    ]
    return pd.DataFrame(rows)


def inspect(name: str, path: str | Path | None, limit: int | None = None) -> dict[str, str]:
    """Describe what a suite of a study loads.

    Parameters
    ----------
    name, path
        As in `load_suite`. Without a path only what is present is loaded; nothing is downloaded but a damaged file.
    limit : int or None
        The study's number of prompts to sample, 1 or more.

    Returns
    -------
    dict of str to str
        suite, path, present, title, prompts and revision; only suite and present where its files are not here.

    Raises
    ------
    InputError
        As `load_suite` does.
    """
    known = SUITES.get(name)
    if known is not None and path is None and known.files_here() != "yes":
        return {"suite": name, "present": f"{known.files_here()}: {known.how}"}
    prompts = load_suite(name, path).prompts
    used = len(prompts) if limit is None else min(limit, len(prompts))
    whole = f" of {known.rows:,}" if known is not None else ""
    sample = f"; {used:,} are sampled" if used < len(prompts) else ""
    return {
        "suite": name,
        "path": str(path or ""),
        "present": "" if path else "yes",
        "title": title(name, prompts.head(used)),
        "prompts": f"{len(prompts):,}{whole}{sample}",
        "revision": str(prompts["suite_revision"].iloc[0]),
    }


def _near(name: str) -> str | None:
    """Return the known suite that a name nearly is: another case, dashes or underscores, or a slip of a letter."""
    plain = {_plain(known): known for known in SUITES}
    near = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=0.8)
    return plain[near[0]] if near else None


def _plain(name: str) -> str:
    return re.sub(r"[-_ ]", "", name).casefold()
