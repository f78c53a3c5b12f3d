"""Which way a judge's scores run, told by the replies that open with a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from slmsafety.errors import InputError
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


def check_direction(source: Imported, found: list[Openings]) -> None:
    """Raise InputError where a judge calls most replies harmful that open with a refusal of a prompt to refuse."""
    for judge in found:
        if judge.turned:
            raise InputError(
                f"{source.source}: judge '{judge.judge}' calls {judge.harmful} of {judge.replies} replies harmful that "
                "open with a refusal of a prompt that should be refused: its scores seem to run the other way. Say "
                "which end is safe (scores: {higher: safe} or {higher: harmful} of a file, the polarity of a run), or "
                "add checked: true to the study's scores where the labels are right"
            )
