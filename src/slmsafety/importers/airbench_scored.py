"""Scored files of AirBench's own pipeline (Zeng et al., 2024; its evaluation/ folder), as CSV or as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import AliasChoices, Field

from slmsafety.errors import InputError
from slmsafety.importers.csv_text import read_csv_text
from slmsafety.importers.json_files import Record, read_json, record
from slmsafety.importers.rubric_scores import airbench_polarity, outcome
from slmsafety.importers.tables import Imported
from slmsafety.records.ids import content_id
from slmsafety.records.schema import JUDGMENTS, PROMPTS, RESPONSES
from slmsafety.suites import airbench


class _Prompt(Record):
    prompt: str


class _Scored(Record):
    """A row, with its names in the CSV or in the JSON files."""

    cate_idx: str = Field(validation_alias=AliasChoices("cate-idx", "cate_idx"))
    level_2: str = Field(validation_alias=AliasChoices("l2-name", "l2_name"))
    level_3: str = Field(validation_alias=AliasChoices("l3-name", "l3_name"))
    level_4: str = Field(validation_alias=AliasChoices("l4-name", "l4_name"))
    prompt: str | list[_Prompt] = Field(min_length=1)
    response: str
    reason: str | None = Field(validation_alias=AliasChoices("reason", "score_reason"))
    score: str | float | None

    @property
    def text(self) -> str:
        """The prompt: in JSON files it is a list of one object."""
        return self.prompt if isinstance(self.prompt, str) else self.prompt[0].prompt


@dataclass(frozen=True)
class ScoredFile:
    """What a scored file does not say of itself.

    Attributes
    ----------
    judge, model : str
        Who judged whose replies.
    polarity : {"post_swap", "pre_swap"}
        Which end of the score is safe (`rubric_scores.POLARITIES`).
    rubric_revision : str or None
        The revision of the judge prompts, for the record.
    """

    judge: str
    model: str
    polarity: str
    rubric_revision: str | None = None


def read_airbench_scored(path: Path, about: ScoredFile) -> Imported:
    """Read a scored file of AirBench's pipeline.

    Parameters
    ----------
    path : Path
        A CSV, or JSON with a list of objects. Needed in every row: cate-idx, l2-name, l3-name, l4-name, prompt,
        response, score, and reason or score_reason (in JSON with underscores).
    about : ScoredFile
        Judge, model and direction of the scores.

    Returns
    -------
    Imported
        The prompts, responses and judgments. raw_value keeps the file's own score and reason its text; a score that is
        no number has status unparsed and stays in raw_text. Ids are those of the suite's loader
        (`suites.airbench.instance_ids`). What a verdict on a blank reply counts is not decided here (`rules.by_rules`).

    Raises
    ------
    InputError
        Naming the file and the row, counted from 1 below the header.
    """
    airbench_polarity(str(path), about.polarity, about.rubric_revision)
    rows = [record(_Scored, row, f"{path}: row {number}") for number, row in enumerate(_records(path), start=1)]
    if not rows:
        raise InputError(f"{path}: holds no rows")
    meta = {"source": "airbench_scored", "polarity": about.polarity, "rubric_revision": about.rubric_revision}
    keys = {
        "suite": airbench.SUITE.name,
        "model": about.model,
        "generation_id": content_id({"imported": "airbench_scored", "model": about.model}),
        "judge_id": content_id({"imported_judge": about.judge, **meta}),
        "judge": about.judge,
    }
    ids = airbench.instance_ids([(row.cate_idx, row.text) for row in rows])
    frame = pd.DataFrame(
        [
            {
                **keys,
                "instance_id": instance_id,
                "prompt": row.text,
                "category": row.level_2,
                "subcategory": row.level_4,
                "expected": "refuse",
                "suite_revision": "not recorded (scored file)",
                "response": row.response,
                "finish_reason": "stop",
                "reason": row.reason,
                **_verdict(row, about.polarity),
            }
            for instance_id, row in zip(ids, rows, strict=True)
        ]
    )
    metas = [json.dumps({"cate_idx": row.cate_idx, "level_3": row.level_3}) for row in rows]
    return Imported(
        str(path),
        frame.assign(meta=metas).reindex(columns=list(PROMPTS.columns)),
        frame.assign(meta="{}").reindex(columns=list(RESPONSES.columns)),
        frame.assign(meta=json.dumps(meta)).reindex(columns=list(JUDGMENTS.columns)),
    )


def _records(path: Path) -> list[Any]:
    if path.suffix.lower() == ".csv":
        return read_csv_text(path, ("cate-idx", "prompt", "response", "score")).to_dict("records")
    records = read_json(path)
    if not isinstance(records, list):
        raise InputError(f"{path}: needs a JSON list of objects, one a judged reply")
    return records


def _verdict(row: _Scored, polarity: str) -> dict[str, Any]:
    """Return status, label, raw_value and raw_text: the file's score, or its text where that is no finite number."""
    text = None if row.score is None else str(row.score)
    try:
        score = float(text or "")
        status, label = outcome(score, polarity)
    except ValueError:
        score, status, label = math.nan, "unparsed", None
    finite = math.isfinite(score)
    return {
        "status": status,
        "label": label,
        "raw_value": score if finite else None,
        "raw_text": None if finite else text,
    }
