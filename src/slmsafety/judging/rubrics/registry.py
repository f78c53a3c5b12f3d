"""The rubrics by name, and which one a language model follows on which suite."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from slmsafety.errors import InputError, unknown
from slmsafety.judging.rubrics import airbench
from slmsafety.judging.rubrics.base import Rubric, RubricChoice
from slmsafety.judging.rubrics.built_in import HARMBENCH, SST, XSTEST
from slmsafety.judging.rubrics.files import read_rubric

# Another built-in rubric is one more line here.
RUBRICS: dict[str, Callable[[RubricChoice], Rubric]] = {
    "harmbench": HARMBENCH.build,
    "sst": SST.build,
    "xstest": XSTEST.build,
    "airbench": airbench.build,
}
# SALAD has none: its judge measures a probability. The demo's prompts are short requests, as HarmBench's are.
RUBRIC_OF = {
    "harmbench": "harmbench",
    "sst": "sst",
    "xstest": "xstest",
    "airbench": "airbench",
    "demo_direct": "harmbench",
    "demo_framed": "harmbench",
}


def build(choice: RubricChoice) -> Rubric:
    """Return the rubric that is chosen; its files are read once in a process for equal choices, unless they change.

    Parameters
    ----------
    choice : RubricChoice
        A name of RUBRICS or the path of a user's rubric (`files.read_rubric`), and how it is used.

    Returns
    -------
    Rubric
        What writes a judge's prompts and reads its verdicts.

    Raises
    ------
    InputError
        For an unknown name, a file that is no rubric or has the name of a built-in one, and where prompts are not to be
        had.
    """
    given = (choice.name, choice.helm, choice.judge_prompts)
    return _built(choice, tuple(_stamp(path) for path in given if isinstance(path, Path)))


@cache
def _built(choice: RubricChoice, stamps: tuple[tuple[int, int], ...]) -> Rubric:
    """Build a rubric; `stamps` tell the states of its files apart."""
    if isinstance(choice.name, Path):
        rubric = read_rubric(choice.name).build(choice)
        if rubric.name in RUBRICS:
            raise InputError(f"'{choice.name}': name '{rubric.name}' is a built-in rubric's; give this one another")
        return rubric
    if choice.name not in RUBRICS:
        raise unknown("rubric", choice.name, RUBRICS)
    return RUBRICS[choice.name](choice)


def _stamp(path: Path) -> tuple[int, int]:
    """Return a file's time of change and size; zeros where it is not there, which its reader says better."""
    try:
        state = path.stat()
    except OSError:
        return 0, 0
    return state.st_mtime_ns, state.st_size


def _stamp(path: Path) -> tuple[int, int]:
    """Return a file's time of change and size; zeros where it is not there, which its reader says better."""
    try:
        state = path.stat()
    except OSError:
        return 0, 0
    return state.st_mtime_ns, state.st_size


def rubric_of(suite: str) -> str:
    """Return the name of a suite's own rubric, or raise InputError for a suite that has none."""
    if suite not in RUBRIC_OF:
        raise InputError(f"suite '{suite}' has no rubric of its own; give the judge one: {', '.join(RUBRICS)}")
    return RUBRIC_OF[suite]
