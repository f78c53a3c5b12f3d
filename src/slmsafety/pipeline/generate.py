"""The stage `generate`: prompts -> responses, by models in this process, in workers, or behind endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.generation.settings import GenerationJob
from slmsafety.models.source import Source
from slmsafety.params.entries import SuiteParams
from slmsafety.params.study import StudyParams
from slmsafety.pipeline.run import Written, generation_ids, of, progress_bar, same_commit, settings, stored_prompts
from slmsafety.pipeline.shards import Place, share
from slmsafety.pipeline.workers import Report, run_workers
from slmsafety.records.schema import RESPONSES
from slmsafety.records.store import Partition

if TYPE_CHECKING:
    from slmsafety.models.load import LoadedModel


def generate_replies(params: StudyParams, folder: Path, root: Path, mine: Place) -> Written:
    """Generate the replies of a share that are missing, in worker processes where the study asks for some."""
    kept = _by_workers(params, folder, root, mine) if params.generation.workers > 1 else {}
    for part, made, before in _replies(params, folder, root, mine, None):
        first = kept.get(part.names, before)
        yield part, made + before - first, first


def _by_workers(params: StudyParams, folder: Path, root: Path, mine: Place) -> dict[tuple[str, ...], int]:
    """Let workers do the share, but for models behind endpoints; return how many replies each part had before."""
    kept: dict[tuple[str, ...], int] = {}
    total, local = 0, _local(params, root)
    for (suite, model), wanted in generation_ids(params, root).items():
        if model in local:
            prompts, todo = _todo(folder, suite, model, wanted, mine)
            kept[suite, model] = len(prompts) - len(todo)
            total += len(prompts)
    if sum(kept.values()) < total:
        _check_cpu()
        with progress_bar("generate", total, sum(kept.values())) as bar:

            def report(rows: int, text: str) -> None:
                bar.set_description(text, refresh=False)
                bar.update(rows)

            run_workers(partial(_work, params, folder, root, mine), params.generation.workers, report)
    return kept


def _check_cpu() -> None:
    """Raise InputError on a GPU, which every worker would take for its own."""
    import torch

    if torch.cuda.is_available():
        raise InputError("generation.workers are for CPUs; use one, or accelerate launch for several GPUs")


def _work(params: StudyParams, folder: Path, root: Path, mine: Place, worker: int, report: Report) -> None:
    """What one worker does: its part of this process's share, of every suite and model."""
    for part, _, _ in _replies(params, folder, root, mine.part(worker, params.generation.workers), report):
        part.compact()


def _replies(params: StudyParams, folder: Path, root: Path, mine: Place, report: Report | None) -> Written:
    """Generate what is missing of a share; a worker reports to its parent and leaves endpoints to it."""
    ids = generation_ids(params, root)
    sources = {model.id: model.source(root) for model in params.models}
    for model in params.model_ids if report is None else _local(params, root):
        engine = _Engine(params, model, sources[model])
        for suite in params.suites:
            part = Partition(folder, RESPONSES, (suite.name, model))
            prompts, todo = _todo(folder, suite.name, model, ids[suite.name, model], mine)
            done, made, text = len(prompts) - len(todo), 0, f"{model} {suite.name}"
            if not todo.empty:
                with part.writer() as writer, progress_bar(text, len(prompts), done, report is None) as bar:
                    for batch in engine.run(suite, todo, ids[suite.name, model], part):
                        writer.append(batch)
                        made += len(batch)
                        bar.update(len(batch))
                        if report is not None:
                            report(len(batch), text)
            yield part, made, done


class _Engine:
    """What generates the replies of one model: its weights here, loaded when they are needed, or its endpoint."""

    def __init__(self, params: StudyParams, model: str, source: Source) -> None:
        self._params, self._model, self._source = params, model, source
        self._loaded: LoadedModel | None = None
        self._tokens: int | None = None

    def run(
        self, suite: SuiteParams, prompts: pd.DataFrame, generation: str, part: Partition
    ) -> Iterator[pd.DataFrame]:
        """Yield frames of the responses table that go on with a part; prints what an endpoint gave no reply to."""
        how = self._params.generation
        job = GenerationJob(settings(self._params, suite, self._model), self._model, generation)
        if self._source.endpoint is not None:
            from slmsafety.generation import endpoint_engine

            run = endpoint_engine.generate(self._source, prompts, job, how.concurrency)
            yield from run
            if run.problems():
                print(f"{self._model} {suite.name}: {run.problems()}")
            return
        from slmsafety.generation import transformers_engine
        from slmsafety.generation.decoding import BatchLimits
        from slmsafety.generation.memory import token_budget
        from slmsafety.models.load import load_causal_lm

        if self._loaded is None:
            self._loaded = load_causal_lm(self._source, dtype=how.dtype)
            self._tokens = None if how.memory_gb is None else token_budget(self._loaded, how.memory_gb, how.batch_size)
        loaded, tokens = self._loaded, self._tokens
        if self._source.hub is not None and self._source.revision is None:
            same_commit(of(part.read(["meta"]), generation), loaded.revision, f"model '{self._model}'")
        yield from transformers_engine.generate(loaded, prompts, job, BatchLimits(how.batch_size, tokens))


def _todo(folder: Path, suite: str, model: str, generation: str, mine: Place) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The prompts of a share, and those of them without a reply."""
    prompts = share(stored_prompts(folder, suite), mine)
    done = of(Partition(folder, RESPONSES, (suite, model)).read(["instance_id"]), generation)
    return prompts, prompts[~prompts["instance_id"].isin(done["instance_id"])]


def _local(params: StudyParams, root: Path) -> list[str]:
    """The models that run in this machine's processes."""
    return [model.id for model in params.models if model.source(root).endpoint is None]
