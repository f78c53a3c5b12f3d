"""The judges that are known by name, and the judgments table made of a judge's verdicts and of blank replies."""

from __future__ import annotations

import pandas as pd

from slmsafety.judging import bbq_letter, refusal_rules
from slmsafety.judging.base import Judge, Measure, MeasuringJudge
from slmsafety.judging.empty_replies import HELM_RELEASE, empty_policy
from slmsafety.judging.offline import judge as offline
from slmsafety.judging.parsers.helm import empty_verdict
from slmsafety.records.schema import JUDGMENTS, REPLY_KEY, with_sample

# Another judge by name is one more line here.
_SOURCES: dict[str, Measure] = {
    "refusal_rules": refusal_rules,
    "offline": offline,
    "bbq_letter": bbq_letter,
}
JUDGES: dict[str, MeasuringJudge] = {name: MeasuringJudge(name, source) for name, source in _SOURCES.items()}
# The judge of multiple-choice suites: it gives accuracy and no label, and no other judge reads those suites.
MULTIPLE_CHOICE_JUDGE = "bbq_letter"
# Why a reply has no verdict whose request failed.
NO_REPLY = "no_reply"


def sends_empty(empty: str, suite: str) -> bool:
    """Return whether a study sends the empty replies of a suite to its judges (`empty_replies.empty_policy`)."""
    return empty_policy(empty, suite) == "judge"


def unsent(rows: pd.DataFrame, empty: str) -> pd.Series:
    """Return which replies to one suite no judge is asked about: blank ones, unless the study sends them.

    One that is blank because its request failed is no reply, whatever the study says of empty ones.
    """
    blank = rows["response"].fillna("").astype("str").str.strip().eq("")
    if len(rows) and sends_empty(empty, str(rows["suite"].iloc[0])):
        return blank & rows["finish_reason"].eq("error")
    return blank


def empty_rows(rows: pd.DataFrame, name: str, judge_key: str, empty: str) -> pd.DataFrame:
    """Return the judgments of empty replies that are not sent to a judge.

    Under a release of HELM its constant stands in raw_value, with the reason short_circuit. Where the request failed
    there is no reply: status error, reason NO_REPLY.
    """
    frame = (
        with_sample(rows)[list(REPLY_KEY)]
        .reset_index(drop=True)
        .assign(judge_id=judge_key, judge=name, status="empty_response")
    )
    if empty.startswith(HELM_RELEASE):
        constant = empty_verdict(empty.removeprefix(HELM_RELEASE))
        frame = frame.assign(raw_value=constant.raw_value, reason=constant.reason)
    if "finish_reason" in rows and (failed := rows["finish_reason"].eq("error").to_numpy()).any():
        frame = frame.reindex(columns=list(JUDGMENTS.columns)).astype({"reason": object, "raw_value": "float64"})
        frame.loc[failed, ["status", "reason", "raw_value"]] = ["error", NO_REPLY, None]
    return frame.reindex(columns=list(JUDGMENTS.columns))


def judgments(rows: pd.DataFrame, judge: Judge, judge_key: str, empty: str) -> pd.DataFrame:
    """Return the judgments of replies to one suite, one row each and in their order.

    Parameters
    ----------
    rows : DataFrame
        The replies as `Judge.judge` takes them; their keys are unique.
    judge : Judge
        What judges them.
    judge_key : str
        The judge_id of its work.
    empty : str
        The study's policy for empty replies. They get status empty_response without being sent, unless it is to send
        them.

    Returns
    -------
    DataFrame
        The columns of the judgments table.
    """
    sent = ~unsent(rows, empty)
    parts = [empty_rows(rows[~sent], judge.name, judge_key, empty)]
    for frame in judge.judge(rows[sent]):
        said = frame.assign(judge_id=judge_key, judge=judge.name)
        parts.append(said.reindex(columns=list(JUDGMENTS.columns)))
    found = pd.concat([part for part in parts if len(part)] or parts).set_index(list(REPLY_KEY))
    order = pd.MultiIndex.from_frame(with_sample(rows)[list(REPLY_KEY)])
    return found.reindex(order).reset_index()[list(JUDGMENTS.columns)]
