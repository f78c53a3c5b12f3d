"""Real models for the tests: dequantised once into the user's cache, then loaded once a session."""

from __future__ import annotations

import pytest
import torch

from slmsafety.models.cards import card
from slmsafety.models.load import LoadedModel, load_causal_lm

# On a busy machine two threads wait for each other at every layer, which is several times slower than one.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def smollm2() -> LoadedModel:
    """SmolLM2-135M-Instruct: ChatML template, no BOS of its own, the end token is also the pad token."""
    return load_causal_lm(card("smollm2-135m-it-q4").source)


@pytest.fixture(scope="session")
def gemma_base() -> LoadedModel:
    """Gemma 3 270M, the base model: no chat template, BOS before every text."""
    return load_causal_lm(card("gemma3-270m-base-q4").source)
