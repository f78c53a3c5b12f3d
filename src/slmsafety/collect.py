"""The stages of an own run: prompts -> responses -> judgments -> metrics, each resumable, all through the store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

from slmsafety.errors import InputError, unknown
from slmsafety.generation.settings import GenerationSettings, generation_id
from slmsafety.judging.judges import judge_id, measure
from slmsafety.models.cards import card
from slmsafety.params import StudyParams, SuiteParams, data_path
from slmsafety.records.manifest import start_manifest, write_manifest
from slmsafety.records.schema import JUDGMENTS, PROMPT_METRICS, PROMPTS, REPLY_METRICS, RESPONSES
from slmsafety.records.store import Partition
from slmsafety.suites.catalogue import SUITES, SuiteData, load_suite

STAGES = ("prompts", "generate", "judge", "metrics")
_JUDGE_CHUNK = 500
_METRIC_CHUNK = 64


def collect(params: StudyParams, folder: Path, root: Path, given: Any, stages: list[str]) -> None:
    """Run the stages in their order; finished rows are never made again, so a stopped run goes on where it was.

    Prints what each stage wrote where, and leaves a manifest of the run. Raises InputError for an unknown stage.
    """
    for stage in stages:
        if stage not in STAGES:
            raise unknown("stage", stage, STAGES)
    manifest = start_manifest(root, given, params.model_dump(mode="json"))
    run = {"prompts": _prompts, "generate": _generate, "judge": _judge, "metrics": _metrics}
    for stage in (name for name in STAGES if name in stages):
        for part, made, kept in run[stage](params, folder, root):
            torn = part.torn()
            path = part.compact()
            dropped = f", {torn} torn record(s) dropped and made again" if torn else ""
            print(f"{stage}: {made} new, {kept} kept{dropped}: {path.relative_to(root)}")
    manifest |= {
        "generation_ids": {" ".join(key): value for key, value in generation_ids(params).items()},
        "judge_ids": judge_ids(params),
        "models": {model: card(model).source.definition() for model in params.models},
        "suites": {suite.name: _revision(folder, suite.name) for suite in params.suites},
        "device": _device() if "generate" in stages else None,
    }
    print(f"manifest: {write_manifest(folder, manifest).name}")


def generation_ids(params: StudyParams) -> dict[tuple[str, str], str]:
    """Return the generation_id of every suite and model under the study's parameters."""
    return {
        (suite.name, model): generation_id(card(model).source, settings(params, suite))
        for suite in params.suites
        for model in params.models
    }


def judge_ids(params: StudyParams) -> dict[str, str]:
    """Return the judge_id of every judge under the study's parameters."""
    return {name: judge_id(name, params.empty) for name in params.judges}


def settings(params: StudyParams, suite: SuiteParams) -> GenerationSettings:
    """Return the generation settings of a suite in the study, without what merely runs them."""
    given = params.generation.model_dump(exclude={"batch_size"})
    if suite.max_new_tokens is not None:
        given["max_new_tokens"] = suite.max_new_tokens
    return GenerationSettings(**given)


def stage_status(params: StudyParams, folder: Path, root: Path) -> pd.DataFrame:
    """Return stage, suite, model, done, missing and failed of every part; missing counts what is still to be done."""
    rows: list[tuple[str, str, str, int, int, int]] = []
    ids, judges = generation_ids(params), judge_ids(params)
    for suite in params.suites:
        stored = Partition(folder, PROMPTS, (suite.name,)).read(["instance_id"])
        total = len(stored) or _expected_rows(suite.name, suite.limit)
        rows.append(("prompts", suite.name, "", len(stored), total - len(stored), 0))
        for model in params.models:
            made = _of(Partition(folder, RESPONSES, (suite.name, model)).read(["instance_id"]), ids[suite.name, model])
            rows.append(("generate", suite.name, model, len(made), total - len(made), 0))
            for judge in params.judges_of(suite.name):
                part = Partition(folder, JUDGMENTS, (suite.name, judge, model))
                judged = _of(part.read(["status"]), ids[suite.name, model], judges[judge])
                failed = int((judged["status"] == "error").sum())
                rows.append((f"judge {judge}", suite.name, model, len(judged) - failed, total - len(judged), failed))
            measured = _of(
                Partition(folder, REPLY_METRICS, (suite.name, model)).read(["tokens"]), ids[suite.name, model]
            )
            rows.append(("metrics", suite.name, model, len(measured), total - len(measured), 0))
    return pd.DataFrame(rows, columns=["stage", "suite", "model", "done", "missing", "failed"])


# A part that a stage has filled, how many rows it made and how many were there.
Written = Iterator[tuple[Partition, int, int]]


def _prompts(params: StudyParams, folder: Path, root: Path) -> Written:
    for suite in params.suites:
        path = None if suite.path is None else str(data_path(suite.path, root))
        prompts = _sample(load_suite(suite.name, path), suite.limit, params.seed)
        part = Partition(folder, PROMPTS, (suite.name,))
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


