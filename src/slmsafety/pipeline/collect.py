"""The stages of an own run: prompts -> responses -> judgments -> metrics, each resumable, all through the store."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.models.client import Endpoint, api_key
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judge import JudgeParams
from slmsafety.params.study import StudyParams
from slmsafety.paths import data_path
from slmsafety.pipeline.generate import generate_replies
from slmsafety.pipeline.judge import FINAL, judge_id, judge_ids, judge_replies
from slmsafety.pipeline.label_mappings import Mappings
from slmsafety.pipeline.measure import measure, metrics_id, of_metrics
from slmsafety.pipeline.run import Written, generation_ids, of
from slmsafety.pipeline.shards import Place, place, take_gpu, wait_until
from slmsafety.records.manifest import start_manifest, write_manifest
from slmsafety.records.schema import JUDGMENTS, PROMPT_METRICS, PROMPTS, REPLY_METRICS, RESPONSES, STATUSES
from slmsafety.records.store import Partition
from slmsafety.suites.catalogue import SUITES, SuiteData, inspect, load_suite

Stage = Callable[[StudyParams, Path, Path, Place], Written]

STAGES = ("prompts", "generate", "judge", "metrics")


def collect(
    params: StudyParams, folder: Path, root: Path, given: Any, stages: list[str], retry: Collection[str] = ()
) -> None:
    """Run the stages in their order; finished rows are never made again, so a stopped run goes on where it was.

    A process among several (`shares.place`) does its own share of the prompts in every stage. Prints what each stage
    wrote where, and leaves a manifest of the run. Judgments whose status is in `retry` are made again, errors always.
    Raises InputError for an unknown stage or status.
    """
    for stage in stages:
        if stage not in STAGES:
            raise unknown("stage", stage, STAGES)
    for status in retry:
        if status not in STATUSES[1:]:
            raise unknown("status to retry", status, STATUSES[1:])
    mine = place()
    if mine.world > 1:
        take_gpu()
    _check_keys(params, root, stages)
    manifest = start_manifest(root, given, params.model_dump(mode="json"))
    write_manifest(folder, manifest, ended=False)
    judge = partial(judge_replies, retry=retry)
    run: dict[str, Stage] = {"prompts": _prompts, "generate": generate_replies, "judge": judge, "metrics": measure}
    for stage in (name for name in STAGES if name in stages):
        for part, made, kept in run[stage](params, folder, root, mine):
            torn = part.torn()
            path = part.compact()
            dropped = f", {torn} torn record(s) dropped and made again" if torn else ""
            print(f"{mine.prefix()}{stage}: {made} new, {kept} kept{dropped}: {path.relative_to(root)}")
        if stage == "judge":
            Mappings(params, folder, root).fit_missing()
    judges = judge_ids(params, root) if "judge" in stages else {}
    manifest |= {
        "generation_ids": {" ".join(key): value for key, value in generation_ids(params, root).items()},
        "judge_ids": {" ".join(key): value for key, value in judges.items()},
        "metrics_id": metrics_id(params, root) if "metrics" in stages else None,
        "models": {model.id: model.source(root).definition() for model in params.models},
        "suites": {suite.name: _revision(folder, suite.name) for suite in params.suites},
        "device": _device() if "generate" in stages else None,
        "process": mine._asdict(),
    }
    print(f"{mine.prefix()}manifest: {write_manifest(folder, manifest).name}")


def _check_keys(params: StudyParams, root: Path, stages: list[str]) -> None:
    """Raise InputError for a server's key or a mapping that is not right, before hours of work that do not need it."""
    sources = [model.source(root) for model in params.models] if "generate" in stages else []
    keys = [(source.endpoint, source.api_key_env) for source in sources]
    keys += [(judge.endpoint, judge.api_key_env) for judge in params.judges if "judge" in stages]
    for endpoint, variable in keys:
        if endpoint is not None:
            api_key(Endpoint(endpoint, "", variable))
    mappings = Mappings(params, root / "runs" / params.name, root)
    for judge in mappings.judges.values() if "judge" in stages else ():
        if str(judge.mapping).endswith(".json"):
            for suite in (suite.name for suite in params.suites if judge.reads(suite.name)):
                mappings.stored(judge, suite)


