"""Which way a judge's scores run, told by the replies that open with a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.importers.judged_table import JudgeScores, Understood
from slmsafety.importers.rules import stored_name
from slmsafety.importers.scores import Scale
from slmsafety.importers.tables import Imported
from slmsafety.records.schema import HARMFUL

# Replies that open with a refusal and are needed to tell a direction.
FEWEST = 10


class Openings(NamedTuple):
    """Of a judge: the labelled replies to prompts to refuse that open with a refusal, and how many it calls harmful."""

    judge: str
    replies: int
    harmful: int

    @property
    def enough(self) -> bool:
        """Whether there are enough of them to tell a direction."""
        return self.replies >= FEWEST

    @property
    def turned(self) -> bool:
        """Whether the scores seem to run the other way."""
        return self.enough and self.harmful * 2 > self.replies

    @property
    def right(self) -> bool:
        """Whether the scores are seen to run the right way."""
        return self.enough and self.harmful * 2 < self.replies


def openings(source: Imported, opens_with_refusal: Callable[[str], bool]) -> list[Openings]:
    """Return what each judge of a source made of replies that open with a refusal.

    Parameters
    ----------
    source : Imported
        A source as `rules.by_rules` gives it.
    opens_with_refusal : callable
        Whether a reply's text does so.
    """
    prompt, reply = ["suite", "instance_id"], ["suite", "instance_id", "model", "generation_id", "sample"]
    asked = source.prompts.loc[source.prompts["expected"] == "refuse", prompt]
    replies = source.responses[[*reply, "response"]].dropna(subset="response").merge(asked, on=prompt)
    texts = {text: opens_with_refusal(text) for text in replies["response"].unique()}
    refusals = replies.loc[replies["response"].map(texts).astype(bool), reply]
    judged = source.judgments[[*reply, "judge", "label"]].dropna(subset="label").merge(refusals, on=reply)
    counts = judged.assign(harmful=judged["label"].eq(HARMFUL)).groupby("judge")["harmful"].agg(["size", "sum"])
    return [
        Openings(str(judge), int(counts["size"].get(judge, 0)), int(counts["sum"].get(judge, 0)))
        for judge in pd.unique(source.judgments["judge"])
    ]


def together(found: Iterable[Openings]) -> list[Openings]:
    """Return what each judge made of the refusals of several tables, whose scores one scale reads."""
    pooled: dict[str, Openings] = {}
    for each in found:
        before = pooled.get(each.judge, Openings(each.judge, 0, 0))
        pooled[each.judge] = Openings(each.judge, before.replies + each.replies, before.harmful + each.harmful)
    return list(pooled.values())


def check_direction(source: str, found: list[Openings]) -> None:
    """Raise InputError where a judge calls most replies harmful that open with a refusal of a prompt to refuse."""
    for judge in found:
        if judge.turned:
            raise InputError(
                f"{source}: judge '{judge.judge}' calls {judge.harmful} of {judge.replies} replies harmful that "
                "open with a refusal of a prompt that should be refused: its scores seem to run the other way. Say "
                "which end is safe (scores: {higher: safe} or {higher: harmful} of a file, the polarity of a run), or "
                "add checked: true to the study's scores where the labels are right"
            )


def check_unsaid(table: Understood, found: Sequence[Openings]) -> None:
    """Refuse scores of which the study does not say what they mean, and that nothing else shows to be 1 = safe.

    A judge's scores of 0, 0.5 and 1 that include 0.5 are the project's own; those of 0 and 1 alone could run either
    way, unless the replies that open with a refusal tell. Each judge is asked by itself: judges of one column need not
    agree on which end is safe. Raises InputError with what was seen and the lines to add.
    """
    by_judge = {judge.judge: judge for judge in found}
    for scores in table.scores:
        opened = by_judge.get(stored_name(scores.judge))
        if scores.scale.said or scores.has_half or not scores.values or (opened is not None and opened.right):
            continue
        raise InputError(
            f"{table.source}: judge '{scores.judge}', column '{scores.column}', has {scores.seen} and no 0.5, and "
            f"nothing in the file shows which end is safe ({0 if opened is None else opened.replies} labelled replies "
            f"open with a refusal, {FEWEST} are needed). Add to the study scores: {{higher: safe}} where "
            f"{_most(scores)} means safe, or scores: {{higher: harmful}} where it means harmful{_one_of(table)}"
        )


def check_one_scale(tables: Sequence[Understood]) -> None:
    """Raise InputError where the same judge's scores are read by two scales in one study."""
    first: dict[str, tuple[Scale, str]] = {}
    for table in tables:
        for scores in table.scores:
            known, where = first.setdefault(stored_name(scores.judge), (scores.scale, table.source))
            if known.definition != scores.scale.definition:
                raise InputError(
                    f"{table.source}: judge '{scores.judge}' is read by scores {{{scores.scale}}}, and by {{{known}}} "
                    f"in {where}; give one scale, or another name where it is another judge"
                )


def _most(scores: JudgeScores) -> str:
    return max(scores.values, key=lambda value: float(value))


def _one_of(table: Understood) -> str:
    """How the lines are said of one judge alone, where the file has several."""
    return "; of one judge alone: judges: {NAME: {scores: ...}}" if len(table.scores) > 1 else ""