def _generate(params: StudyParams, folder: Path, root: Path) -> Written:
    from slmsafety.generation.transformers_engine import generate
    from slmsafety.models.load import load_causal_lm

    ids = generation_ids(params)
    for model in params.models:
        loaded = None
        for suite in params.suites:
            wanted = ids[suite.name, model]
            part = Partition(folder, RESPONSES, (suite.name, model))
            prompts = _stored_prompts(folder, suite.name)
            done = _of(part.read(["instance_id"]), wanted)
            todo = prompts[~prompts["instance_id"].isin(done["instance_id"])]
            if not todo.empty:
                loaded = loaded or load_causal_lm(card(model).source, dtype=params.generation.dtype)
                with part.writer() as writer, _bar(f"{model} {suite.name}", len(prompts), len(done)) as bar:
                    rules, batch_size = settings(params, suite), params.generation.batch_size
                    for batch in generate(loaded, todo, rules, model, wanted, batch_size):
                        writer.append(batch)
                        bar.update(len(batch))
            yield part, len(todo), len(done)


def _judge(params: StudyParams, folder: Path, root: Path) -> Written:
    ids = generation_ids(params)
    for judge, judge_key in judge_ids(params).items():
        for suite in (suite for suite in params.suites if judge in params.judges_of(suite.name)):
            prompts = _stored_prompts(folder, suite.name)[["suite", "instance_id", "prompt", "expected", "meta"]]
            for model in params.models:
                replies = _of(Partition(folder, RESPONSES, (suite.name, model)).read(_REPLY), ids[suite.name, model])
                part = Partition(folder, JUDGMENTS, (suite.name, judge, model))
                judged = _of(part.read(["status"]), ids[suite.name, model], judge_key)
                done = judged[judged["status"] != "error"]
                todo = replies[~replies["instance_id"].isin(done["instance_id"])]
                todo = todo.merge(prompts, on=["suite", "instance_id"], how="left", validate="one_to_one")
                if not todo.empty:
                    with part.writer() as writer, _bar(f"{judge} {model} {suite.name}", len(replies), len(done)) as bar:
                        for start in range(0, len(todo), _JUDGE_CHUNK):
                            chunk = todo.iloc[start : start + _JUDGE_CHUNK]
                            writer.append(measure(judge, chunk, params.empty))
                            bar.update(len(chunk))
                yield part, len(todo), len(done)


def _metrics(params: StudyParams, folder: Path, root: Path) -> Written:
    from slmsafety.metrics.tables import Metrics

    ids, metrics = generation_ids(params), Metrics()
    for suite in params.suites:
        prompts = _stored_prompts(folder, suite.name)
        part = Partition(folder, PROMPT_METRICS, (suite.name,))
        known = part.read()
        if len(known) < len(prompts):
            part.replace(metrics.of_prompts(prompts))
        yield part, len(prompts) - len(known), len(known)
        texts = prompts[["suite", "instance_id", "prompt"]]
        for model in params.models:
            replies = _of(Partition(folder, RESPONSES, (suite.name, model)).read(_REPLY), ids[suite.name, model])
            part = Partition(folder, REPLY_METRICS, (suite.name, model))
            done = _of(part.read(["tokens"]), ids[suite.name, model])
            todo = replies[~replies["instance_id"].isin(done["instance_id"])]
            todo = todo.merge(texts, on=["suite", "instance_id"], how="left", validate="one_to_one")
            if not todo.empty:
                with part.writer() as writer, _bar(f"metrics {model} {suite.name}", len(replies), len(done)) as bar:
                    for start in range(0, len(todo), _METRIC_CHUNK):
                        chunk = todo.iloc[start : start + _METRIC_CHUNK]
                        writer.append(metrics.of_replies(chunk))
                        bar.update(len(chunk))
            yield part, len(todo), len(done)


_REPLY = ["response", "finish_reason"]


def _of(rows: pd.DataFrame, generation: str, judge: str | None = None) -> pd.DataFrame:
    """The rows that the parameters' ids name; rows of other settings stay in the file, unread."""
    rows = rows[rows["generation_id"] == generation]
    return rows if judge is None else rows[rows["judge_id"] == judge]


def _stored_prompts(folder: Path, suite: str) -> pd.DataFrame:
    prompts = Partition(folder, PROMPTS, (suite,)).read()
    if prompts.empty:
        raise InputError(f"suite '{suite}' has no prompts in {folder.name} yet; run the stage 'prompts' first")
    return prompts


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


def _expected_rows(suite: str, limit: int | None) -> int:
    rows = SUITES[suite].rows
    return rows if limit is None else min(limit, rows)


def _revision(folder: Path, suite: str) -> str | None:
    """The revision of a suite's stored prompts."""
    stored = Partition(folder, PROMPTS, (suite,)).read(["suite_revision"])["suite_revision"]
    return None if stored.empty else str(stored.iloc[0])


def _device() -> str:
    """What the replies are generated on."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def _bar(text: str, total: int, done: int) -> tqdm:
    """A bar with an ETA on a terminal and in a notebook, and nothing in a log file."""
    in_notebook = "ipykernel" in sys.modules
    return tqdm(total=total, initial=done, desc=text, unit="row", disable=False if in_notebook else None)
