"""The stage `judge`: replies -> judgments, by the study's judges, offline or over an endpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import pandas as pd

from slmsafety.entries import JudgeParams
from slmsafety.judging import judges as offline
from slmsafety.judging.batch_run import BatchRun
from slmsafety.judging.cost import Purse
from slmsafety.judging.llm_judge import JudgeRun, LlmJudge
from slmsafety.judging.rubrics import build, rubric_of
from slmsafety.params import StudyParams
from slmsafety.paths import data_path
from slmsafety.records.schema import JUDGMENTS, RESPONSES
from slmsafety.records.store import Partition, Writer, partitions
from slmsafety.shares import Place, share
from slmsafety.stage_rows import PROMPT, REPLY, Written, among, generation_ids, of, progress_bar, stored_prompts

_CHUNK = 500


def judge_ids(params: StudyParams, root: Path) -> dict[tuple[str, str], str]:
    """Return the judge_id of every suite and judge that reads it; InputError when a rubric's prompts are not there."""
    return {
        (suite.name, judge.name): judge_id(judge, suite.name, params.empty, root)
        for suite in params.suites
        for judge in params.judges_of(suite.name)
    }


def judge_id(judge: JudgeParams, suite: str, empty: str, root: Path) -> str:
    """Return the id of a judge's work on a suite; a language model's follows from its rubric there."""
    if judge.endpoint is None:
        return offline.judge_id(judge.name, empty)
    return offline.work_id(judge.name, llm_judge(judge, suite, root).definition(), empty)


def llm_judge(judge: JudgeParams, suite: str, root: Path) -> LlmJudge:
    """Return a language model as it judges a suite; InputError when the rubric's prompts are not to be had."""
    rubric = build(
        rubric_of(suite) if judge.rubric == "auto" else judge.rubric,
        judge.prompt_source,
        None if judge.helm is None else data_path(judge.helm, root),
        judge.parser,
        None if judge.judge_prompts is None else data_path(judge.judge_prompts, root),
        judge.polarity,
        judge.rubric_revision,
    )
    return LlmJudge(judge.name, rubric, judge.server(), judge.revision)


def judge_replies(
    params: StudyParams, folder: Path, root: Path, mine: Place, retry: Collection[str] = ("error",)
) -> Written:
    """Judge the replies of a share that have no judgment yet, or one whose status is in `retry`.

    Prints a warning for a rubric that was published with other models, and how calls ended that gave no label.
    """
    ids = generation_ids(params, root)
    for judge in params.judges:
        purse = Purse(judge.price, judge.max_cost, spent(judge, folder))
        for suite in (suite.name for suite in params.suites if judge.reads(suite.name)):
            key = judge_id(judge, suite, params.empty, root)
            _warn(judge, suite, root, mine)
            for model in params.judged_models(judge):
                part = Partition(folder, JUDGMENTS, (suite, judge.name, model))
                todo, done = judge_todo(part, ids[suite, model], key, mine, retry)
                made, text = 0, f"{judge.name} {model} {suite}"
                if not todo.empty:
                    with part.writer() as writer, progress_bar(text, done + len(todo), done) as bar:
                        for rows in _judged(params, judge, suite, todo, key, purse, folder, root, writer):
                            bar.update(rows)
                            made += rows
                yield part, made, done


def judge_todo(
    part: Partition, generation: str, key: str, mine: Place, retry: Collection[str]
) -> tuple[pd.DataFrame, int]:
    """Return the replies of a share that are to be judged, each with its prompt, and the number that are judged."""
    folder, (suite, _, model) = part.root, part.names
    prompts = share(stored_prompts(folder, suite), mine)[["suite", "instance_id", "prompt", *PROMPT]]
    replies = among(of(Partition(folder, RESPONSES, (suite, model)).read(REPLY), generation), prompts)
    judged = among(of(part.read(["status"]), generation, key), prompts)
    done = judged[~judged["status"].isin({"error", *retry})]
    todo = replies[~replies["instance_id"].isin(done["instance_id"])]
    return todo.merge(prompts, on=["suite", "instance_id"], how="left", validate="one_to_one"), len(done)


def spent(judge: JudgeParams, folder: Path) -> float:
    """Return the dollars that the stored judgments of a judge took, at its present price (0 without one)."""
    if judge.price is None:
        return 0.0
    own = [part for part in partitions(folder, "judgments") if part.names[1] == judge.name]
    tokens = [part.read(["input_tokens", "output_tokens"])[["input_tokens", "output_tokens"]].sum() for part in own]
    return sum(judge.price.of(float(used["input_tokens"]), float(used["output_tokens"])) for used in tokens)


def _judged(
    params: StudyParams,
    judge: JudgeParams,
    suite: str,
    todo: pd.DataFrame,
    key: str,
    purse: Purse,
    folder: Path,
    root: Path,
    writer: Writer,
) -> Iterator[int]:
    """Write the judgments of a part, and yield how many rows each write had."""
    if judge.endpoint is None:
        for start in range(0, len(todo), _CHUNK):
            chunk = todo.iloc[start : start + _CHUNK]
            writer.append(offline.measure(judge.name, chunk, params.empty))
            yield len(chunk)
        return
    empty = todo["finish_reason"].eq("empty") & (params.empty != "judge")
    if empty.any():
        writer.append(offline.empty_rows(todo[empty], judge.name, key))
        yield int(empty.sum())
    if empty.all():
        return
    sent, configured = todo[~empty], llm_judge(judge, suite, root)
    run = JudgeRun(configured, sent, key, purse)
    if judge.batch:
        run = BatchRun(configured, sent, key, purse, folder / "batches" / judge.name / suite / sent["model"].iloc[0])
    for frame in run:
        writer.append(frame)
        yield len(frame)
    _report(run, judge, len(sent), purse)


def _report(run: JudgeRun, judge: JudgeParams, asked: int, purse: Purse) -> None:
    """Print what of a run gave no label, and what was not asked for."""
    ended = ", ".join(f"{status} {count}" for status, count in run.statuses.most_common() if status != "ok")
    if ended:
        print(f"judge {judge.name}: {run.statuses['ok']} ok, {ended} ({run.attempts} calls)")
    left = asked - run.statuses.total()
    if run.stopped:
        print(
            f"judge {judge.name}: stopped at max_cost ${purse.limit:g} (spent ${purse.spent:.4f}); {left} replies left"
        )
    elif left:
        print(f"judge {judge.name}: {left} replies have no answer yet; run again to ask for them")


def _warn(judge: JudgeParams, suite: str, root: Path, mine: Place) -> None:
    if judge.endpoint is not None and mine.rank == 0:
        warning = llm_judge(judge, suite, root).rubric.warning(str(judge.served))
        if warning:
            print(f"warning: {warning}")
