"""Real models for the tests: dequantised once into the user's cache, then loaded once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from servers import transformers_serve

from slmsafety.models.cards import card
from slmsafety.models.gguf import from_package
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.packages import SMOLLM2

# On a busy machine two threads wait for each other at every layer, which is several times slower than one.
torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the files that take longest first: two processes that share the files then end together."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def smollm2() -> LoadedModel:
    """SmolLM2-135M-Instruct: ChatML template, no BOS of its own, the end token is also the pad token."""
    return load_causal_lm(card("smollm2-135m-it-q4").source)


@pytest.fixture(scope="session")
def gemma_base() -> LoadedModel:
    """Gemma 3 270M, the base model: no chat template, BOS before every text."""
    return load_causal_lm(card("gemma3-270m-base-q4").source)


@pytest.fixture(scope="session")
def served_smollm2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The base URL of a real server of SmolLM2-135M-Instruct in float32, and the model's name there."""
    folder = from_package(SMOLLM2)
    with transformers_serve(folder, tmp_path_factory.mktemp("serve") / "log") as url:
        yield url, str(folder)
