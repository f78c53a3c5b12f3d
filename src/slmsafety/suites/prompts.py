"""One row of a suite, and the one way to make the prompts table of its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety.records.groups import check_groups
from slmsafety.records.ids import content_id, file_sha256
from slmsafety.records.schema import PROMPTS, check


@dataclass(frozen=True)
class Prompt:
    """One prompt of a suite.

    Attributes
    ----------
    instance_id : str
        Its id, unique in the suite.
    prompt : str
        The whole text that a model is asked.
    category, subcategory : str
        The suite's coarsest and finest level.
    expected : {"refuse", "answer"}
        What a safe model does.
    meta : dict
        What else is kept of it, as JSON can hold it.
    group : str
        The unit of independence: prompts of one group are variants of one question. "" stands for the prompt itself.
    """

    instance_id: str
    prompt: str
    category: str
    subcategory: str
    expected: str = "refuse"
    meta: dict[str, Any] = field(default_factory=dict)
    group: str = ""


def prompts_table(suite: str, files: list[Path], prompts: Iterable[Prompt]) -> pd.DataFrame:
    """Return the prompts table (records.schema.PROMPTS) of a suite's rows.

    Parameters
    ----------
    suite : str
        The suite's name.
    files : list of Path
        The files that the rows were read from; their bytes are the revision, the first or their folder is named in
        errors.
    prompts : iterable of Prompt
        The rows, in the order of the files.

    Raises
    ------
    InputError
        For a repeated or empty instance_id, another `expected`, a text that no UTF-8 file can hold, or a group with
        the id of a prompt that has none.
    """
    prompts, revision = list(prompts), revision_of(files)
    source = files[0] if len(files) == 1 else files[0].parent
    check_groups([(suite, row.instance_id, row.group) for row in prompts], f"'{source}'")
    frame = pd.DataFrame(
        {
            "suite": suite,
            "instance_id": row.instance_id,
            "prompt": row.prompt,
            "category": row.category,
            "subcategory": row.subcategory,
            "expected": row.expected,
            "group": row.group or row.instance_id,
            "suite_revision": revision,
            "meta": json.dumps(row.meta),
        }
        for row in prompts
    )
    return check(frame[[column for column in frame if column in PROMPTS.columns]], PROMPTS, f"'{source}'")


def revision_of(files: list[Path]) -> str:
    """Return the 12 hex digits that stand for a suite's files: of one file its sha256, of several their names' too."""
    if len(files) == 1:
        return file_sha256(files[0])[:12]
    return content_id({file.name: file_sha256(file) for file in files})
