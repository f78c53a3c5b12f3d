"""Greedy decoding of one left-padded batch, which its finished rows leave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteria, StoppingCriteriaList

# Leaving copies the cache of the rows that stay, so that finished rows wait until they are a quarter of the batch.
_LEAVING = 0.25


def decode(
    model: PreTrainedModel, prompts: list[list[int]], max_new_tokens: int, ends: list[int], pad: int
) -> list[list[int]]:
    """Return the new token ids of each prompt, without its end token: fewer than `max_new_tokens` if one came.

    In float32 they do not depend on what shares the batch.
    """
    width = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    new: dict[int, list[int]] = {}
    places, cache = torch.arange(len(prompts)), None
    while len(places):
        config = greedy(width + max_new_tokens - ids.shape[1], ends, pad)
        leaving = StoppingCriteriaList([_SomeEnded(ends, width)])
        with torch.inference_mode(), _only(model, config):
            output: Any = model.generate(  # type: ignore[operator]
                ids, attention_mask=mask, cache=cache, generation_config=config, stopping_criteria=leaving
            )
        ids, cache = output.sequences, output.cache
        new |= dict(zip(places.tolist(), ids[:, width:].tolist(), strict=True))
        going = torch.nonzero(~_ended(ids[:, width:], ends)).flatten()
        if not len(going) or ids.shape[1] == width + max_new_tokens:
            break
        # Made for beam search, and the one way to pick rows that every kind of cache has, recurrent states included.
        cache.reorder_cache(going)
        mask = torch.cat([mask, mask.new_ones(len(ids), ids.shape[1] - mask.shape[1])], dim=1)[going]
        ids, places = ids[going], places[going.cpu()]
    return [_before_end(new[place], ends) for place in range(len(prompts))]


class _SomeEnded(StoppingCriteria):
    """Stops every row once a quarter of them has an end token after the prompts."""

    def __init__(self, ends: list[int], width: int) -> None:
        self.ends, self.width = ends, width

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        ended = _ended(input_ids[:, self.width :], self.ends)
        return (ended.float().mean() >= _LEAVING).expand(len(ended))


def _ended(new: torch.Tensor, ends: list[int]) -> torch.Tensor:
    """Return for each row whether it holds an end token."""
    return torch.isin(new, torch.tensor(ends, dtype=new.dtype, device=new.device)).any(dim=1)


def _before_end(new: list[int], ends: list[int]) -> list[int]:
    """Return what stands before the first end token."""
    return new[: next((place for place, token in enumerate(new) if token in ends), len(new))]


def greedy(max_new_tokens: int, ends: list[int], pad: int) -> GenerationConfig:
    """Return a greedy generation config in which nothing but length, end and pad tokens is set."""
    return GenerationConfig(
        do_sample=False,
        num_beams=1,
        repetition_penalty=1.0,
        max_new_tokens=max_new_tokens,
        eos_token_id=ends or None,
        pad_token_id=pad,
        return_dict_in_generate=True,
    )


@contextmanager
def _only(model: PreTrainedModel, config: GenerationConfig) -> Iterator[None]:
    """Let the given config be the model's own for a while.

    transformers fills whatever a config leaves unset from the model's own, so that a penalty or a ban in there would
    act on greedy decoding too.
    """
    own = model.generation_config
    model.generation_config = config
    try:
        yield
    finally:
        model.generation_config = own
