"""What of a study is done, and what its suites load from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.base import JudgeEntry
from slmsafety.paths import data_path
from slmsafety.pipeline.judge import failed, judgments_of
from slmsafety.pipeline.judged_texts import NO_IDS, JudgeIds
from slmsafety.pipeline.judges import study_judge
from slmsafety.pipeline.measure import own_metrics
from slmsafety.pipeline.run import Run
from slmsafety.pipeline.stages import asked_stages, stages_of
from slmsafety.records.schema import JUDGMENTS, OWN_METRICS, PROMPT_METRICS, REPLY_METRICS, STATUSES
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
    rows = _rows(run) if stages_of(run.params) else ()
    frame = pd.DataFrame(rows, columns=STATUS_COLUMNS)
    return frame.astype(dict.fromkeys(STATUSES, "Int64"))


def with_total(status: pd.DataFrame) -> pd.DataFrame:
    """Return a status to print: of the statuses those that occur, and a last row with the sums."""
    found = [name for name in STATUSES if status[name].fillna(0).any()]
    counts = ["done", "missing", "failed", *found]
    total = {"stage": "total", "suite": "", "model": "", **status[counts].sum().to_dict()}
    shown = pd.concat([status[["stage", "suite", "model", *counts]], pd.DataFrame([total])], ignore_index=True)
    return shown.astype(object).where(shown.notna(), "")


def _rows(run: Run) -> Iterator[dict[str, Any]]:
    """Each part of a study's stages; of an imported one first what its sources hold, which is done."""
    prompts, replies = ("prompts", "generate") if run.params.kind == "run" else ("import", "import")
    for suite in run.suites:
        stored = run.texts.prompts(suite.name).count()
        total = stored or expected_rows(run, suite)
        yield _row(prompts, suite.name, "", stored, total)
        readable = total if run.params.kind == "run" else len(run.readable_prompts(suite.name))
        yield from (_row(name, suite.name, "", done, readable) for name, done in _measured(run, suite.name, ""))
        for model in run.texts.models(suite.name):
            made = len(run.texts.present(run.responses(suite.name, model).read([]), suite.name, model))
            there = run.texts.wanted(suite.name, model, total)
            yield _row(replies, suite.name, model, made, there if run.params.kind == "run" else made)
            yield from _judged(run, suite, model, there)


def _judged(run: Run, suite: SuiteParams, model: str, total: int) -> Iterator[dict[str, Any]]:
    """What judges said of a model's replies to a suite, those of the sources first, and what is measured of them."""
    for part in run.once(("imported judgments",), lambda: _imported_judgments(run)):
        if (part.names[0], part.names[2]) == (suite.name, model):
            statuses = part.read(["status"])["status"]
            row = _row(f"judge {part.names[1]}", suite.name, model, len(statuses), len(statuses))
            yield {**row, **_by_status(statuses)}
    for judge in (judge for judge in run.judges_of(suite) if model in run.judged_models(judge)):
        judged = judgments_of(run, run.judgments(suite.name, judge.name, model), _known_ids(run, judge, suite))
        wrong = int(failed(judged).sum())
        row = _row(f"judge {judge.name}", suite.name, model, len(judged) - wrong, total)
        yield {**row, "missing": total - len(judged), "failed": wrong, **_by_status(judged["status"])}
    yield from (_row(name, suite.name, model, n, total) for name, n in _measured(run, suite.name, model))


def _imported_judgments(run: Run) -> list[Partition]:
    return [part for part in run.texts.parts(JUDGMENTS.name) if not run.texts.made_here(part)]


def _row(stage: str, suite: str, model: str, done: int, total: int) -> dict[str, Any]:
    return {"stage": stage, "suite": suite, "model": model, "done": done, "missing": total - done, "failed": 0}


def _by_status(statuses: pd.Series) -> dict[str, int]:
    """How many rows have each status."""
    counts = statuses.value_counts()
    return {name: int(counts.get(name, 0)) for name in STATUSES}


def _measured(run: Run, suite: str, model: str) -> Iterator[tuple[str, int]]:
    """Yield each kind of metric and how many of a suite's prompts (model "") or of a model's replies have it."""
    if "metrics" not in asked_stages(run.params):
        return
    table, names = (REPLY_METRICS, (suite, model)) if model else (PROMPT_METRICS, (suite,))
    rows = Partition(run.folder, table, names).read(["metrics_id"])
    rows = rows[rows["metrics_id"] == run.metrics_id]
    yield "metrics", len(run.texts.present(rows, suite, model) if model else rows)
    for metric in own_metrics(run):
        if (metric.of == "replies") == bool(model):
            rows = Partition(run.folder, OWN_METRICS, (suite, metric.name, model)).read(["value"])
            rows = rows[rows["metric_id"] == metric.id]
            yield f"metric {metric.name}", len(run.texts.present(rows, suite, model) if model else rows)


def _known_ids(run: Run, judge: JudgeEntry, suite: SuiteParams) -> JudgeIds:
    """A judge's ids; none where its rubric's prompts are not to be had, which is printed: no row is called its own."""
    return run.once(("known ids", judge.name, suite.name), lambda: _ids_or_none(run, judge, suite))


def _ids_or_none(run: Run, judge: JudgeEntry, suite: SuiteParams) -> JudgeIds:
    try:
        return study_judge(run, judge, suite).ids
    except InputError as error:
        print(f"judge {judge.name} on {suite.name}: {error}; what it has judged is not known here")
        return NO_IDS


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
