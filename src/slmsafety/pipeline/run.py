"""A run: a study's parameters at work. It knows its ids and hands out partitions; every stage takes it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from tqdm.auto import tqdm

from slmsafety.errors import InputError, visible
from slmsafety.generation.settings import GenerationSettings, generation_id
from slmsafety.models.packages import GPT2_VOCABULARY, WORDFREQ
from slmsafety.models.source import Source
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.base import JudgeEntry
from slmsafety.params.study import StudyParams
from slmsafety.paths import data_path
from slmsafety.pipeline.shards import ALONE, Shard, sharded
from slmsafety.pipeline.texts import ImportedTexts, OwnTexts, Texts
from slmsafety.plugins import Plugin, load_plugin
from slmsafety.records.ids import content_id
from slmsafety.records.schema import JUDGMENTS, PROMPT_KEY
from slmsafety.records.store import Partition
from slmsafety.suites.base import SuiteData
from slmsafety.suites.catalogue import load_suite

T = TypeVar("T")
# A part that a stage has filled, how many rows it made and how many were there.
Written = Iterator[tuple[Partition, int, int]]

# What a judge gets of a prompt, beside the reply.
JUDGED_WITH = [*PROMPT_KEY, "prompt", "subcategory", "expected", "meta"]

# Raise it when a metric of the same text by the same models would come out otherwise.
METRICS_VERSION = 1


@dataclass(frozen=True)
class Run:
    """A study at work: its parameters, the project's root, and the part of the work that is this process's.

    What is read or computed once a command is kept here: files of prompts, stored prompts, judges. A copy in another
    process (a worker) starts without any of it.
    """

    params: StudyParams
    root: Path
    shard: Shard = ALONE
    _kept: dict[tuple[object, ...], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[Run], tuple[StudyParams, Path, Shard]]:
        """Leave what is kept behind."""
        return Run, (self.params, self.root, self.shard)

    def once(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return what `make` gives, made once for a key in the life of this run."""
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    def forget(self, key: tuple[object, ...]) -> Any:
        """Drop what is kept for a key, and return it; None where there is nothing."""
        return self._kept.pop(key, None)

    def of_worker(self, worker: int, workers: int) -> Run:
        """Return the run of worker k of n: its shard is a part of this one's."""
        return Run(self.params, self.root, self.shard.part(worker, workers))

    @property
    def folder(self) -> Path:
        """Where the study's tables live."""
        return self.root / "runs" / self.params.name

    @cached_property
    def texts(self) -> Texts:
        """Which texts the study has, and which rows are about them."""
        return ImportedTexts(self) if self.params.kind == "imported" else OwnTexts(self)

    @property
    def suites(self) -> tuple[SuiteParams, ...]:
        """The suites of the study's texts."""
        return self.texts.suites

    @property
    def judges(self) -> tuple[JudgeEntry, ...]:
        """The judges that the study runs itself."""
        return self.texts.judges

    def judges_of(self, suite: SuiteParams) -> list[JudgeEntry]:
        """Return the judges that read a suite, of those that the study runs itself."""
        return [judge for judge in self.judges if judge.reads(suite)]

    def suites_of(self, judge: JudgeEntry) -> list[SuiteParams]:
        """Return the suites that a judge reads."""
        return [suite for suite in self.suites if judge.reads(suite)]

    def asked_suites(self, model: str) -> list[SuiteParams]:
        """Return the suites that a model of an own run is asked: all but those that leave it out."""
        return [suite for suite in self.params.suites if self.params.takes_part(suite.name, model)]

    def judged_models(self, judge: JudgeEntry, suite: str | None = None) -> tuple[str, ...]:
        """Return the ids of the models whose replies (to a suite) a judge reads: all, unless its entry names some."""
        return tuple(model for model in self.texts.models(suite) if not judge.models or model in judge.models)

    @cached_property
    def sources(self) -> dict[str, Source]:
        """Where each model comes from, by its id."""
        models = self.params.models if self.params.kind == "run" else ()
        return {model.id: model.source(self.root) for model in models}

    @cached_property
    def generation_ids(self) -> dict[tuple[str, str], str]:
        """The generation_id of every suite and model."""
        return {
            (suite.name, model): generation_id(source, self.settings(suite, model))
            for suite in self.params.suites
            for model, source in self.sources.items()
        }

    @cached_property
    def metrics_id(self) -> str:
        """The id of the study's metrics: a hash of their reference models and of their definitions' version."""
        models = {name: source.definition() for name, source in self.reference_models.items()}
        return content_id({"definitions": METRICS_VERSION, **models})

    @property
    def reference_models(self) -> dict[str, Source]:
        """The reference models of the metrics, by what they measure."""
        given = self.params.metrics.sources(self.root)
        return {"tokens": Source(package=GPT2_VOCABULARY), **given, "word frequencies": Source(package=WORDFREQ)}

    def settings(self, suite: SuiteParams, model: str) -> GenerationSettings:
        """Return the generation settings of a suite and model, without what merely runs them."""
        running = {"batch_size", "memory_gb", "workers", "concurrency", "samples"}
        given = self.params.generation.model_dump(exclude=running)
        if given["seed"] is None:
            given["seed"] = self.params.seed
        if suite.max_new_tokens is not None:
            given["max_new_tokens"] = suite.max_new_tokens
        (entry,) = (entry for entry in self.params.models if entry.id == model)
        return GenerationSettings(**given | entry.asking)

    def module(self, name: str) -> Plugin:
        """Return a module of the user's own, which is read once."""
        return self.once(("module", name), lambda: load_plugin(name, self.root))

    def suite_data(self, suite: SuiteParams) -> SuiteData:
        """Return a suite's prompts from its file, which is read once."""
        path = None if suite.path is None else data_path(suite.path, self.root)
        return self.once(("suite", suite.name), lambda: load_suite(suite.name, path))

    def stored_prompts(self, suite: str) -> pd.DataFrame:
        """Return all prompts of a suite in the tables; InputError when the stage `prompts` has not run."""
        return self.once(("prompts", suite), lambda: self._read_prompts(suite))

    def prompts(self, suite: str) -> pd.DataFrame:
        """Return the prompts of a suite that are this shard's."""
        return self.once(("shard", suite), lambda: sharded(self.readable_prompts(suite), self.shard))

    def readable_prompts(self, suite: str) -> pd.DataFrame:
        """Return the prompts of a suite that have a text, which an imported one may lack."""
        prompts = self.stored_prompts(suite)
        return prompts[prompts["prompt"].fillna("").str.strip() != ""]

    @property
    def samples(self) -> int:
        """How many replies every prompt gets in an own run."""
        return self.params.generation.samples

    def asked(self, suite: str) -> pd.DataFrame:
        """Return this shard's prompts of a suite, a row for each reply that they get, numbered by `sample` from 0."""
        prompts, samples = self.prompts(suite), range(self.samples)
        repeated = prompts.loc[prompts.index.repeat(len(samples))].reset_index(drop=True)
        return repeated.assign(sample=[*samples] * len(prompts))

    def replies(self, suite: str, model: str, columns: list[str]) -> pd.DataFrame:
        """Return this shard's present replies of a model to a suite, with some columns."""
        rows = self.texts.replies(suite, model, columns)
        return rows[rows["instance_id"].isin(self.prompts(suite)["instance_id"])]

    def responses(self, suite: str, model: str) -> Partition:
        """Return the partition of a model's replies to a suite."""
        return self.texts.responses(suite, model)

    def judgments(self, suite: str, judge: str, model: str) -> Partition:
        """Return the partition of a judge's verdicts on a model's replies to a suite."""
        return Partition(self.folder, JUDGMENTS, (suite, judge, model))

    def _read_prompts(self, suite: str) -> pd.DataFrame:
        prompts = self.texts.prompts(suite).read()
        if prompts.empty:
            raise InputError(f"suite '{suite}' has no prompts in {self.params.name} yet; run the stage 'prompts' first")
        return prompts

    def progress_bar(self, text: str, total: int, done: int, shown: bool = True) -> tqdm:
        """Return a bar with an ETA on a terminal and in a notebook (one for all processes), none in a log file."""
        return progress_bar(text, total, done, shown and self.shard.rank == 0)


def current(rows: pd.DataFrame, generation: str) -> pd.DataFrame:
    """Select the rows of a generation_id."""
    return rows[rows["generation_id"] == generation]


def without(rows: pd.DataFrame, done: pd.DataFrame) -> pd.DataFrame:
    """Return the prompts of a suite, or the replies of one model to it, that are not among those that are done."""
    if "sample" not in rows:
        return rows[~rows["instance_id"].isin(done["instance_id"])]
    key = ["instance_id", "sample"]
    return rows[~pd.MultiIndex.from_frame(rows[key]).isin(pd.MultiIndex.from_frame(done[key]))]


def with_prompts(replies: pd.DataFrame, prompts: pd.DataFrame) -> pd.DataFrame:
    """Return replies of one model, each beside its prompt."""
    return replies.merge(prompts, on=list(PROMPT_KEY), how="left", validate="many_to_one")


def same_commit(rows: pd.DataFrame, commit: str, what: str) -> None:
    """Refuse to go on with what a hub model made at another commit: one id would stand for two models.

    `rows` has suite and meta; a row that holds no commit was made without the model. Raises InputError.
    """
    for suite, meta in zip(rows["suite"], rows["meta"], strict=True):
        before = json.loads(meta).get("revision") if isinstance(meta, str) else None
        if before not in (None, commit):
            raise InputError(
                f"{what} is at commit {commit} on the hub now, and its rows of {suite} were made at {before}; "
                f"give it `revision: {before}` (or {commit}) in params, under which they are made anew"
            )


def say(text: str) -> None:
    """Print a line where a bar may be open: it stands on a line of its own, above the bar."""
    tqdm.write(visible(text))


def progress_bar(text: str, total: int, done: int, shown: bool = True) -> tqdm:
    """Return a bar with an ETA on a terminal and in a notebook, nothing in a log file or where it is not `shown`."""
    in_notebook = "ipykernel" in sys.modules
    return tqdm(total=total, initial=done, desc=text, unit="row", disable=not shown or (False if in_notebook else None))
