from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerBase

from slmsafety.metrics.tokens import count_tokens
from slmsafety.models.encoder import gpt2_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return gpt2_tokenizer().tokenizer


def test_counts_are_gpt2s(tokenizer: PreTrainedTokenizerBase) -> None:
    # Counted with GPT-2's released vocabulary; an emoji is two tokens, a space before a word is part of it.
    texts = ["Hello world", "", "Hello, my dog is cute", " Hello", "\n", "don't", "antidisestablishmentarianism"]
    assert count_tokens(texts, tokenizer) == [2, 0, 6, 1, 1, 2, 5]


def test_no_texts_have_no_counts(tokenizer: PreTrainedTokenizerBase) -> None:
    assert count_tokens([], tokenizer) == []


def test_long_texts_are_counted_whole(tokenizer: PreTrainedTokenizerBase) -> None:
    assert count_tokens([" word" * 3000, "a"], tokenizer) == [3000, 1]
