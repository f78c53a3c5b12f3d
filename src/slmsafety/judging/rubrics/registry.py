"""Which rubric a language model follows on which suite."""

from __future__ import annotations

from pathlib import Path

from slmsafety.errors import InputError
from slmsafety.judging.rubrics import airbench, harmbench, sst, xstest
from slmsafety.judging.rubrics.base import Parser, Rubric

RUBRICS = ("harmbench", "sst", "xstest", "airbench")
# SALAD has none: its judge measures a probability. The demo's prompts are short requests, as HarmBench's are.
RUBRIC_OF = {
    "harmbench": "harmbench",
    "sst": "sst",
    "xstest": "xstest",
    "airbench": "airbench",
    "demo_direct": "harmbench",
    "demo_framed": "harmbench",
}
_TEXT_RUBRICS = {"harmbench": harmbench, "sst": sst, "xstest": xstest}


def build(
    name: str,
    prompt_source: str = "own",
    helm: Path | None = None,
    parser: Parser = "anchored",
    judge_prompts: Path | None = None,
    polarity: str = "post_swap",
    rubric_revision: str | None = None,
) -> Rubric:
    """Return a rubric by its name in RUBRICS. `own` prompts of AirBench are the data set's, quoted and with a note.

    Raises InputError when its prompts are not to be had.
    """
    if name == "airbench":
        source = "helm" if prompt_source == "helm" else "dataset"
        return airbench.rubric(judge_prompts, polarity, rubric_revision, source, parser)
    return _TEXT_RUBRICS[name].rubric(prompt_source, helm, parser)


def rubric_of(suite: str) -> str:
    """Return the name of a suite's own rubric, or raise InputError for a suite that has none."""
    if suite not in RUBRIC_OF:
        raise InputError(f"suite '{suite}' has no rubric of its own; give the judge one: {', '.join(RUBRICS)}")
    return RUBRIC_OF[suite]
