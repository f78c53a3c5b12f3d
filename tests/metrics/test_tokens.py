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


def test_a_lone_surrogate_counts_as_the_replacement_character(tokenizer: PreTrainedTokenizerBase) -> None:
    first, second = count_tokens(["one \udc80", "one \ufffd"], tokenizer)
    assert first == second > 1


def test_a_hundred_kilobytes_of_one_sign(tokenizer: PreTrainedTokenizerBase) -> None:
    # GPT-2 has a token for 64 dashes and one for a dash and for two.
    assert count_tokens(["-" * 64, "-" * 64_000], tokenizer) == [1, 1000]
