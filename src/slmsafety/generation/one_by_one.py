"""Decoding of one prompt after the other, for models whose caches cannot hold rows of several lengths."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, PreTrainedModel

from slmsafety.generation.decoding import BatchLimits, DecodeConfig, greedy
from slmsafety.models.finite import refuse_endless


def decode_alone(
    model: PreTrainedModel, prompts: list[list[int]], config: DecodeConfig, limits: BatchLimits
) -> Iterator[list[tuple[int, list[int]]]]:
    """Decode prompts greedily, each by itself: without padding, and in one go with a cache of its own.

    Parameters
    ----------
    model : PreTrainedModel
        A causal language model in evaluation mode.
    prompts : list of list of int
        The token ids of each prompt, at least one.
    config : DecodeConfig
        When a reply ends.
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
                logits_processor=LogitsProcessorList([_Finite(model)]),
            )
        new = output.sequences[0, len(prompt) :].tolist()
        yield [(index, new[: next((at for at, token in enumerate(new) if token in ends), len(new))])]


class _Finite(LogitsProcessor):
    """Refuses logits of which the largest is no number."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._dtype = str(model.dtype).removeprefix("torch.")

    def __call__(self, input_ids: torch.Tensor, scores: Any) -> Any:
        refuse_endless(scores.amax(dim=-1), "the logits of replies", self._dtype)
        return scores


@contextmanager
def _only(model: PreTrainedModel, config: GenerationConfig) -> Iterator[None]:
    """Make the given config the model's own within the block: transformers fills what it leaves unset from there."""
    own = model.generation_config
    model.generation_config = config
    try:
        yield
    finally:
        model.generation_config = own
