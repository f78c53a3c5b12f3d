"""The stage `judge`: replies -> judgments, by whatever judges the study has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from slmsafety.errors import visible
from slmsafety.judging.registry import NO_REPLY, empty_rows, unsent
from slmsafety.params.judges.base import JudgeEntry
from slmsafety.pipeline.judged_texts import REPLY, JudgeIds, judged_rows, judged_texts
from slmsafety.pipeline.judges import StudyJudge, study_judge
from slmsafety.pipeline.run import JUDGED_WITH, Run, Written, with_prompts, without
from slmsafety.records.schema import JUDGMENTS, typed
from slmsafety.records.store import Partition

# Errors that would be the same again: they are asked for again only when --retry names them.
FINAL = ("blocked", "prompt_too_long", "not_shown", "nan_logits", NO_REPLY)


class Part(NamedTuple):
    """One judge's work on the replies of one model to one suite, and the number of replies that are judged."""

    judge: StudyJudge
    partition: Partition
    todo: pd.DataFrame
    done: int


def judge_replies(run: Run, retry: Collection[str]) -> Written:
    """Judge the replies of a shard that have no judgment yet, or one whose status is in `retry`.

    Prints a warning for a rubric that was published with other models, and how calls ended that gave no label. Among
    several processes each has its part of what a judge may spend, and of its limits a minute.
    """
    for entry in run.judges:
        judges = [study_judge(run, entry, suite) for suite in run.suites_of(entry)]
        for warning in dict.fromkeys(judge.warning for judge in judges if judge.warning and run.shard.rank == 0):
            print(visible(f"warning: {warning}"))
        try:
            for part in _parts(run, entry, retry):
                part.judge.send(_sent(run, part)[0])
            for part in _parts(run, entry, retry):
                yield part.partition, _fill(run, part), part.done
        finally:
            for judge in judges:
                judge.close()


def judge_todo(run: Run, part: Partition, ids: JudgeIds, retry: Collection[str] = ()) -> tuple[pd.DataFrame, int]:
    """Return the replies of a shard that are to be judged, each with its prompt, and the number that are judged.

    The replies are as `judged_texts` gives them to a judge.
    """
    suite, _, model = part.names
    prompts = run.prompts(suite)[JUDGED_WITH]
    replies = judged_texts(run, run.replies(suite, model, REPLY), ids)
    judged = judgments_of(run, part, ids)
    judged = judged[judged["instance_id"].isin(prompts["instance_id"])]
    done = judged[~(failed(judged) | judged["status"].isin(set(retry)))]
    return with_prompts(without(replies, done), prompts), len(done)


def judgments_of(
    run: Run, part: Partition, ids: JudgeIds, columns: Sequence[str] = ("status", "reason")
) -> pd.DataFrame:
    """Return a judge's verdicts on the present replies of a model to a suite."""
    suite, _, model = part.names
    return run.texts.present(judged_rows(run, part.read(columns), (suite, model), ids), suite, model)


def failed(judged: pd.DataFrame) -> pd.Series:
    """Return which judgments (with status and reason) ended in an error that may be otherwise the next time."""
    return judged["status"].eq("error") & ~judged["reason"].isin(FINAL)


def judged_frame(part: Part, said: pd.DataFrame) -> pd.DataFrame:
    """Return what a judge said as rows of the judgments table."""
    return typed(said.assign(judge=part.partition.names[1]), JUDGMENTS)


def _parts(run: Run, entry: JudgeEntry, retry: Collection[str]) -> Iterator[Part]:
    for suite in run.suites_of(entry):
        judge = study_judge(run, entry, suite)
        for model in run.judged_models(entry, suite.name):
            partition = run.judgments(suite.name, entry.name, model)
            yield Part(judge, partition, *judge_todo(run, partition, judge.ids, retry))


def _fill(run: Run, part: Part) -> int:
    """Judge what a part lacks, and return the number of rows made."""
    suite, judge, model = part.partition.names
    if part.todo.empty:
        return 0
    made, total = 0, part.done + len(part.todo)
    sent, blank = _sent(run, part)
    with part.partition.writer() as writer, run.progress_bar(f"{judge} {model} {suite}", total, part.done) as bar:
        for frame in _frames(part, sent, empty_rows(blank, judge, part.judge.ids.whole, run.params.empty)):
            writer.append(frame)
            bar.update(len(frame))
            made += len(frame)
    return made


def _frames(part: Part, sent: pd.DataFrame, blank: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the judgments of a part: first those that no judge is asked for."""
    if len(blank):
        yield blank
    if len(sent):
        for said in part.judge.judge.judge(sent):
            yield judged_frame(part, said)


def _sent(run: Run, part: Part) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the replies that the judge is asked about, and those that it is not: empty, or without an answer."""
    blank = unsent(part.todo, run.params.empty)
    return part.todo[~blank], part.todo[blank]