def stage_status(params: StudyParams, folder: Path, root: Path) -> pd.DataFrame:
    """Return stage, suite, model, done, missing and failed of every part; missing counts what is still to be done."""
    rows: list[tuple[str, str, str, int, int, int]] = []
    ids, made_by = generation_ids(params, root), metrics_id(params, root)
    for suite in params.suites:
        stored = Partition(folder, PROMPTS, (suite.name,)).read(["instance_id"])
        total = len(stored) or expected_rows(suite, root)
        rows.append(("prompts", suite.name, "", len(stored), total - len(stored), 0))
        measured = of_metrics(Partition(folder, PROMPT_METRICS, (suite.name,)).read(["tokens"]), made_by)
        rows.append(("metrics", suite.name, "", len(measured), total - len(measured), 0))
        keys = {judge.name: _known_id(judge, suite.name, params, root) for judge in params.judges_of(suite.name)}
        for model in params.model_ids:
            made = of(Partition(folder, RESPONSES, (suite.name, model)).read(["instance_id"]), ids[suite.name, model])
            rows.append(("generate", suite.name, model, len(made), total - len(made), 0))
            for judge in (judge for judge in params.judges_of(suite.name) if model in params.judged_models(judge)):
                part = Partition(folder, JUDGMENTS, (suite.name, judge.name, model))
                judged = of(part.read(["status", "reason"]), ids[suite.name, model], keys[judge.name])
                failed = int((judged["status"].eq("error") & ~judged["reason"].isin(FINAL)).sum())
                done = len(judged) - failed
                rows.append((f"judge {judge.name}", suite.name, model, done, total - len(judged), failed))
            measured = Partition(folder, REPLY_METRICS, (suite.name, model)).read(["tokens"])
            measured = of_metrics(of(measured, ids[suite.name, model]), made_by)
            rows.append(("metrics", suite.name, model, len(measured), total - len(measured), 0))
    return pd.DataFrame(rows, columns=["stage", "suite", "model", "done", "missing", "failed"])


def _known_id(judge: JudgeParams, suite: str, params: StudyParams, root: Path) -> str:
    """A judge's id; "" where its rubric's prompts are not to be had, which is printed: no row can be called its own."""
    try:
        return judge_id(judge, suite, params.empty, root)
    except InputError as error:
        print(f"judge {judge.name} on {suite}: {error}; what it has judged is not known here")
        return ""


def suite_files(params: StudyParams, root: Path) -> pd.DataFrame:
    """Return suite, path, present, title, prompts, revision and problem of every suite, as text ("" where none).

    Nothing is written, and what is not there yet is not downloaded (`catalogue.inspect`).
    """
    columns = ["suite", "path", "present", "title", "prompts", "revision", "problem"]
    rows: list[dict[str, str]] = []
    for suite in params.suites:
        try:
            path = None if suite.path is None else data_path(suite.path, root)
            rows.append(inspect(suite.name, path, suite.limit))
        except InputError as error:
            rows.append({"suite": suite.name, "path": suite.path or "", "problem": str(error)})
    return pd.DataFrame([dict.fromkeys(columns, "") | row for row in rows], columns=columns)


def _prompts(params: StudyParams, folder: Path, root: Path, mine: Place) -> Written:
    for suite in params.suites:
        part = Partition(folder, PROMPTS, (suite.name,))
        if mine.rank > 0:
            wait_until(part.parquet.exists, f"the prompts of '{suite.name}' from process 0")
        path = None if suite.path is None else str(data_path(suite.path, root))
        prompts = _sample(load_suite(suite.name, path), suite.limit, params.seed)
        stored = part.read()
        if stored.empty:
            if (folder / RESPONSES.name / suite.name).exists():
                raise InputError(
                    f"{folder} holds replies to prompts of '{suite.name}' that are gone; delete the folder"
                )
            part.replace(prompts)
            yield part, len(prompts), 0
            continue
        _same_prompts(stored, prompts, suite.name, folder)
        yield part, 0, len(stored)


def _sample(suite: SuiteData, limit: int | None, seed: int) -> pd.DataFrame:
    """The whole suite, or a seeded sample of `limit` prompts in the suite's order."""
    prompts = suite.prompts
    if limit is None or limit >= len(prompts):
        return prompts
    return prompts.sample(limit, random_state=seed).sort_index().reset_index(drop=True)


def _same_prompts(stored: pd.DataFrame, loaded: pd.DataFrame, suite: str, folder: Path) -> None:
    """Refuse a suite whose text changed under a study: old replies would answer other prompts."""
    columns = ["instance_id", "prompt", "expected"]
    before, after = (f[columns].sort_values("instance_id", ignore_index=True) for f in (stored, loaded))
    if not before.equals(after):
        raise InputError(
            f"suite '{suite}' differs from the prompts in {folder}; give the study a new name, or delete that folder"
        )


def expected_rows(suite: SuiteParams, root: Path) -> int:
    """Return the rows that the stage prompts will make; a user's own file is counted, since it may be a part."""
    path = None if suite.path is None else str(data_path(suite.path, root))
    rows = SUITES[suite.name].rows if path is None else len(load_suite(suite.name, path).prompts)
    return rows if suite.limit is None else min(suite.limit, rows)


def _revision(folder: Path, suite: str) -> str | None:
    """The revision of a suite's stored prompts."""
    stored = Partition(folder, PROMPTS, (suite,)).read(["suite_revision"])["suite_revision"]
    return None if stored.empty else str(stored.iloc[0])


def _device() -> str:
    """What the replies are generated on."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
