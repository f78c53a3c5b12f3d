from __future__ import annotations

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from slmsafety.models.load import LoadedModel
from slmsafety.models.tokens import eos_token_ids


@pytest.mark.parametrize(("own", "expected"), [(2, [2]), ([7, 0], [0, 2, 7]), (None, [2]), ([2], [2])])
def test_the_ids_of_model_and_tokenizer_are_joined(
    smollm2: LoadedModel, monkeypatch: pytest.MonkeyPatch, own: int | list[int] | None, expected: list[int]
) -> None:
    monkeypatch.setattr(smollm2.model.generation_config, "eos_token_id", own)
    assert eos_token_ids(smollm2.model, smollm2.tokenizer) == expected


def test_neither_may_name_one(smollm2: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2.model.generation_config, "eos_token_id", None)
    without_end = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0}, unk_token="a")))
    assert eos_token_ids(smollm2.model, without_end) == []
