"""The stage `generate`: prompts -> responses, by models in this process, in workers, or behind endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.generation.settings import GenerationJob
from slmsafety.models.source import pinned
from slmsafety.params.entries import SuiteParams
from slmsafety.pipeline.run import Run, Written, current, same_commit, say, without
from slmsafety.pipeline.workers import Report, run_workers, work_on_cpu

if TYPE_CHECKING:
    from slmsafety.models.load import LoadedModel


def generate_replies(run: Run) -> Written:
    """Generate the replies of a shard that are missing, in worker processes where the study asks for some."""
    kept = _by_workers(run) if run.params.generation.workers > 1 else {}
    for part, made, before in _replies(run, None):
        first = kept.get(part.names, before)
        yield part, made + before - first, first


def _by_workers(run: Run) -> dict[tuple[str, ...], int]:
    """Let workers do the shard, but for models behind endpoints; return how many replies each part had before."""
    kept: dict[tuple[str, ...], int] = {}
    total, workers = 0, run.params.generation.workers
    for model in _local(run):
        for suite in run.params.suites:
            asked = len(run.asked(suite.name))
            kept[suite.name, model] = asked - len(_todo(run, suite.name, model))
            total += asked
    if sum(kept.values()) < total:
        work_on_cpu("generation.workers")
        with run.progress_bar("generate", total, sum(kept.values())) as bar:

            def report(rows: int, text: str) -> None:
                bar.set_description(text, refresh=False)
                bar.update(rows)

            run_workers(partial(_work, run), workers, report)
    return kept


def _work(run: Run, worker: int, report: Report) -> None:
    """What one worker does: its part of this process's shard, of every suite and model."""
    for part, _, _ in _replies(run.of_worker(worker, run.params.generation.workers), report):
        part.compact()


def _replies(run: Run, report: Report | None) -> Written:
    """Generate what is missing of a shard; a worker reports to its parent and leaves endpoints to it."""
    for model in run.params.model_ids if report is None else _local(run):
        engine = _Engine(run, model)
        for suite in run.params.suites:
            part, todo = run.responses(suite.name, model), _todo(run, suite.name, model)
            total, made, text = len(run.asked(suite.name)), 0, f"{model} {suite.name}"
            done = total - len(todo)
            if not todo.empty:
                with part.writer() as writer, run.progress_bar(text, total, done, report is None) as bar:
                    for batch in engine.replies(suite, todo):
                        writer.append(batch)
                        made += len(batch)
                        bar.update(len(batch))
                        if report is not None:
                            report(len(batch), text)
            yield part, made, done


class _Engine:
    """What generates the replies of one model: its weights here, loaded when they are needed, or its endpoint."""

    def __init__(self, run: Run, model: str) -> None:
        self._run, self._model, self._source = run, model, run.sources[model]
        self._loaded: LoadedModel | None = None
        self._tokens: int | None = None

    def replies(self, suite: SuiteParams, prompts: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Yield frames of the responses table; prints what an endpoint gave no reply to."""
        how, generation = self._run.params.generation, self._run.generation_ids[suite.name, self._model]
        job = GenerationJob(self._run.settings(suite, self._model), self._model, generation)
        if self._source.endpoint is not None:
            from slmsafety.generation import endpoint_engine

            calls = endpoint_engine.generate(self._source, prompts, job, how.concurrency)
            yield from calls
            if calls.problems():
                say(f"{self._model} {suite.name}: {calls.problems()}")
            return
        from slmsafety.generation import transformers_engine
        from slmsafety.generation.decoding import BatchLimits
        from slmsafety.generation.memory import token_budget
        from slmsafety.models.load import load_causal_lm

        if self._loaded is None:
            self._loaded = load_causal_lm(self._source, dtype=how.dtype)
            if Run(self._run.params, self._run.root).generation_ids[suite.name, self._model] != generation:
                raise InputError(f"model '{self._model}': its files changed while this run was at work; run again")
            self._tokens = None if how.memory_gb is None else token_budget(self._loaded, how.memory_gb, how.batch_size)
        loaded, tokens = self._loaded, self._tokens
        if not pinned(self._source):
            made = current(self._run.responses(suite.name, self._model).read(["meta"]), generation)
            same_commit(made, loaded.revision, f"model '{self._model}'")
        yield from transformers_engine.generate(loaded, prompts, job, BatchLimits(how.batch_size, tokens))


def _todo(run: Run, suite: str, model: str) -> pd.DataFrame:
    """The prompts of a shard, a row for each reply that they lack."""
    return without(run.asked(suite), run.replies(suite, model, ["sample"]))


def _local(run: Run) -> list[str]:
    """The models that run in this machine's processes."""
    return [model for model, source in run.sources.items() if source.endpoint is None]
