"""The stage `judge`: replies -> judgments, by the study's judges, offline or over an endpoint."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

import pandas as pd

from slmsafety.entries import JudgeParams
from slmsafety.errors import InputError
from slmsafety.judging import judges as offline
from slmsafety.judging.batch_run import BatchRun
from slmsafety.judging.cost import Purse
from slmsafety.judging.llm_judge import JudgeRun, LlmJudge
from slmsafety.judging.rubrics import build, rubric_of
from slmsafety.params import StudyParams
from slmsafety.paths import data_path
from slmsafety.records.schema import JUDGMENTS, RESPONSES
from slmsafety.records.store import Partition, Writer
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


def llm_judge(judge: JudgeParams, suite: str, root: Path, processes: int = 1) -> LlmJudge:
    """Return a language model as it judges a suite, with its limits a minute divided among so many processes.

    Raises InputError when the rubric's prompts are not to be had.
    """
    rubric = build(
        rubric_of(suite) if judge.rubric == "auto" else judge.rubric,
        judge.prompt_source,
        None if judge.helm is None else data_path(judge.helm, root),
        judge.parser,
        None if judge.judge_prompts is None else data_path(judge.judge_prompts, root),
        judge.polarity,
        judge.rubric_revision,
    )
    return LlmJudge(judge.name, rubric, judge.server(processes), judge.revision)


def judge_replies(
    params: StudyParams, folder: Path, root: Path, mine: Place, retry: Collection[str] = ("error",)
) -> Written:
    """Judge the replies of a share that have no judgment yet, or one whose status is in `retry`.

    Prints a warning for a rubric that was published with other models, and how calls ended that gave no label. Among
    several processes each has its part of what a judge may spend, and of its limits a minute.
    """
    for judge in params.judges:
        if judge.batch and mine.world > 1:
            raise InputError(
                f"judge '{judge.name}' sends batches, which one process does; judge outside of the launcher"
            )
        _warn(judge, params, root, mine)
        with Ledger(judge, folder) as ledger:
            purse = ledger.purse(mine)
            if judge.batch:
                for part, todo, _, key in _parts(params, judge, folder, root, mine, retry):
                    if not todo.empty:
                        _batches(judge, part, todo, key, purse, root).send()
            for part, todo, done, key in _parts(params, judge, folder, root, mine, retry):
                made, text = 0, " ".join((judge.name, part.names[2], part.names[0]))
                if not todo.empty:
                    with part.writer() as writer, progress_bar(text, done + len(todo), done) as bar:
                        for rows in _judged(params, judge, part, todo, key, purse, root, mine, writer):
                            bar.update(rows)
                            made += rows
                yield part, made, done


def _parts(
    params: StudyParams, judge: JudgeParams, folder: Path, root: Path, mine: Place, retry: Collection[str]
) -> Iterator[tuple[Partition, pd.DataFrame, int, str]]:
    """Yield each part of a judge's work, what of it is to be judged, how much is, and the judge_id."""
    ids = generation_ids(params, root)
    for suite in (suite.name for suite in params.suites if judge.reads(suite.name)):
        key = judge_id(judge, suite, params.empty, root)
        for model in params.judged_models(judge):
            part = Partition(folder, JUDGMENTS, (suite, judge.name, model))
            todo, done = judge_todo(part, ids[suite, model], key, mine, retry)
            yield part, todo, done, key


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


class Ledger:
    """What a judge has cost: a line a call in a file a run, since a row can be judged more than once."""

    def __init__(self, judge: JudgeParams, folder: Path) -> None:
        """Take the judge and the study's folder."""
        self._judge, self._folder = judge, folder / "spent" / judge.name
        self._handle: IO[str] | None = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.close()

    def spent(self) -> float:
        """Return the dollars of all calls so far; a torn last line of a killed run is left out."""
        lines = [line for path in self._folder.glob("*.txt") for line in path.read_text().split("\n")[:-1]]
        return sum(map(float, lines))

    def purse(self, mine: Place) -> Purse:
        """Return this process's part of what may still be spent."""
        spent, limit = self.spent(), self._judge.max_cost
        mine_of = None if limit is None else spent + max(0.0, limit - spent) / mine.world
        return Purse(self._judge.price, mine_of, spent, self._write)

    def _write(self, dollars: float) -> None:
        if self._handle is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._handle = (self._folder / f"{uuid.uuid4().hex[:12]}.txt").open("x", buffering=1)
        self._handle.write(f"{dollars:.9f}\n")


def _judged(
    params: StudyParams,
    judge: JudgeParams,
    part: Partition,
    todo: pd.DataFrame,
    key: str,
    purse: Purse,
    root: Path,
    mine: Place,
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
    sent = todo[~empty]
    if judge.batch:
        run: JudgeRun = _batches(judge, part, sent, key, purse, root)
    else:
        run = JudgeRun(llm_judge(judge, part.names[0], root, mine.world), sent, key, purse)
    for frame in run:
        writer.append(frame)
        yield len(frame)
    _report(run, judge, len(sent), purse)


def _batches(judge: JudgeParams, part: Partition, todo: pd.DataFrame, key: str, purse: Purse, root: Path) -> BatchRun:
    """The batches of a part; their notes lie apart for every setting, so that none takes in another's."""
    suite, _, model = part.names
    sent = todo[todo["finish_reason"] != "empty"] if len(todo) else todo
    generation = sent["generation_id"].iloc[0] if len(sent) else "none"
    notes = part.root / "batches" / judge.name / suite / model / f"{generation}-{key}"
    every, _ = judge_todo(Partition(part.root, JUDGMENTS, part.names), generation, "", Place(), ())
    return BatchRun(llm_judge(judge, suite, root), sent, key, purse, notes, every)


def _report(run: JudgeRun, judge: JudgeParams, asked: int, purse: Purse) -> None:
    """Print what of a run gave no label, and what was not asked for."""
    ended = ", ".join(f"{status} {count}" for status, count in run.statuses.most_common() if status != "ok")
    if ended:
        print(f"judge {judge.name}: {run.statuses['ok']} ok, {ended} ({run.attempts} calls)")
    left = max(0, asked - run.statuses.total())
    if run.stopped:
        print(
            f"judge {judge.name}: stopped at max_cost ${purse.limit:g} (spent ${purse.spent:.4f}); {left} replies left"
        )
    elif left:
        print(f"judge {judge.name}: {left} replies have no answer yet; run again to ask for them")


def _warn(judge: JudgeParams, params: StudyParams, root: Path, mine: Place) -> None:
    """Print once for each rubric of a judge that it was published with other models."""
    if judge.endpoint is not None and mine.rank == 0:
        rubrics = [llm_judge(judge, suite.name, root).rubric for suite in params.suites if judge.reads(suite.name)]
        for warning in dict.fromkeys(filter(None, (rubric.warning(str(judge.served)) for rubric in rubrics))):
            print(f"warning: {warning}")
