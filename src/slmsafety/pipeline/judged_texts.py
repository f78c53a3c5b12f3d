"""Which text of a reply is judged, and which judge_id its judgment has: the one way in which every reader tells.

A reply whose answer is the whole of it has the judge's plain id. Where the two differ, the answer is judged under
another id, unless the study judges whole replies; so a change of that choice moves no other row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from slmsafety.pipeline.run import Run
from slmsafety.records.schema import REPLY_KEY
from slmsafety.replies.parts import answers, has_part

PARTS = ["answer_start", "answer_end"]
# What of a reply the stage `judge` reads, beside its key.
REPLY = ["response", "finish_reason", *PARTS]
_KEY = ["instance_id", "generation_id", "sample"]


class JudgeIds(NamedTuple):
    """The ids of a judge's work on a suite: of replies that are judged whole, and of answers that are a part of one."""

    whole: str
    answer: str


NO_IDS = JudgeIds("", "")
"""Ids that no row has."""


def judged_texts(run: Run, replies: pd.DataFrame, ids: JudgeIds) -> pd.DataFrame:
    """Return replies as the study's judges get them.

    Parameters
    ----------
    run : Run
        Whose study says what is judged.
    replies : DataFrame
        Replies with the columns REPLY.
    ids : JudgeIds
        The judge's.

    Returns
    -------
    DataFrame
        `response` is what is judged, `judge_id` the id of its judgment. A reply whose answer ends before its own end
        was not cut there, so its finish_reason is stop. answer_start and answer_end are kept where the answer is
        judged, since a reply without any has no verdict; they still are characters of the whole reply.
    """
    if run.params.judged == "reply":
        return replies.drop(columns=PARTS).assign(judge_id=ids.whole)
    apart = has_part(replies)
    if not apart.any():
        return replies.assign(judge_id=ids.whole)
    ended = apart & (replies["answer_end"] < replies["response"].fillna("").str.rstrip().str.len()).fillna(False)
    finish = replies["finish_reason"].mask(ended & replies["finish_reason"].eq("length"), "stop")
    keys = np.where(apart, ids.answer, ids.whole)
    return replies.assign(response=answers(replies), finish_reason=finish, judge_id=keys)


def every_text(run: Run, replies: pd.DataFrame, ids: JudgeIds) -> pd.DataFrame:
    """Return what a judge is or was ever given of replies, under either choice of a study: `judged_texts` of both."""
    mine = judged_texts(run, replies, ids)
    apart = replies[has_part(replies)]
    if run.params.judged == "reply":
        other = apart.assign(response=answers(apart), judge_id=ids.answer)
    else:
        other = apart.assign(judge_id=ids.whole)
    return pd.concat([mine, other.reindex(columns=mine.columns)], ignore_index=True) if len(other) else mine


def judged_rows(run: Run, rows: pd.DataFrame, part: tuple[str, str], ids: JudgeIds) -> pd.DataFrame:
    """Return the judgments that the study counts: those whose judge_id is the one that their reply is to have.

    Parameters
    ----------
    run : Run
        Whose study says what is judged.
    rows : DataFrame
        A judge's rows on the replies `part` (suite, model), with the reply's key and judge_id.
    part : (str, str)
        Suite and model.
    ids : JudgeIds
        The judge's.
    """
    replies = _with_parts(run, *part) if run.params.judged == "answer" else None
    if replies is None or not has_part(replies).any():
        keep = rows["judge_id"] == ids.whole
    else:
        keep = rows["judge_id"] == np.where(_among_apart(rows, replies), ids.answer, ids.whole)
    return rows if keep.all() else rows[keep]


def standing_id(run: Run, suite: str, models: Iterable[str], ids: JudgeIds) -> str:
    """Return the id that stands for a judge's work on all replies of models: another where some answers are apart."""
    judged = models if run.params.judged == "answer" else ()
    return ids.answer if any(len(answers_apart(run, suite, model)) for model in judged) else ids.whole


def answers_apart(run: Run, suite: str, model: str) -> pd.MultiIndex:
    """Return which replies of a model to a suite have an answer that is not the whole of them.

    Returns
    -------
    MultiIndex
        instance_id, generation_id and sample; no text is read.
    """
    return _apart(_with_parts(run, suite, model))


def _with_parts(run: Run, suite: str, model: str) -> pd.DataFrame:
    """The keys of a model's replies and what of them answers; no row where every answer is the whole reply."""
    part = run.responses(suite, model)
    return part.read(PARTS) if part.has_values(PARTS[0]) else pd.DataFrame(columns=[*REPLY_KEY, *PARTS])


def _apart(replies: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(replies.loc[has_part(replies), _KEY])


def _among_apart(rows: pd.DataFrame, replies: pd.DataFrame) -> NDArray[np.bool_]:
    """Which rows are about a reply whose answer is apart. Rows of the very replies, in their order, need no index."""
    keys = [frame[_KEY].reset_index(drop=True) for frame in (rows, replies)]
    if keys[0].equals(keys[1]):
        return has_part(replies).to_numpy()
    return pd.MultiIndex.from_frame(keys[0]).isin(_apart(replies))
