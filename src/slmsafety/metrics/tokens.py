"""Length in GPT-2 tokens (paper section 3.3)."""

from __future__ import annotations

from typing import Any

from slmsafety.metrics.memo import well_formed


def token_ids(texts: list[str], tokenizer: Any) -> list[list[int]]:
    """Return each text's ids, no special token added and nothing cut; a lone surrogate counts as U+FFFD."""
    if not texts:
        return []
    # verbose=False: a text beyond the model's context length is expected here.
    made = tokenizer([well_formed(text) for text in texts], add_special_tokens=False, truncation=False, verbose=False)
    ids: list[list[int]] = made["input_ids"]
    return ids


def count_tokens(texts: list[str], tokenizer: Any) -> list[int]:
    """Return each text's number of tokens, no special token added; 0 for the empty text."""
    return [len(ids) for ids in token_ids(texts, tokenizer)]
