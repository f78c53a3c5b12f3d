"""The judges of a run: each entry of the parameters becomes a `Judge`, and nothing else asks which kind it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.judging.base import Judge, MeasuringJudge, judge_id
from slmsafety.judging.llm.judge import LlmJudge
from slmsafety.judging.own import plugin_judge
from slmsafety.judging.registry import sends_empty
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.base import JudgeEntry
from slmsafety.params.judges.endpoint import EndpointJudge
from slmsafety.params.judges.guard import GuardJudge
from slmsafety.params.judges.module import ModuleJudge
from slmsafety.params.judges.named import NamedJudge
from slmsafety.pipeline.endpoint_judges import ServedJudge, language_model
from slmsafety.pipeline.judged_texts import JudgeIds
from slmsafety.pipeline.run import Run


@dataclass(frozen=True)
class StudyJudge:
    """A judge on one suite of a run, under the ids of its work.

    `warning` is a line to print before it works. `send` is given all replies before the first is judged, for judges
    that send work ahead; `close` is called when all are judged. Most judges need neither.
    """

    judge: Judge
    ids: JudgeIds
    warning: str | None = None
    send: Callable[[pd.DataFrame], None] = lambda rows: None
    close: Callable[[], None] = lambda: None


def study_judge(run: Run, entry: JudgeEntry, suite: SuiteParams) -> StudyJudge:
    """Return an entry as the judge of a suite, made once in a run; InputError when its files are not to be had.

    A judge that cannot be made is not tried again in the same run: the hub would be asked each time.
    """
    found = run.once(("judge", entry.name, suite.name), lambda: _tried(run, entry, suite))
    if isinstance(found, InputError):
        raise found
    return found


def judge_ids(run: Run) -> dict[tuple[str, str], str]:
    """Return the judge_id of whole replies of every suite and judge that reads it, as `all_judge_ids` does."""
    return {key: ids.whole for key, ids in all_judge_ids(run).items()}


def all_judge_ids(run: Run) -> dict[tuple[str, str], JudgeIds]:
    """Return the ids of every suite and judge that reads it; InputError when a rubric's prompts are not there."""
    return {
        (suite.name, entry.name): study_judge(run, entry, suite).ids
        for suite in run.suites
        for entry in run.judges_of(suite)
    }


def _tried(run: Run, entry: JudgeEntry, suite: SuiteParams) -> StudyJudge | InputError:
    try:
        return _make(run, entry, suite)
    except InputError as problem:
        return problem


def _make(run: Run, entry: JudgeEntry, suite: SuiteParams) -> StudyJudge:
    """The one place that knows the kinds of judges."""
    sent = sends_empty(run.params.empty, suite.name)
    if isinstance(entry, EndpointJudge):
        asked = language_model(run, entry, suite)
        served = ServedJudge(run, entry, asked, _ids(asked, sent))
        return StudyJudge(served, served.ids, served.warning(), served.send, served.close)
    if isinstance(entry, GuardJudge):
        from slmsafety.pipeline.guard_judges import GuardModel  # here, since a judge is named without loading torch

        guard = GuardModel(run, entry, lambda: study_judge(run, entry, suite).ids)
        judge: Judge = MeasuringJudge(entry.name, guard, chunk=4 * entry.batch_size)
        return StudyJudge(judge, _ids(judge, sent), guard.warning(), close=guard.close)
    if isinstance(entry, ModuleJudge):
        judge = plugin_judge(entry.name, run.module(entry.module), entry.mapping is not None)
    elif isinstance(entry, NamedJudge):
        judge = entry.judge(suite)
    else:
        raise TypeError(f"no judge is known for entries of {type(entry).__name__}")
    return StudyJudge(judge, _ids(judge, sent))


def _ids(judge: Judge | LlmJudge, sent: bool) -> JudgeIds:
    return JudgeIds(judge_id(judge, sent), judge_id(judge, sent, answers=True))
