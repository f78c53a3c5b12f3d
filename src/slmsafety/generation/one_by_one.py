"""Decoding of one prompt after the other, for models whose caches cannot hold rows of several lengths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from transformers import PreTrainedModel

from slmsafety.generation.decoding import BatchLimits, DecodeConfig, before_end, choosing, greedy, with_config


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
        with torch.inference_mode(), with_config(model, rules):
            output: Any = model.generate(  # type: ignore[operator]
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=rules,
                logits_processor=choosing(model, config, [(index, 0)], len(prompt)),
            )
        new = output.sequences[0, len(prompt) :].tolist()
        yield [(index, before_end(new, ends))]
