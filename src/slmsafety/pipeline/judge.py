"""The stage `judge`: replies -> judgments, by the study's judges, offline or over an endpoint."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.judging import registry as offline
from slmsafety.judging.base import MeasuringJudge
from slmsafety.judging.llm.batches import Batching, BatchRun
from slmsafety.judging.llm.cost import Budget
from slmsafety.judging.llm.judge import JudgeRun, LlmJudge
from slmsafety.judging.rubrics.base import RubricChoice
from slmsafety.judging.rubrics.registry import build, rubric_of
from slmsafety.params.judge import JudgeParams
from slmsafety.params.study import StudyParams
from slmsafety.paths import data_path
from slmsafety.pipeline.run import (
    PROMPT,
    REPLY,
    Written,
    among,
    generation_ids,
    of,
    progress_bar,
    same_commit,
    stored_prompts,
)
from slmsafety.pipeline.shards import Place, share
from slmsafety.records.ids import content_id
from slmsafety.records.schema import JUDGMENTS, RESPONSES
from slmsafety.records.store import Partition

_CHUNK = 500
# Errors that would be the same again: they are asked for again only when --retry names them.
FINAL = ("blocked", "prompt_too_long", "nan_logits")


def judge_ids(params: StudyParams, root: Path) -> dict[tuple[str, str], str]:
    """Return the judge_id of every suite and judge that reads it; InputError when a rubric's prompts are not there."""
    return {
        (suite.name, judge.name): judge_id(judge, suite.name, params.empty, root)
        for suite in params.suites
        for judge in params.judges_of(suite.name)
    }


def judge_id(judge: JudgeParams, suite: str, empty: str, root: Path) -> str:
    """Return the id of a judge's work on a suite; a language model's follows from its rubric there."""
    if judge.endpoint is not None:
        definition = llm_judge(judge, suite, root).definition()
    elif judge.adapter is not None:
        from slmsafety.pipeline import guard_judges

        definition = guard_judges.definition(judge, root)
    else:
        definition = offline.JUDGES[judge.name].definition()
    return content_id({"judge": judge.name, **definition, "sends_empty": offline.sends_empty(empty, suite)})


def llm_judge(judge: JudgeParams, suite: str, root: Path, processes: int = 1) -> LlmJudge:
    """Return a language model as it judges a suite, with its limits a minute divided among so many processes.

    Raises InputError when the rubric's prompts are not to be had.
    """
    choice = RubricChoice(
        name=rubric_of(suite) if judge.rubric == "auto" else judge.rubric,
        prompt_source=judge.prompt_source,
        helm=None if judge.helm is None else data_path(judge.helm, root),
        parser=judge.parser,
        judge_prompts=None if judge.judge_prompts is None else data_path(judge.judge_prompts, root),
        polarity=judge.polarity,
        revision=judge.rubric_revision,
    )
    rubric = build(choice)
    return LlmJudge(judge.name, rubric, judge.server(processes), judge.revision, judge.request)


def judge_replies(params: StudyParams, folder: Path, root: Path, mine: Place, retry: Collection[str]) -> Written:
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
        local = _Local(judge, root)
        with Ledger(judge, folder) as ledger:
            purse = ledger.purse(mine)
            if judge.batch:
                for part, todo, _, key in _parts(params, judge, folder, root, mine, retry):
                    if not todo.empty:
                        _batches(judge, part, todo, key, purse, root, params.empty).send()
            for part, todo, done, key in _parts(params, judge, folder, root, mine, retry):
                made, text = 0, " ".join((judge.name, part.names[2], part.names[0]))
                if not todo.empty:
                    with part.writer() as writer, progress_bar(text, done + len(todo), done) as bar:
                        if judge.endpoint is None:
                            frames = local.judgments(part, todo, key, params.empty)
                        else:
                            frames = _asked(params, judge, part, todo, key, purse, root, mine)
                        for frame in frames:
                            writer.append(frame)
                            bar.update(len(frame))
                            made += len(frame)
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
    judged = among(of(part.read(["status", "reason"]), generation, key), prompts)
    failed = judged["status"].eq("error") & ~judged["reason"].isin(FINAL)
    done = judged[~(failed | judged["status"].isin(set(retry)))]
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

    def purse(self, mine: Place) -> Budget:
        """Return this process's part of what may still be spent."""
        spent, limit = self.spent(), self._judge.max_cost
        mine_of = None if limit is None else spent + max(0.0, limit - spent) / mine.world
        return Budget(self._judge.price, mine_of, spent, self._write)

    def _write(self, dollars: float) -> None:
        if self._handle is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._handle = (self._folder / f"{uuid.uuid4().hex[:12]}.txt").open("x", buffering=1)
        self._handle.write(f"{dollars:.9f}\n")


