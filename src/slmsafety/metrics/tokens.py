"""Length in GPT-2 tokens (paper section 3.3)."""

from __future__ import annotations

from typing import Any


def count_tokens(texts: list[str], tokenizer: Any) -> list[int]:
    """Return each text's number of tokens, no special token added; 0 for the empty text."""
    if not texts:
        return []
    return [len(ids) for ids in tokenizer(texts, add_special_tokens=False, truncation=False)["input_ids"]]
