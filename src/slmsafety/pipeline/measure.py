"""The stage `metrics`: prompts and replies -> prompt_metrics, reply_metrics and own_metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.metrics.own import OwnMetric, own_metric
from slmsafety.pipeline.run import Run, Written, without
from slmsafety.pipeline.workers import Report, run_workers, work_on_cpu
from slmsafety.records.files import read_text, write_atomic
from slmsafety.records.schema import OWN_METRICS, PROMPT_KEY, PROMPT_METRICS, REPLY_METRICS
from slmsafety.records.store import Partition

# Rows between two records: few enough to lose little, enough for batches of texts of like length.
CHUNK = 64


class _Part(NamedTuple):
    """A partition, the texts of a shard that it lacks, how many it has, and what measures a frame of texts."""

    partition: Partition
    todo: pd.DataFrame
    done: int
    measure: Callable[[pd.DataFrame], pd.DataFrame]

    @property
    def text(self) -> str:
        """What a bar shows."""
        return f"metrics {' '.join(filter(None, reversed(self.partition.names)))}"


def of_metrics(rows: pd.DataFrame, wanted: str) -> pd.DataFrame:
    """Return the rows of a metric table that have an id."""
    return rows[rows["metrics_id"] == wanted]


def own_metrics(run: Run) -> list[OwnMetric]:
    """Return the metrics of the user's own that the study names; InputError for a module that is none."""
    names = run.params.metrics.own
    return run.once(("own metrics",), lambda: [own_metric(run.module(name)) for name in names])


def measure(run: Run) -> Written:
    """Measure what is missing of a shard, in worker processes where the study asks for some.

    Says which reference models made the numbers, here and in metrics/<metrics_id>.json below the study's folder.
    """
    before: dict[tuple[str, ...], int] = {}
    missing = 0
    for part in _parts(run):
        before[_key(part)] = part.done
        missing += len(part.todo)
    if missing:
        _say_what_measures(run)
        if run.params.metrics.workers > 1:
            _by_workers(run, missing, sum(before.values()))
    for part in _measured(run, None):
        first = before[_key(part)]
        yield part.partition, part.done + len(part.todo) - first, first


def _by_workers(run: Run, missing: int, done: int) -> None:
    """Let workers do the shard, of which some rows are missing and some are done."""
    work_on_cpu("metrics.workers")
    with run.progress_bar("metrics", done + missing, done) as bar:

        def report(rows: int, text: str) -> None:
            bar.set_description(text, refresh=False)
            bar.update(rows)

        run_workers(partial(_work, run), run.params.metrics.workers, report)


def _work(run: Run, worker: int, report: Report) -> None:
    """What one worker does: its part of this process's shard."""
    for part in _measured(run.of_worker(worker, run.params.metrics.workers), report):
        part.partition.compact()


def _measured(run: Run, report: Report | None) -> Iterator[_Part]:
    """Each part once it is filled."""
    for part in _parts(run):
        if not part.todo.empty:
            total = part.done + len(part.todo)
            with (
                part.partition.writer() as writer,
                run.progress_bar(part.text, total, part.done, report is None) as bar,
            ):
                for start in range(0, len(part.todo), CHUNK):
                    chunk = part.todo.iloc[start : start + CHUNK]
                    writer.append(part.measure(chunk))
                    bar.update(len(chunk))
                    if report is not None:
                        report(len(chunk), part.text)
        yield part


def _parts(run: Run) -> Iterator[_Part]:
    """Each partition of the stage, the prompts of a suite before their replies."""
    own = own_metrics(run)
    for suite in run.suites:
        prompts = run.prompts(suite.name)[[*PROMPT_KEY, "prompt"]]
        yield _built_in(run, Partition(run.folder, PROMPT_METRICS, (suite.name,)), prompts)
        yield from (_own(run, metric, suite.name, "", prompts) for metric in own if metric.of == "prompts")
        for model in run.texts.models(suite.name):
            replies = run.replies(suite.name, model, ["response"])
            replies = replies.merge(prompts, on=list(PROMPT_KEY), validate="many_to_one")
            yield _built_in(run, Partition(run.folder, REPLY_METRICS, (suite.name, model)), replies)
            yield from (_own(run, metric, suite.name, model, replies) for metric in own if metric.of == "replies")


def _built_in(run: Run, partition: Partition, texts: pd.DataFrame) -> _Part:
    """A part of the package's own metrics."""
    rows = partition.read(["tokens"])
    if len(rows) and rows["metrics_id"].isna().all():  # of before metrics had ids: what made the numbers is not known
        partition.parquet.unlink()
    done = of_metrics(rows, run.metrics_id)
    if "generation_id" in done:
        done = run.texts.present(done, *partition.names)
    done = done[done["instance_id"].isin(texts["instance_id"])]

    def measured(chunk: pd.DataFrame) -> pd.DataFrame:
        from slmsafety.metrics.tables import Metrics  # here, since it loads torch

        metrics = run.once(("metrics",), lambda: Metrics(**run.params.metrics.sources(run.root)))
        replies = partition.table is REPLY_METRICS
        rows = metrics.of_replies(chunk) if replies else metrics.of_prompts(chunk)
        return rows.assign(metrics_id=run.metrics_id)

    return _Part(partition, without(texts, done), len(done), measured)


def _own(run: Run, metric: OwnMetric, suite: str, model: str, texts: pd.DataFrame) -> _Part:
    """A part of a metric of the user's own; of prompts where the model is ""."""
    partition = Partition(run.folder, OWN_METRICS, (suite, metric.name, model))
    done = partition.read(["value"])
    done = done[done["metric_id"] == metric.id]
    if model:
        done = run.texts.present(done, suite, model)
    done = done[done["instance_id"].isin(texts["instance_id"])]

    def measured(chunk: pd.DataFrame) -> pd.DataFrame:
        rows = metric.measure(chunk)
        return rows if model else rows.assign(model="", generation_id="", sample=0)

    return _Part(partition, without(texts, done), len(done), measured)


def _key(part: _Part) -> tuple[str, ...]:
    return (part.partition.table.name, *part.partition.names)


def _say_what_measures(run: Run) -> None:
    """Print which reference models measure and keep it beside the tables.

    Raises InputError when other ones, of the same id, have measured before: a hub id without revision has moved on.
    """
    from slmsafety.models.encoder import SPACY_FILE, reference_name

    file = {"parser": SPACY_FILE}
    models = run.reference_models
    names = {name: reference_name(source, file.get(name, "config.json")) for name, source in models.items()}
    path = run.folder / "metrics" / f"{run.metrics_id}.json"
    if path.exists():
        try:
            before = dict(json.loads(read_text(path)))
        except (TypeError, ValueError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path}: is damaged; delete it where the models are the same") from error
        for name in names:
            if before.get(name) != names[name]:
                raise InputError(
                    f"{path}: {name} was measured by {before.get(name)}, and now it would be by {names[name]}; "
                    f"give metrics.{name} a revision in params"
                )
    else:
        write_atomic(path, (json.dumps(names, indent=1, ensure_ascii=False) + "\n").encode())
    own = {metric.name: f"module {metric.definition()['module']}" for metric in own_metrics(run)}
    for name, model in {**names, **own}.items():
        print(f"{run.shard.prefix()}metrics: {name} by {model}")
