"""What of a study is done, and what its suites load from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.base import JudgeEntry
from slmsafety.paths import data_path
from slmsafety.pipeline.judge import failed
from slmsafety.pipeline.judges import study_judge
from slmsafety.pipeline.measure import own_metrics
from slmsafety.pipeline.run import Run, current
from slmsafety.records.imports import open_import
from slmsafety.records.schema import (
    JUDGMENTS,
    OWN_METRICS,
    PROMPT_METRICS,
    PROMPTS,
    REPLY_METRICS,
    RESPONSES,
    STATUSES,
)
from slmsafety.records.store import Partition
from slmsafety.suites.catalogue import SUITES, inspect

STATUS_COLUMNS = ["stage", "suite", "model", "done", "missing", "failed", *STATUSES]


def study_status(run: Run) -> pd.DataFrame:
    """Return what of a study's work is done; no row where a study has no stages, or nothing is imported yet.

    Returns
    -------
    DataFrame
        A row for each part: stage, suite, model (str; "" for a suite's prompts), done, missing (what is still to be
        made) and failed (int), and a column for each status: how many of a judge's rows ended so (Int64; missing where
        the stage is no judge's). What is imported is done: nothing of it is missing or can be made again.
    """
    parts = {"run": _stage_status, "imported": _imported_status}
    rows = parts[run.params.kind](run) if run.params.kind in parts else ()
    frame = pd.DataFrame(rows, columns=STATUS_COLUMNS)
    return frame.astype(dict.fromkeys(STATUSES, "Int64"))


def with_total(status: pd.DataFrame) -> pd.DataFrame:
    """Return a status to print: of the statuses those that occur, and a last row with the sums."""
    found = [name for name in STATUSES if status[name].fillna(0).any()]
    counts = ["done", "missing", "failed", *found]
    total = {"stage": "total", "suite": "", "model": "", **status[counts].sum().to_dict()}
    shown = pd.concat([status[["stage", "suite", "model", *counts]], pd.DataFrame([total])], ignore_index=True)
    return shown.astype(object).where(shown.notna(), "")


def _stage_status(run: Run) -> Iterator[dict[str, Any]]:
    """Each part of an own run's stages."""
    for suite in run.params.suites:
        stored = Partition(run.folder, PROMPTS, (suite.name,)).read(["instance_id"])
        total = len(stored) or expected_rows(run, suite)
        yield _row("prompts", suite.name, "", len(stored), total)
        yield from (_row(name, suite.name, "", done, total) for name, done in _measured(run, suite.name, ""))
        keys = {judge.name: _known_id(run, judge, suite) for judge in run.params.judges_of(suite.name)}
        for model in run.params.model_ids:
            generation = run.generation_ids[suite.name, model]
            made = len(current(run.responses(suite.name, model).read(["instance_id"]), generation))
            yield _row("generate", suite.name, model, made, total)
            for judge in (
                judge for judge in run.params.judges_of(suite.name) if model in run.params.judged_models(judge)
            ):
                part = run.judgments(suite.name, judge.name, model).read(["status", "reason"])
                judged = current(part, generation, keys[judge.name])
                wrong = int(failed(judged).sum())
                row = _row(f"judge {judge.name}", suite.name, model, len(judged) - wrong, total)
                yield {**row, "missing": total - len(judged), "failed": wrong, **_by_status(judged["status"])}
            yield from (_row(name, suite.name, model, n, total) for name, n in _measured(run, suite.name, model))


def _imported_status(run: Run) -> Iterator[dict[str, Any]]:
    """What the newest import holds: prompts and replies, and what each judge said of them."""
    found = open_import(run.folder)
    for part in found.partitions(PROMPTS.name):
        count = part.count()
        yield _row("import", part.names[0], "", count, count)
    for part in found.partitions(RESPONSES.name):
        (suite, model), count = part.names, part.count()
        yield _row("import", suite, model, count, count)
    for part in found.partitions(JUDGMENTS.name):
        suite, judge, model = part.names
        statuses = part.read(["status"])["status"]
        yield {**_row(f"judge {judge}", suite, model, len(statuses), len(statuses)), **_by_status(statuses)}


def _row(stage: str, suite: str, model: str, done: int, total: int) -> dict[str, Any]:
    return {"stage": stage, "suite": suite, "model": model, "done": done, "missing": total - done, "failed": 0}


def _by_status(statuses: pd.Series) -> dict[str, int]:
    """How many rows have each status."""
    counts = statuses.value_counts()
    return {name: int(counts.get(name, 0)) for name in STATUSES}


def _measured(run: Run, suite: str, model: str) -> Iterator[tuple[str, int]]:
    """Yield each kind of metric and how many of a suite's prompts (model "") or of a model's replies have it."""
    table, names = (REPLY_METRICS, (suite, model)) if model else (PROMPT_METRICS, (suite,))
    generation = run.generation_ids[suite, model] if model else ""
    rows = Partition(run.folder, table, names).read(["metrics_id"])
    rows = rows[rows["metrics_id"] == run.metrics_id]
    yield "metrics", len(current(rows, generation) if model else rows)
    for metric in own_metrics(run):
        if (metric.of == "replies") == bool(model):
            rows = Partition(run.folder, OWN_METRICS, (suite, metric.name, model)).read(["value"])
            yield f"metric {metric.name}", len(current(rows[rows["metric_id"] == metric.id], generation))


def _known_id(run: Run, judge: JudgeEntry, suite: SuiteParams) -> str:
    """A judge's id; "" where its rubric's prompts are not to be had, which is printed: no row can be called its own."""
    try:
        return study_judge(run, judge, suite).id
    except InputError as error:
        print(f"judge {judge.name} on {suite.name}: {error}; what it has judged is not known here")
        return ""


def suite_files(run: Run) -> pd.DataFrame:
    """Return what each suite of a study loads from, as text; nothing is written or downloaded (`catalogue.inspect`).

    Returns
    -------
    DataFrame
        A row a suite: suite, path, present, title, prompts, revision and problem ("" where there is none).
    """
    columns = ["suite", "path", "present", "title", "prompts", "revision", "problem"]
    rows: list[dict[str, str]] = []
    for suite in run.params.suites:
        try:
            path = None if suite.path is None else data_path(suite.path, run.root)
            rows.append(inspect(suite.name, path, suite.limit))
        except InputError as error:
            rows.append({"suite": suite.name, "path": suite.path or "", "problem": str(error)})
    return pd.DataFrame([dict.fromkeys(columns, "") | row for row in rows], columns=columns)


def expected_rows(run: Run, suite: SuiteParams) -> int:
    """Return the rows that the stage prompts will make; a user's own file is counted, since it may be a part."""
    rows = SUITES[suite.name].rows if suite.path is None else len(run.suite_data(suite).prompts)
    return rows if suite.limit is None else min(suite.limit, rows)
