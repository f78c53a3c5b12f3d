"""Reference models for the tests of metrics: the real small ones, and a GPT-2 of random weights for the slow part."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from spacy.language import Language
from transformers import GPT2Config, GPT2LMHeadModel

from slmsafety.models.encoder import dependency_parser, gpt2_tokenizer
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.source import Source

WINDOW = 32


@pytest.fixture(scope="session")
def tiny_gpt2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GPT-2's vocabulary and architecture with a window of 32 tokens and random weights, as a model's folder."""
    torch.manual_seed(0)
    shape = {"n_positions": WINDOW, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.5}
    folder = tmp_path_factory.mktemp("models") / "tiny-gpt2"
    GPT2LMHeadModel(GPT2Config(**shape)).save_pretrained(folder)
    gpt2_tokenizer().tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_gpt2(tiny_gpt2_folder: Path) -> LoadedModel:
    return load_causal_lm(Source(folder=tiny_gpt2_folder))


@pytest.fixture(scope="session")
def nlp() -> Language:
    return dependency_parser().nlp


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of public data files."""
    if "SLMSAFETY_DATA" not in os.environ:
        pytest.skip("SLMSAFETY_DATA is not set: it names the folder of public data files")
    return Path(os.environ["SLMSAFETY_DATA"])
