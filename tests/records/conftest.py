from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

REPLY = {
    "suite": "demo",
    "instance_id": "1",
    "model": "tiny",
    "generation_id": "g1",
    "response": "A reply.",
    "prompt_tokens": 3,
    "output_tokens": 2,
    "finish_reason": "stop",
    "prompt_truncated": False,
    "meta": "{}",
}
JUDGMENT = {
    "suite": "demo",
    "instance_id": "1",
    "model": "tiny",
    "generation_id": "g1",
    "judge_id": "j1",
    "judge": "rules",
    "status": "ok",
    "label": 2,
    "raw_value": 0.25,
    "raw_text": "fine",
    "reason": "refusal",
    "input_tokens": 4,
    "output_tokens": 5,
    "meta": "{}",
}


def reply(**changes: Any) -> pd.DataFrame:
    return pd.DataFrame([{**REPLY, **changes}], dtype=object)


def judgment(**changes: Any) -> pd.DataFrame:
    return pd.DataFrame([{**JUDGMENT, **changes}], dtype=object)


@pytest.fixture
def replies() -> Any:
    """A function that makes one row of the table responses, with some values changed."""
    return reply


@pytest.fixture
def judgments() -> Any:
    """A function that makes one row of the table judgments, with some values changed."""
    return judgment
