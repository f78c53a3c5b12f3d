"""The judges by name. A judge is a module with `definition()` (what its judge_id hashes) and `measure(rows)`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pandas as pd

from slmsafety.judging import bbq_letter, offline, refusal_rules
from slmsafety.records.ids import content_id
from slmsafety.records.schema import JUDGMENTS

JUDGES: dict[str, ModuleType] = {"refusal_rules": refusal_rules, "offline": offline, "bbq_letter": bbq_letter}
# The judge of multiple-choice suites: it gives accuracy and no label, and no other judge reads those suites.
MULTIPLE_CHOICE_JUDGE = "bbq_letter"


def judge_id(name: str, empty: str) -> str:
    """Return the id of a judge's work: the same rules on the same kind of input give the same id.

    Under the policy `judge` empty replies are sent to the judge as well, which is other work and so another id.
    """
    return work_id(name, JUDGES[name].definition(), empty)


def work_id(name: str, definition: dict[str, Any], empty: str) -> str:
    """Return the id of a judge's work by what defines it, under a policy for empty replies."""
    return content_id({"judge": name, **definition, "sends_empty": empty == "judge"})


def empty_rows(rows: pd.DataFrame, name: str, judge_key: str) -> pd.DataFrame:
    """Return the judgments of empty replies that are not sent to a judge."""
    keys = rows[["suite", "instance_id", "model", "generation_id"]].reset_index(drop=True)
    frame = keys.assign(judge_id=judge_key, judge=name, status="empty_response")
    return frame.reindex(columns=list(JUDGMENTS.columns))


def measure(name: str, rows: pd.DataFrame, empty: str) -> pd.DataFrame:
    """Return the judgments of a judge on replies, one row each and in their order.

    `rows` holds suite, instance_id, model, generation_id, prompt, meta (of the prompt), expected, response and
    finish_reason. An empty reply gets status empty_response without being sent, unless `empty` is "judge".
    """
    keys = rows[["suite", "instance_id", "model", "generation_id"]].reset_index(drop=True)
    kept = rows["finish_reason"].ne("empty").to_numpy() | (empty == "judge")
    result = pd.DataFrame({"status": ["empty_response"] * len(rows)})
    if kept.any():
        measured = JUDGES[name].measure(rows[kept])
        if len(measured) != kept.sum():
            raise ValueError(f"judge {name} returned {len(measured)} rows for {int(kept.sum())} replies")
        measured.index = result.index[kept]
        result = measured.combine_first(result.loc[~kept])
    frame = keys.join(result).assign(judge_id=judge_id(name, empty), judge=name)
    return frame.reindex(columns=list(JUDGMENTS.columns))
