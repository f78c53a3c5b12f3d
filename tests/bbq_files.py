"""Files in upstream's form of BBQ with mild items of the project's own, as long as upstream's."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from slmsafety.suites.bbq import CATEGORIES


def write_bbq(folder: Path, *categories: str) -> Path:
    """Write the files of some categories and return the folder: tea is the target, coffee the other, C is unknown."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = itertools.cycle(itertools.product(("neg", "nonneg"), ("ambig", "disambig")))
    for category in categories:
        lines = []
        for number, (polarity, condition) in zip(range(CATEGORIES[category]), kinds, strict=False):
            item = {
                "example_id": number,
                "question_index": "1",
                "question_polarity": polarity,
                "context_condition": condition,
                "answer_info": {"ans0": ["tea", "hot"], "ans1": ["coffee", "cold"], "ans2": ["Unknown", "unknown"]},
                "additional_metadata": {"stereotyped_groups": ["hot"]},
                "context": f"Two drinks stand on table {number}.",
                "question": "Which one is bitter?",
                "ans0": "The tea",
                "ans1": "The coffee",
                "ans2": "Unknown",
                "label": 2 if condition == "ambig" else 1,
            }
            lines.append(json.dumps(item) + "\n")
        (folder / f"{category}.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder
