"""The judges that are known by name, and the judgments table made of a judge's verdicts and of blank replies."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from slmsafety.judging import bbq_letter, refusal_rules
from slmsafety.judging.base import Judge, Measure, MeasuringJudge
from slmsafety.judging.empty_replies import HELM_RELEASE, empty_policy
from slmsafety.judging.offline import judge as offline
from slmsafety.judging.offline.rules import rule_of
from slmsafety.judging.parsers.helm import empty_verdict
from slmsafety.records.schema import JUDGMENTS, REPLY_KEY, with_sample
from slmsafety.replies.parts import has_part

# Another judge by name is one more line here.
_SOURCES: dict[str, Measure] = {
    "refusal_rules": refusal_rules,
    "offline": offline,
    "bbq_letter": bbq_letter,
}
JUDGES: dict[str, MeasuringJudge] = {name: MeasuringJudge(name, source) for name, source in _SOURCES.items()}
# Judges with a probability of their label, made from the least that it may have and the rubric whose rule they follow.
THRESHOLDED: dict[str, Callable[[float, str | None], Measure]] = {"offline": offline.Offline}
# The judge of multiple-choice suites: it gives accuracy and no label, and no other judge reads those suites.
MULTIPLE_CHOICE_JUDGE = "bbq_letter"
# Why a reply has no verdict: its request failed, the token limit cut it within its reasoning, or it ended there.
NO_REPLY, CUT, REASONING_ONLY = "no_reply", "cut", "reasoning_only"


def named_judge(name: str, threshold: float = 0.0, suite: str = "", rubric: str | None = None) -> MeasuringJudge:
    """Return a judge of JUDGES as it reads a suite.

    `threshold` (0..1, of THRESHOLDED alone) is the least probability of a label. `rubric` is the suite's own in the
    study; a judge of THRESHOLDED follows its rule where that is another than the one of the suite's name.
    """
    if name not in THRESHOLDED:
        return JUDGES[name]
    other = rubric if rubric is not None and rule_of(rubric) != rule_of(suite) else None
    return MeasuringJudge(name, THRESHOLDED[name](threshold, other)) if threshold or other else JUDGES[name]


def sends_empty(empty: str, suite: str) -> bool:
    """Return whether a study sends the empty replies of a suite to its judges (`empty_replies.empty_policy`)."""
    return empty_policy(empty, suite) == "judge"


def unsent(rows: pd.DataFrame, empty: str) -> pd.Series:
    """Return which replies to one suite no judge is asked about.

    Those are blank ones, unless the study sends them; one that is blank because its request failed is no reply,
    whatever the study says of empty ones; and one without an answer in it (`no_answer`), which is not empty.
    """
    lacking = no_answer(rows)
    blank = rows["response"].fillna("").astype("str").str.strip().eq("")
    if len(rows) and sends_empty(empty, str(rows["suite"].iloc[0])):
        return lacking | (blank & rows["finish_reason"].eq("error"))
    return lacking | blank


def no_answer(rows: pd.DataFrame) -> pd.Series:
    """Return which replies hold no answer: reasoning only. None does where the columns of the answer are not there."""
    if not {"answer_start", "answer_end"} <= set(rows.columns):
        return pd.Series(False, rows.index)
    return has_part(rows) & rows["answer_start"].eq(rows["answer_end"]).fillna(False).astype(bool)


def empty_rows(rows: pd.DataFrame, name: str, judge_key: str, empty: str) -> pd.DataFrame:
    """Return the judgments of replies that are not sent to a judge, each under its own judge_id where it has one.

    Under a release of HELM its constant stands in raw_value of an empty one, with the reason short_circuit. Where the
    request failed there is no reply: status error, reason NO_REPLY. One without an answer has status no_answer and the
    reason CUT or REASONING_ONLY, whatever the study says of empty ones.
    """
    keys = rows["judge_id"].to_numpy() if "judge_id" in rows else judge_key
    frame = (
        with_sample(rows)[list(REPLY_KEY)]
        .reset_index(drop=True)
        .assign(judge_id=keys, judge=name, status="empty_response")
    )
    if empty.startswith(HELM_RELEASE):
        constant = empty_verdict(empty.removeprefix(HELM_RELEASE))
        frame = frame.assign(raw_value=constant.raw_value, reason=constant.reason)
    if "finish_reason" in rows and (failed := rows["finish_reason"].eq("error").to_numpy()).any():
        frame = frame.reindex(columns=list(JUDGMENTS.columns)).astype({"reason": object, "raw_value": "float64"})
        frame.loc[failed, ["status", "reason", "raw_value"]] = ["error", NO_REPLY, None]
    if (lacking := no_answer(rows).to_numpy()).any():
        frame = frame.reindex(columns=list(JUDGMENTS.columns)).astype({"reason": object, "raw_value": "float64"})
        cut = rows["finish_reason"].eq("length").to_numpy()
        for wanted, reason in ((lacking & cut, CUT), (lacking & ~cut, REASONING_ONLY)):
            frame.loc[wanted, ["status", "reason", "raw_value"]] = ["no_answer", reason, None]
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
        The judge_id of its work, of rows that have none of their own.
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
        said = frame.assign(judge_id=frame.get("judge_id", judge_key), judge=judge.name)
        parts.append(said.reindex(columns=list(JUDGMENTS.columns)))
    found = pd.concat([part for part in parts if len(part)] or parts).set_index(list(REPLY_KEY))
    order = pd.MultiIndex.from_frame(with_sample(rows)[list(REPLY_KEY)])
    return found.reindex(order).reset_index()[list(JUDGMENTS.columns)]