@dataclass(frozen=True)
class _Measured:
    """What measures replies, as a `MeasuringJudge` asks it."""

    measure: Callable[[pd.DataFrame], pd.DataFrame]
    definition: Callable[[], dict[str, Any]] = dict


class _Local:
    """What judges replies in this process: rules, or a guard model whose weights are loaded when they are needed."""

    def __init__(self, judge: JudgeParams, root: Path) -> None:
        self._judge, self._root = judge, root
        self._loaded: tuple[Callable[[pd.DataFrame], pd.DataFrame], str] | None = None

    def judgments(self, part: Partition, todo: pd.DataFrame, key: str, empty: str) -> Iterator[pd.DataFrame]:
        """Yield frames of the judgments table that go on with a part."""
        judge, rows = MeasuringJudge(self._judge.name, _Measured(self._measure(part, key))), self._rows
        for start in range(0, len(todo), rows):
            yield offline.judgments(todo.iloc[start : start + rows], judge, key, empty)

    @property
    def _rows(self) -> int:
        """How many rows are judged before they are written: what a stopped run loses."""
        return _CHUNK if self._judge.adapter is None else 4 * self._judge.batch_size

    def _measure(self, part: Partition, key: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
        if self._judge.adapter is None:
            found: Callable[[pd.DataFrame], pd.DataFrame] = offline.JUDGES[self._judge.name].measure
            return found
        from slmsafety.pipeline import guard_judges

        if self._loaded is None:
            self._loaded = guard_judges.load(self._judge, self._root)
        measure, revision = self._loaded
        if guard_judges.unpinned(self._judge, self._root):
            rows = part.read(["meta"])
            same_commit(rows[rows["judge_id"] == key], revision, f"judge '{self._judge.name}'")
        return measure


def _asked(
    params: StudyParams,
    judge: JudgeParams,
    part: Partition,
    todo: pd.DataFrame,
    key: str,
    purse: Budget,
    root: Path,
    mine: Place,
) -> Iterator[pd.DataFrame]:
    """Yield the judgments of a part by a language model behind an endpoint."""
    empty = todo["finish_reason"].eq("empty")
    if offline.sends_empty(params.empty, part.names[0]):
        empty[:] = False
    if empty.any():
        yield offline.empty_rows(todo[empty], judge.name, key, params.empty)
    if empty.all():
        return
    sent = todo[~empty]
    if judge.batch:
        run: JudgeRun = _batches(judge, part, sent, key, purse, root, params.empty)
    else:
        run = JudgeRun(llm_judge(judge, part.names[0], root, mine.world), sent, key, purse)
    yield from run
    _report(run, judge, len(sent), purse)


def _batches(
    judge: JudgeParams, part: Partition, todo: pd.DataFrame, key: str, purse: Budget, root: Path, empty: str
) -> BatchRun:
    """The batches of a part; their notes lie apart for every setting, so that none takes in another's."""
    suite, _, model = part.names
    sent = todo if offline.sends_empty(empty, suite) else todo[todo["finish_reason"] != "empty"]
    generation = sent["generation_id"].iloc[0] if len(sent) else "none"
    notes = part.root / "batches" / judge.name / suite / model / f"{generation}-{key}"
    every, _ = judge_todo(Partition(part.root, JUDGMENTS, part.names), generation, "", Place(), ())
    return BatchRun(llm_judge(judge, suite, root), sent, key, purse, Batching(notes, every))


def _report(run: JudgeRun, judge: JudgeParams, asked: int, purse: Budget) -> None:
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
