"""Decoding of one prompt after the other, for models whose caches cannot hold rows of several lengths."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel

from slmsafety.generation.decoding import BatchLimits, DecodeConfig, choosing, greedy


def decode_alone(
    model: PreTrainedModel, prompts: list[list[int]], config: DecodeConfig, limits: BatchLimits
) -> Iterator[list[tuple[int, list[int]]]]:
    """Decode prompts, each by itself: without padding, and in one go with a cache of its own.

    Parameters
    ----------
    model : PreTrainedModel
        A causal language model in evaluation mode.
    prompts : list of list of int
        The token ids of each prompt, at least one.
    config : DecodeConfig
        When a reply ends, and how its tokens are chosen.
    limits : BatchLimits
        Not used: a batch is one row.

    Yields
    ------
    list of (int, list of int)
        One prompt: its index, and the new ids before the first end token.

    Raises
    ------
    InputError
        For logits that are nan or infinite.
    """
    ends = set(config.eos_token_ids)
    for index, prompt in enumerate(prompts):
        ids = torch.tensor([prompt], device=model.device)
        rules = greedy(config)
        with torch.inference_mode(), _only(model, rules):
            output: Any = model.generate(  # type: ignore[operator]
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=rules,
                logits_processor=choosing(model, config, [(index, 0)], len(prompt)),
            )
        new = output.sequences[0, len(prompt) :].tolist()
        yield [(index, new[: next((at for at, token in enumerate(new) if token in ends), len(new))])]


@contextmanager
def _only(model: PreTrainedModel, config: GenerationConfig) -> Iterator[None]:
    """Make the given config the model's own within the block: transformers fills what it leaves unset from there."""
    own = model.generation_config
    model.generation_config = config
    try:
        yield
    finally:
        model.generation_config = own
