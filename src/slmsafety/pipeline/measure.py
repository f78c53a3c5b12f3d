"""The stage `metrics`: prompts and replies -> prompt_metrics and reply_metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.models.packages import GPT2_VOCABULARY, WORDFREQ
from slmsafety.models.source import Source
from slmsafety.params.study import StudyParams
from slmsafety.pipeline.run import Written, among, generation_ids, of, progress_bar, stored_prompts
from slmsafety.pipeline.shards import Place, share
from slmsafety.pipeline.workers import Report, run_workers
from slmsafety.records.files import write_atomic
from slmsafety.records.ids import content_id
from slmsafety.records.schema import PROMPT_METRICS, REPLY_METRICS, RESPONSES
from slmsafety.records.store import Partition

if TYPE_CHECKING:
    from slmsafety.metrics.tables import Metrics

# Raise it when a metric of the same text by the same models would come out otherwise.
DEFINITIONS = 1
# Rows between two records: few enough to lose little, enough for batches of texts of like length.
CHUNK = 64


class _Part(NamedTuple):
    """A partition, the texts of a share that it lacks, how many it has, and its name on a bar."""

    partition: Partition
    todo: pd.DataFrame
    done: int
    text: str


def metrics_id(params: StudyParams, root: Path) -> str:
    """Return the id of the study's metrics: a hash of their reference models and of their definitions' version."""
    models = {name: source.definition() for name, source in _references(params, root).items()}
    return content_id({"definitions": DEFINITIONS, **models})


def of_metrics(rows: pd.DataFrame, wanted: str) -> pd.DataFrame:
    """Return the rows of a metric table that have an id."""
    return rows[rows["metrics_id"] == wanted]


def measure(params: StudyParams, folder: Path, root: Path, mine: Place) -> Written:
    """Measure what is missing of a share, in worker processes where the study asks for some.

    Says which reference models made the numbers, here and in metrics/<metrics_id>.json below the study's folder.
    """
    before: dict[tuple[str, ...], int] = {}
    missing = 0
    for part in _parts(params, folder, root, mine):
        before[_key(part)] = part.done
        missing += len(part.todo)
    if missing:
        _say_what_measures(params, folder, root, mine)
        if params.metrics.workers > 1:
            _by_workers(params, folder, root, mine, missing, sum(before.values()))
    for part in _measured(params, folder, root, mine, None):
        first = before[_key(part)]
        yield part.partition, part.done + len(part.todo) - first, first


def _by_workers(params: StudyParams, folder: Path, root: Path, mine: Place, missing: int, done: int) -> None:
    """Let workers do the share, of which some rows are missing and some are done."""
    import torch

    if torch.cuda.is_available():
        raise InputError("metrics.workers are for CPUs; use one, or accelerate launch for several GPUs")
    with progress_bar("metrics", done + missing, done) as bar:

        def report(rows: int, text: str) -> None:
            bar.set_description(text, refresh=False)
            bar.update(rows)

        run_workers(partial(_work, params, folder, root, mine), params.metrics.workers, report)


def _work(params: StudyParams, folder: Path, root: Path, mine: Place, worker: int, report: Report) -> None:
    """What one worker does: its part of this process's share."""
    for part in _measured(params, folder, root, mine.part(worker, params.metrics.workers), report):
        part.partition.compact()


def _measured(params: StudyParams, folder: Path, root: Path, mine: Place, report: Report | None) -> Iterator[_Part]:
    """Each part once it is filled."""
    made, metrics = metrics_id(params, root), None
    for part in _parts(params, folder, root, mine):
        if not part.todo.empty:
            metrics = metrics or _metrics(params, root)
            total, text = part.done + len(part.todo), part.text
            with part.partition.writer() as writer, progress_bar(text, total, part.done, report is None) as bar:
                for start in range(0, len(part.todo), CHUNK):
                    chunk = part.todo.iloc[start : start + CHUNK]
                    replies = part.partition.table is REPLY_METRICS
                    rows = metrics.of_replies(chunk) if replies else metrics.of_prompts(chunk)
                    writer.append(rows.assign(metrics_id=made))
                    bar.update(len(chunk))
                    if report is not None:
                        report(len(chunk), text)
        yield part


def _parts(params: StudyParams, folder: Path, root: Path, mine: Place) -> Iterator[_Part]:
    """Each partition of the stage, the prompts of a suite before their replies."""
    ids, made = generation_ids(params, root), metrics_id(params, root)
    for suite in params.suites:
        prompts = share(stored_prompts(folder, suite.name), mine)[["suite", "instance_id", "prompt"]]
        part = _own(Partition(folder, PROMPT_METRICS, (suite.name,)))
        done = among(of_metrics(part.read(["tokens"]), made), prompts)
        yield _part(part, prompts, done, f"metrics {suite.name}")
        for model in params.model_ids:
            wanted = ids[suite.name, model]
            replies = of(Partition(folder, RESPONSES, (suite.name, model)).read(["response"]), wanted)
            replies = among(replies, prompts).merge(prompts, on=["suite", "instance_id"], validate="one_to_one")
            part = _own(Partition(folder, REPLY_METRICS, (suite.name, model)))
            done = among(of_metrics(of(part.read(["tokens"]), wanted), made), prompts)
            yield _part(part, replies, done, f"metrics {model} {suite.name}")


def _part(partition: Partition, texts: pd.DataFrame, done: pd.DataFrame, text: str) -> _Part:
    return _Part(partition, texts[~texts["instance_id"].isin(done["instance_id"])], len(done), text)


def _own(part: Partition) -> Partition:
    """The partition; a file of before metrics had ids goes, as what made its numbers is not known."""
    rows = part.read(["tokens"])
    if len(rows) and rows["metrics_id"].isna().all():
        part.parquet.unlink()
    return part


def _key(part: _Part) -> tuple[str, ...]:
    return (part.partition.table.name, *part.partition.names)


def _metrics(params: StudyParams, root: Path) -> Metrics:
    from slmsafety.metrics.tables import Metrics

    return Metrics(**params.metrics.sources(root))


def _references(params: StudyParams, root: Path) -> dict[str, Source]:
    """The reference models by what they measure."""
    given = params.metrics.sources(root)
    return {"tokens": Source(package=GPT2_VOCABULARY), **given, "word frequencies": Source(package=WORDFREQ)}


def _say_what_measures(params: StudyParams, folder: Path, root: Path, mine: Place) -> None:
    """Print which reference models measure and keep it beside the tables.

    Raises InputError when other ones, of the same id, have measured before: a hub id without revision has moved on.
    """
    from slmsafety.models.encoder import SPACY_FILE, reference_name

    file = {"parser": SPACY_FILE}
    models = _references(params, root)
    names = {name: reference_name(source, file.get(name, "config.json")) for name, source in models.items()}
    path = folder / "metrics" / f"{metrics_id(params, root)}.json"
    if path.exists():
        before = json.loads(path.read_text("utf-8"))
        for name in names:
            if before.get(name) != names[name]:
                raise InputError(
                    f"{path}: {name} was measured by {before.get(name)}, and now it would be by {names[name]}; "
                    f"give metrics.{name} a revision in params"
                )
    else:
        write_atomic(path, (json.dumps(names, indent=1, ensure_ascii=False) + "\n").encode())
    for name, model in names.items():
        print(f"{mine.prefix()}metrics: {name} by {model}")
