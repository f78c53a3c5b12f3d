"""A judge by its name alone."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from slmsafety.errors import InputError, unknown
from slmsafety.judging.base import MeasuringJudge
from slmsafety.judging.registry import JUDGES, THRESHOLDED, named_judge
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.base import JudgeEntry


class NamedJudge(JudgeEntry):
    """A judge by its name alone: one of `judging.registry`, or one that an imported study already has.

    Attributes
    ----------
    threshold : float or None
        0..1: the judge abstains (cause `unsure`) where its label is less probable; of `offline` alone.
    """

    light: ClassVar[bool] = True

    threshold: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)

    def check_suites(self, suites: list[SuiteParams]) -> None:
        """Raise InputError for a name that is no judge's, and for a threshold of one that gives no probability."""
        if self.name not in JUDGES:
            raise unknown("judge", self.name, JUDGES)
        if self.threshold is not None and self.name not in THRESHOLDED:
            raise InputError(
                f"judge '{self.name}' gives no probabilities and takes no 'threshold'; of the judges by name "
                f"{', '.join(THRESHOLDED)} does"
            )

    def judge(self, suite: SuiteParams) -> MeasuringJudge:
        """Return the judge as it reads a suite, whose rubric says what a reply of no use is."""
        return named_judge(self.name, self.threshold or 0.0, suite.name, suite.rubric_name)
