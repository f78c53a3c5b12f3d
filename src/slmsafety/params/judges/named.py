"""A judge by its name alone."""

from __future__ import annotations

from typing import ClassVar

from slmsafety.errors import unknown
from slmsafety.judging.registry import JUDGES
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.base import JudgeEntry


class NamedJudge(JudgeEntry):
    """A judge by its name alone: one of `judging.registry`, or one that an imported study already has."""

    light: ClassVar[bool] = True

    def check_suites(self, suites: list[SuiteParams]) -> None:
        """Raise InputError for a name that is no judge's."""
        if self.name not in JUDGES:
            raise unknown("judge", self.name, JUDGES)
