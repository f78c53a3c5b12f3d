"""The stage `generate`: prompts -> responses, by models in this process, in workers, or behind endpoints.

A model that cannot run stops nobody: why is printed and kept, and the others go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.generation.settings import GenerationJob
from slmsafety.models.source import pinned
from slmsafety.params.entries import SuiteParams
from slmsafety.pipeline.model_checks import look_at_models, say_stopped
from slmsafety.pipeline.run import Run, Written, current, same_commit, say, without
from slmsafety.pipeline.workers import Report, run_workers, work_on_cpu

if TYPE_CHECKING:
    from slmsafety.generation.cache_check import Checked
    from slmsafety.models.load import LoadedModel


def generate_replies(run: Run, stopped: dict[str, str]) -> Written:
    """Generate the replies of a shard that are missing, in worker processes where the study asks for some.

    Parameters
    ----------
    run : Run
        The study at work.
    stopped : dict of str to str
        Takes why a model could not run, by its id; its finished replies are kept.
    """
    waiting = [
        model for model in run.params.model_ids if any(len(_todo(run, s.name, model)) for s in run.asked_suites(model))
    ]
    stopped.update(look_at_models(run, waiting))
    kept = _by_workers(run, stopped) if run.params.generation.workers > 1 else {}
    for part, made, before in _replies(run, None, stopped):
        first = kept.get(part.names, before)
        yield part, made + before - first, first


def _by_workers(run: Run, stopped: dict[str, str]) -> dict[tuple[str, ...], int]:
    """Let workers do the shard, but for models behind endpoints; return how many replies each part had before."""
    kept: dict[tuple[str, ...], int] = {}
    total, workers = 0, run.params.generation.workers
    for model in _local(run):
        for suite in run.asked_suites(model):
            asked = len(run.asked(suite.name))
            kept[suite.name, model] = asked - len(_todo(run, suite.name, model))
            total += asked if model not in stopped else kept[suite.name, model]
    if sum(kept.values()) < total:
        work_on_cpu("generation.workers")
        with run.progress_bar("generate", total, sum(kept.values())) as bar:

            def report(rows: int, text: str) -> None:
                bar.set_description(text, refresh=False)
                bar.update(rows)

            for found in run_workers(partial(_work, run, dict(stopped)), workers, report):
                for model, reason in found.items():
                    if stopped.setdefault(model, reason) is reason:
                        say_stopped(run, model, reason)
    return kept


def _work(run: Run, stopped: dict[str, str], worker: int, report: Report) -> dict[str, str]:
    """What one worker does: its part of this process's shard, of every suite and model; returns what stopped there."""
    found = dict(stopped)
    for part, _, _ in _replies(run.of_worker(worker, run.params.generation.workers), report, found):
        part.compact()
    return {model: reason for model, reason in found.items() if model not in stopped}


def _replies(run: Run, report: Report | None, stopped: dict[str, str]) -> Written:
    """Generate what is missing of a shard; a worker reports to its parent and leaves endpoints to it."""
    for model in run.params.model_ids if report is None else _local(run):
        engine = _Engine(run, model, stopped)
        for suite in run.asked_suites(model):
            part, todo = run.responses(suite.name, model), _todo(run, suite.name, model)
            total, made, text = len(run.asked(suite.name)), 0, f"{model} {suite.name}"
            done = total - len(todo)
            if not todo.empty and model not in stopped:
                with part.writer() as writer, run.progress_bar(text, total, done, report is None) as bar:
                    for batch in engine.replies(suite, todo):
                        writer.append(batch)
                        made += len(batch)
                        bar.update(len(batch))
                        if report is not None:
                            report(len(batch), text)
                if model in stopped and report is None:
                    say_stopped(run, model, stopped[model])
            yield part, made, done


class _Engine:
    """What generates the replies of one model: its weights here, loaded when they are needed, or its endpoint."""

    def __init__(self, run: Run, model: str, stopped: dict[str, str]) -> None:
        self._run, self._model, self._source = run, model, run.sources[model]
        self._stopped = stopped
        self._loaded: tuple[LoadedModel, Checked, int | None] | None = None

    def replies(self, suite: SuiteParams, prompts: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Yield frames of the responses table until there are all, or until the model cannot go on."""
        generation = self._run.generation_ids[suite.name, self._model]
        job = GenerationJob(self._run.settings(suite, self._model), self._model, generation)
        made = self._here if self._source.endpoint is None else self._asked
        try:
            yield from made(suite, prompts, job)
        except InputError as error:
            self._stopped[self._model] = str(error)

    def _asked(self, suite: SuiteParams, prompts: pd.DataFrame, job: GenerationJob) -> Iterator[pd.DataFrame]:
        """Yield what the endpoint answers; prints what got no reply."""
        from slmsafety.generation import endpoint_engine

        calls = endpoint_engine.generate(self._source, prompts, job, self._run.params.generation.concurrency)
        yield from calls
        if calls.problems():
            say(f"{self._model} {suite.name}: {calls.problems()}")

    def _here(self, suite: SuiteParams, prompts: pd.DataFrame, job: GenerationJob) -> Iterator[pd.DataFrame]:
        """Yield what the weights in this process say."""
        from slmsafety.generation import transformers_engine
        from slmsafety.generation.decoding import BatchLimits

        if self._loaded is None:
            self._loaded = self._load()
            if Run(self._run.params, self._run.root).generation_ids[suite.name, self._model] != job.generation_id:
                raise InputError("its files changed while this run was at work; run again")
        loaded, checked, tokens = self._loaded
        if not pinned(self._source):
            made = current(self._run.responses(suite.name, self._model).read(["meta"]), job.generation_id)
            same_commit(made, loaded.revision, f"model '{self._model}'")
        limits = BatchLimits(1 if checked.alone else self._run.params.generation.batch_size, tokens)
        yield from transformers_engine.generate(loaded, prompts, job, limits, checked.decode)

    def _load(self) -> tuple[LoadedModel, Checked, int | None]:
        """Return the model, how it is to be decoded, and the most tokens of a batch; InputError if it cannot run."""
        from slmsafety.generation.cache_check import checked_decoder
        from slmsafety.generation.memory import token_budget, within_memory
        from slmsafety.models.load import load_causal_lm

        how = self._run.params.generation
        loaded = within_memory(lambda: load_causal_lm(self._source, dtype=how.dtype))
        if loaded is None:
            raise InputError("its weights do not fit into memory")
        checked = within_memory(lambda: checked_decoder(loaded))
        if checked is None:
            raise InputError("its weights leave no memory for a prompt")
        rows = 1 if checked.alone else how.batch_size
        if checked.alone:
            say(f"{self._model}: its cache holds no rows side by side, so that its prompts go one at a time")
        return loaded, checked, None if how.memory_gb is None else token_budget(loaded, how.memory_gb, rows)


def _todo(run: Run, suite: str, model: str) -> pd.DataFrame:
    """The prompts of a shard, a row for each reply that they lack."""
    return without(run.asked(suite), run.replies(suite, model, ["sample"]))


def _local(run: Run) -> list[str]:
    """The models that run in this machine's processes."""
    return [model for model, source in run.sources.items() if source.endpoint is None]
