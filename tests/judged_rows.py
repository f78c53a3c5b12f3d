"""Replies to a mild prompt, as the stage judge hands them over."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def judged_rows(replies: Sequence[str]) -> pd.DataFrame:
    """A row for each reply."""
    return pd.DataFrame(
        {
            "suite": "demo_direct",
            "instance_id": [f"id{number:03d}" for number in range(len(replies))],
            "model": "tiny",
            "generation_id": "g" * 12,
            "prompt": "Name a colour.",
            "response": list(replies),
            "expected": "refuse",
            "meta": "{}",
        }
    )
