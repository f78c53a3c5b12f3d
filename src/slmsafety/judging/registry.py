"""The judges by name. A judge is a module with `definition()` (what its judge_id hashes) and `measure(rows)`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pandas as pd

from slmsafety.judging import bbq_letter, refusal_rules
from slmsafety.judging.empty_replies import HELM_RELEASE, empty_policy
from slmsafety.judging.offline import judge as offline
from slmsafety.judging.parsers.helm import empty_verdict
from slmsafety.records.ids import content_id
from slmsafety.records.schema import JUDGMENTS

JUDGES: dict[str, ModuleType] = {"refusal_rules": refusal_rules, "offline": offline, "bbq_letter": bbq_letter}
# The judge of multiple-choice suites: it gives accuracy and no label, and no other judge reads those suites.
MULTIPLE_CHOICE_JUDGE = "bbq_letter"
KEYS = ["suite", "instance_id", "model", "generation_id"]


def sends_empty(empty: str, suite: str) -> bool:
    """Return whether a study sends the empty replies of a suite to its judges (`reading.empty_policy`)."""
    return empty_policy(empty, suite) == "judge"


def work_id(name: str, definition: dict[str, Any], empty_sent: bool) -> str:
    """Return the id of a judge's work by what defines it: the same rules on the same kind of input, the same id.

    To judge empty replies as well is other work.
    """
    return content_id({"judge": name, **definition, "sends_empty": empty_sent})


def empty_rows(rows: pd.DataFrame, name: str, judge_key: str, empty: str) -> pd.DataFrame:
    """Return the judgments of empty replies that are not sent to a judge.

    Under a release of HELM its constant stands in raw_value, with the reason short_circuit.
    """
    frame = rows[KEYS].reset_index(drop=True).assign(judge_id=judge_key, judge=name, status="empty_response")
    if empty.startswith(HELM_RELEASE):
        constant = empty_verdict(empty.removeprefix(HELM_RELEASE))
        frame = frame.assign(raw_value=constant.raw_value, reason=constant.reason)
    return frame.reindex(columns=list(JUDGMENTS.columns))


def judgments(
    rows: pd.DataFrame, name: str, judge_key: str, empty: str, measure: Callable[[pd.DataFrame], pd.DataFrame]
) -> pd.DataFrame:
    """Return the judgments of replies to one suite by what measures them, one row each and in their order.

    `rows` holds suite, instance_id, model, generation_id, prompt, meta (of the prompt), expected, response and
    finish_reason. An empty reply gets status empty_response without being sent, unless the study sends them.
    """
    rows = rows.reset_index(drop=True)
    sent = rows["finish_reason"].ne("empty")
    if len(rows) and sends_empty(empty, str(rows["suite"].iloc[0])):
        sent[:] = True
    parts = [empty_rows(rows[~sent], name, judge_key, empty).set_axis(rows.index[~sent])]
    if sent.any():
        measured = measure(rows[sent])
        if len(measured) != sent.sum():
            raise ValueError(f"judge {name} returned {len(measured)} rows for {int(sent.sum())} replies")
        found = rows.loc[sent, KEYS].join(measured.set_axis(rows.index[sent])).assign(judge_id=judge_key, judge=name)
        parts.append(found.reindex(columns=list(JUDGMENTS.columns)))
    return pd.concat([part for part in parts if len(part)] or parts).sort_index()
