"""What the stages of a run share: which rows are theirs, the ids of the work, and the bar that shows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from tqdm.auto import tqdm

from slmsafety.errors import InputError
from slmsafety.generation.settings import GenerationSettings, generation_id
from slmsafety.params.entries import SuiteParams
from slmsafety.params.study import StudyParams
from slmsafety.pipeline.shards import place
from slmsafety.records.schema import PROMPTS
from slmsafety.records.store import Partition

# A part that a stage has filled, how many rows it made and how many were there.
Written = Iterator[tuple[Partition, int, int]]


def generation_ids(params: StudyParams, root: Path) -> dict[tuple[str, str], str]:
    """Return the generation_id of every suite and model under the study's parameters."""
    sources = {model.id: model.source(root) for model in params.models}
    return {
        (suite.name, model): generation_id(source, settings(params, suite, model))
        for suite in params.suites
        for model, source in sources.items()
    }


def settings(params: StudyParams, suite: SuiteParams, model: str) -> GenerationSettings:
    """Return the generation settings of a suite and model in the study, without what merely runs them."""
    given = params.generation.model_dump(exclude={"batch_size", "memory_gb", "workers", "concurrency"})
    if suite.max_new_tokens is not None:
        given["max_new_tokens"] = suite.max_new_tokens
    (own,) = (entry.template for entry in params.models if entry.id == model)
    if own is not None:
        given["template"] = own
    return GenerationSettings(**given)


REPLY = ["response", "finish_reason"]
PROMPT = ["expected", "meta"]


def among(rows: pd.DataFrame, prompts: pd.DataFrame) -> pd.DataFrame:
    """The rows that belong to the prompts of a share."""
    return rows[rows["instance_id"].isin(prompts["instance_id"])]


def of(rows: pd.DataFrame, generation: str, judge: str | None = None) -> pd.DataFrame:
    """The rows that the parameters' ids name; rows of other settings stay in the file, unread."""
    rows = rows[rows["generation_id"] == generation]
    return rows if judge is None else rows[rows["judge_id"] == judge]


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


def stored_prompts(folder: Path, suite: str) -> pd.DataFrame:
    """Return a suite's prompts, or raise InputError when the stage `prompts` has not run."""
    prompts = Partition(folder, PROMPTS, (suite,)).read()
    if prompts.empty:
        raise InputError(f"suite '{suite}' has no prompts in {folder.name} yet; run the stage 'prompts' first")
    return prompts


def progress_bar(text: str, total: int, done: int, shown: bool = True) -> tqdm:
    """Return a bar with an ETA on a terminal and in a notebook (of several processes one), nothing in a log file."""
    in_notebook = "ipykernel" in sys.modules
    hidden = not shown or place().rank > 0
    return tqdm(total=total, initial=done, desc=text, unit="row", disable=hidden or (False if in_notebook else None))
