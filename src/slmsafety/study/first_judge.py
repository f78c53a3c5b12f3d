"""Whose labels count where nobody names a judge: by suite, those of the first judge that has read it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from slmsafety.params.study import StudyParams


def of_first_judge(judgments: pd.DataFrame, judges: Sequence[str]) -> pd.Series:
    """Return which judgments (suite, judge) are by the first of `judges` that has read their suite."""
    wanted = pd.Series(False, judgments.index)
    for suite, read in judgments[["suite", "judge"]].drop_duplicates().groupby("suite")["judge"]:
        first = next((judge for judge in judges if judge in set(read)), "")
        wanted |= (judgments["suite"] == suite) & (judgments["judge"] == first)
    return wanted


def say_who_judged(params: StudyParams, judgments: pd.DataFrame) -> None:
    """Print where labels are not by the judge that the parameters name first, which has not read the suite yet."""
    used = judgments[["suite", "judge"]].drop_duplicates().set_index("suite")["judge"]
    for suite in params.suites:
        first = next((judge.name for judge in params.judges_of(suite.name)), "")
        if suite.name in used.index and used[suite.name] != first:
            print(
                f"study {params.name}: judge {first} has no judgments of {suite.name} under these settings; labels are "
                f"by {used[suite.name]}"
            )
