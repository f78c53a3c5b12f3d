"""The stages of a study, each resumable, all through the store: prompts -> responses -> judgments -> metrics.

In an imported study the import gives prompts, responses and judgments; what follows is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.pipeline.generate import generate_replies
from slmsafety.pipeline.import_runs import import_sources
from slmsafety.pipeline.imported_texts import check_imported
from slmsafety.pipeline.judge import judge_replies
from slmsafety.pipeline.judges import all_judge_ids
from slmsafety.pipeline.label_mappings import Mappings
from slmsafety.pipeline.measure import measure
from slmsafety.pipeline.model_checks import refuse_stopped
from slmsafety.pipeline.run import Run, Written
from slmsafety.pipeline.shards import take_gpu, tell_end, wait_until
from slmsafety.pipeline.stages import chosen_stages
from slmsafety.records.manifest import start_manifest, write_manifest
from slmsafety.records.schema import PROMPTS, RESPONSES, UNKNOWN_LANGUAGE
from slmsafety.records.store import Partition, sorted_by
from slmsafety.replies.language import languages
from slmsafety.suites.base import SuiteData


def collect(run: Run, given: Any, stages: Collection[str] | None = None, retry: Collection[str] = ()) -> None:
    """Run the stages in their order; finished rows are never made again, so a stopped run goes on where it was.

    Prints what each stage wrote where, and leaves a manifest of the run.

    Parameters
    ----------
    run : Run
        The study at work; a process among several has its own shard of the prompts in every stage.
    given : object
        The parameters as the user gave them, for the manifest.
    stages : collection of str or None
        Some of the study's stages (`stages.stages_of`); None is those that it asks for.
    retry : collection of str
        Statuses: judgments that ended so are made again. Errors always are.

    Raises
    ------
    InputError
        For an unknown stage or status, and for what a stage cannot work with; nothing is written then.
    PartFailed
        At the end, when models could not run (or stopped on the way): what the others made is kept.
    """
    wanted = chosen_stages(run.params, stages, retry)
    if run.shard.world > 1:
        take_gpu()
    if "import" in wanted:
        _import(run)
        run = Run(run.params, run.root, run.shard)  # the texts are others now
        if stages is None and not run.judges:
            wanted = tuple(stage for stage in wanted if stage != "judge")
    _check_access(run, wanted)
    if run.params.kind == "run":
        _check_texts(run, wanted)
    manifest = start_manifest(run.root, given, run.params.model_dump(mode="json"))
    write_manifest(run.folder, manifest, ended=False)
    stopped: dict[str, str] = {}
    work: dict[str, Callable[[Run], Written]] = {
        "prompts": _prompts,
        "generate": partial(generate_replies, stopped=stopped),
        "judge": partial(judge_replies, retry=retry),
        "metrics": measure,
    }
    for stage in (name for name in wanted if name in work):
        for part, made, kept in work[stage](run):
            torn = part.torn()
            path = part.compact()
            dropped = f", {torn} torn record(s) dropped and made again" if torn else ""
            print(f"{run.shard.prefix()}{stage}: {made} new, {kept} kept{dropped}: {path.relative_to(run.root)}")
        if stage == "judge":
            Mappings(run).fit_missing()
    ended = manifest | _made(run, wanted) | {"could_not_run": stopped}
    print(f"{run.shard.prefix()}manifest: {write_manifest(run.folder, ended).name}")
    tell_end(run.shard, waits=bool(stopped))
    refuse_stopped(run, stopped)


def _import(run: Run) -> None:
    if run.shard.world > 1:
        raise InputError(
            f"an import is one process's work; run it first, outside of the launcher: slmsafety collect "
            f"{run.params.name} --stage import"
        )
    import_sources(run)


def _made(run: Run, stages: Collection[str]) -> dict[str, Any]:
    """What the manifest says of the work: its ids, its sources, and what it ran on."""
    judges = all_judge_ids(run) if "judge" in stages else {}
    answers = judges if run.params.judged == "answer" else {}
    modules = [name for entry in run.judges if "judge" in stages for name in entry.modules]
    modules += run.params.metrics.own if "metrics" in stages else ()
    return {
        **run.texts.record(),
        "judge_ids": {" ".join(key): ids.whole for key, ids in judges.items()},
        "answer_judge_ids": {" ".join(key): ids.answer for key, ids in answers.items()},
        "metrics_id": run.metrics_id if "metrics" in stages else None,
        "modules": {name: run.module(name).sha256 for name in modules},
        "suites": {suite.name: _revision(run, suite.name) for suite in run.suites},
        "device": _device() if "generate" in stages else None,
        "process": run.shard._asdict(),
    }


def _check_access(run: Run, stages: Collection[str]) -> None:
    """Raise InputError for a judge's key or a mapping that is not right, before hours of work that do not need it."""
    if run.params.kind == "imported" and {"judge", "metrics"} & set(stages):
        check_imported(run, stages)
    if "judge" in stages:
        for judge in run.judges:
            judge.check_access()
        all_judge_ids(run)
        Mappings(run).check_stored()


