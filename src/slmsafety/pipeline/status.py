"""What of a study is done, and what its suites load from."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.base import JudgeEntry
from slmsafety.paths import data_path
from slmsafety.pipeline.judge import failed, judgments_of
from slmsafety.pipeline.judges import study_judge
from slmsafety.pipeline.measure import own_metrics
from slmsafety.pipeline.run import Run
from slmsafety.pipeline.stages import asked_stages
from slmsafety.records.schema import OWN_METRICS, PROMPT_METRICS, REPLY_METRICS
from slmsafety.records.store import Partition
from slmsafety.suites.catalogue import SUITES, inspect

STATUS_COLUMNS = ["stage", "suite", "model", "done", "missing", "failed"]


def stage_status(run: Run) -> pd.DataFrame:
    """Return what of a study's work is done.

    Returns
    -------
    DataFrame
        A row for each part: stage, suite, model (str; "" for a suite's prompts), done, missing (what is still to be
        made) and failed (int).
    """
    rows: list[tuple[str, str, str, int, int, int]] = []
    made_by = "generate" if run.params.kind == "run" else "import"
    for suite in run.suites:
        stored = run.texts.prompts(suite.name).read(["instance_id"])
        total = len(stored) or expected_rows(run, suite)
        rows.append(("prompts", suite.name, "", len(stored), total - len(stored), 0))
        rows += [(name, suite.name, "", done, total - done, 0) for name, done in _measured(run, suite.name, "")]
        keys = {judge.name: _known_id(run, judge, suite) for judge in run.judges_of(suite)}
        for model in run.texts.models(suite.name):
            made = len(run.texts.present(run.responses(suite.name, model).read([]), suite.name, model))
            there = run.texts.wanted(suite.name, model)
            wanted = total if there is None else there
            rows.append((made_by, suite.name, model, made, total - made if there is None else 0, 0))
            for judge in (judge for judge in run.judges_of(suite) if model in run.judged_models(judge)):
                judged = judgments_of(run, run.judgments(suite.name, judge.name, model), keys[judge.name])
                wrong = int(failed(judged).sum())
                row = (suite.name, model, len(judged) - wrong, wanted - len(judged), wrong)
                rows.append((f"judge {judge.name}", *row))
            rows += [(name, suite.name, model, n, wanted - n, 0) for name, n in _measured(run, suite.name, model)]
    return pd.DataFrame(rows, columns=STATUS_COLUMNS)


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
