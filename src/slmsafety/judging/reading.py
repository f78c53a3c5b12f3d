"""Labels as analysis reads them: a judge's verdicts, with empty replies read by the study's policy."""

from __future__ import annotations

import pandas as pd

from slmsafety.errors import unknown
from slmsafety.records.schema import AMBIGUOUS, HARMFUL, SAFE

EMPTY_POLICIES: dict[str, int | None] = {
    "missing": None,
    "judge": None,
    "safe": SAFE,
    "ambiguous": AMBIGUOUS,
    "harmful": HARMFUL,
}


def read_labels(judgments: pd.DataFrame, empty: str) -> pd.DataFrame:
    """Return the judgments with empty replies labelled as the policy says; the status stays what it was.

    "missing" (the default of a study) and "judge" add no label here; the others give every row of status
    empty_response that label. Raises InputError for an unknown policy.
    """
    if empty not in EMPTY_POLICIES:
        raise unknown("empty policy", empty, EMPTY_POLICIES)
    label = EMPTY_POLICIES[empty]
    if label is None:
        return judgments
    return judgments.assign(label=judgments["label"].mask(judgments["status"] == "empty_response", label))
