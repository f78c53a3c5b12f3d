"""Imported prompts under the ids of their suite: found by their text, since a position in another tool is no id."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.importers.tables import Imported


def with_suite_ids(imported: Imported, prompts: pd.DataFrame) -> Imported:
    """Return a source's rows with a suite's own ids and prompt rows; rows of other suites stay as they are.

    `prompts` is the suite's prompts table (records.schema.PROMPTS). An id whose prompt in the suite is the same stays;
    among several equal prompts the one of the same subcategory counts. Raises InputError for a prompt that is not there
    once.
    """
    suite = str(prompts["suite"].iloc[0])
    own = imported.prompts[imported.prompts["suite"] == suite]
    by_text = dict(list(prompts.groupby("prompt")))
    ids: dict[str, str] = {}
    for name, text, subcategory in zip(own["instance_id"], own["prompt"], own["subcategory"], strict=True):
        found = by_text.get(text, prompts.iloc[:0])
        if name in set(found["instance_id"]):
            found = found[found["instance_id"] == name]
        elif len(found) > 1:
            found = found[found["subcategory"] == subcategory]
        if len(found) != 1:
            how = "is not" if found.empty else f"is {len(found)} times"
            raise InputError(
                f"{imported.source}: the prompt of instance '{name}' {how} in the study's file of suite "
                f"'{suite}'; give the whole suite, or leave it out of 'suites' to keep this source's ids"
            )
        ids[name] = str(found["instance_id"].iloc[0])
    kept = imported.prompts[imported.prompts["suite"] != suite]
    return replace(
        imported,
        prompts=pd.concat([kept, prompts[prompts["instance_id"].isin(ids.values())]], ignore_index=True),
        responses=_renamed(imported.responses, suite, ids),
        judgments=_renamed(imported.judgments, suite, ids),
    )


def _renamed(rows: pd.DataFrame, suite: str, ids: dict[str, str]) -> pd.DataFrame:
    here = rows["suite"] == suite
    return rows.assign(instance_id=rows["instance_id"].mask(here, rows["instance_id"].map(ids)))