def _check_texts(run: Run, stages: Collection[str]) -> None:
    """Raise InputError where the stages lack what they work on, before anything is written; print what has none yet."""
    for suite in run.params.suites:
        if "prompts" in stages:
            run.suite_data(suite)
        else:
            run.stored_prompts(suite.name)
    if "generate" in stages or not {"judge", "metrics"} & set(stages):
        return
    pairs = [(suite.name, model) for model in run.params.model_ids for suite in run.asked_suites(model)]
    absent = [key for key in pairs if not run.responses(*key).count(generation_id=run.generation_ids[key])]
    if len(absent) == len(pairs):
        raise InputError(
            f"study {run.params.name} has no replies under these settings yet; run the stage 'generate' first"
        )
    for suite_name, model in absent:
        print(f"{run.shard.prefix()}{model} has no replies to {suite_name} yet: none is judged or measured")


def _prompts(run: Run) -> Written:
    for suite in run.params.suites:
        part = Partition(run.folder, PROMPTS, (suite.name,))
        if run.shard.rank > 0:
            wait_until(part.parquet.exists, f"the prompts of '{suite.name}' from process 0")
        prompts = _sample(run.suite_data(suite), suite.limit, run.params.seed)
        stored = part.read()
        if stored.empty:
            if (run.folder / RESPONSES.name / suite.name).exists():
                raise InputError(
                    f"{run.folder} holds replies to prompts of '{suite.name}' that are gone; delete the folder"
                )
            part.replace(_with_language(prompts, stored))
            yield part, len(prompts), 0
            continue
        _same_prompts(run, suite.name, stored, prompts)
        if run.shard.rank == 0:
            told = part.check(_with_language(prompts, stored), suite.name)
            if not sorted_by(told, PROMPTS.key).equals(stored):
                part.replace(told)
                what = "categories, groups, languages or titles"
                print(f"prompts: {suite.name} has other {what} than before; they are replaced")
        yield part, 0, len(stored)


def _with_language(prompts: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
    """The prompts with the language of each: the stored one, since texts do not change, or one that is detected."""
    known = stored.set_index("instance_id")["language"].replace(UNKNOWN_LANGUAGE, None)
    language = prompts["instance_id"].map(known).astype("object")
    missing = language.isna()
    language[missing] = languages(prompts.loc[missing, "prompt"])
    return prompts.assign(language=language)


def _sample(suite: SuiteData, limit: int | None, seed: int) -> pd.DataFrame:
    """The whole suite, or a seeded sample of `limit` prompts in the suite's order."""
    prompts = suite.prompts
    if limit is None or limit >= len(prompts):
        return prompts
    return prompts.sample(limit, random_state=seed).sort_index().reset_index(drop=True)


def _same_prompts(run: Run, suite: str, stored: pd.DataFrame, loaded: pd.DataFrame) -> None:
    """Refuse a suite whose text changed under a study: old replies would answer other prompts."""
    columns = ["instance_id", "prompt", "expected"]
    before, after = (f[columns].sort_values("instance_id", ignore_index=True) for f in (stored, loaded))
    if not before.equals(after):
        advice = "give the study a new name, or delete that folder"
        raise InputError(f"suite '{suite}' differs from the prompts in {run.folder}; {advice}")


def _revision(run: Run, suite: str) -> str | None:
    """The revision of a suite's stored prompts."""
    stored = run.texts.prompts(suite).read(["suite_revision"])["suite_revision"]
    return None if stored.empty else str(stored.iloc[0])


def _device() -> str:
    """What the replies are generated on."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
