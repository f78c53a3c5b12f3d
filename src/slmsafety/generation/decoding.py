"""Decoding in one left-padded batch, which finished rows leave and waiting prompts join."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from slmsafety.generation.grouped import (
    GroupedLayer,
    RoomyLayer,
    aligned,
    attention_for,
    can_group,
    regrouped,
    start_cache,
    with_start,
)
from slmsafety.generation.sampling import Drawn, Sampling
from slmsafety.models.finite import refuse_endless

# Leaving copies the cache of the rows that stay, so that finished rows wait until they are an eighth of the batch.
_LEAVING = 1 / 8
# A batch may be half padding: its attention reads that too, but fewer rows than could be make slow products.
_FILLED = 1 / 2
# The most tokens that go through the model at once, padding included, unless a single prompt has more.
PREFILL = 2048
# The least tokens of a start that all prompts share for which it goes through the model once, by itself.
SHARED = 8


class DecodeConfig(NamedTuple):
    """The most new tokens of a row, the ids that end a row, and the id that fills rows up on the left.

    `sampling` says how tokens are drawn; without it the likeliest one is taken.
    """

    max_new_tokens: int
    eos_token_ids: list[int]
    pad_token_id: int
    sampling: Sampling | None = None


class BatchLimits(NamedTuple):
    """The most rows of a batch and, if given, its most tokens: rows x (longest prompt + new tokens).

    A single row is always taken, however long it is.
    """

    batch_size: int
    max_batch_tokens: int | None = None


def decode(
    model: PreTrainedModel, prompts: list[list[int]], config: DecodeConfig, limits: BatchLimits
) -> Iterator[list[tuple[int, list[int]]]]:
    """Decode prompts in one batch, which finished rows leave and waiting prompts join in the order given.

    Parameters
    ----------
    model : PreTrainedModel
        A causal language model in evaluation mode.
    prompts : list of list of int
        The token ids of each prompt, at least one.
    config : DecodeConfig
        When a row ends, and how its tokens are chosen.
    limits : BatchLimits
        The size of the batch. In float32 the new ids do not depend on it.

    Yields
    ------
    list of (int, list of int)
        The rows that have finished since the last list: the index in `prompts`, and the new ids before the first end
        token (`config.max_new_tokens` of them where none came).

    Raises
    ------
    InputError
        For logits that are nan or infinite.
    """
    parts: list[tuple[_Batch, list[int]]] = []
    grouped, started, start = can_group(model), shared_start(model, prompts, config), 0
    room = _Room(config.max_new_tokens, limits, 0 if grouped else _FILLED)
    while parts or start < len(prompts):
        held = [len(prompts[batch.indices[row]]) for batch, rows in parts for row in rows]
        for indices in _joining(held, prompts, start, room):
            parts.append((_prefilled(model, prompts, indices, config, started), list(range(len(indices)))))
            start += len(indices)
        batch = _continued(model, _merged(parts, config.max_new_tokens, grouped), config)
        new = [row[-age:] for row, age in zip(batch.ids.tolist(), batch.ages, strict=True)]
        eos = set(config.eos_token_ids)
        going = [row for row, ids in enumerate(new) if len(ids) < config.max_new_tokens and not set(ids) & eos]
        yield [(batch.indices[row], before_end(new[row], eos)) for row in range(len(new)) if row not in set(going)]
        parts = [(batch, going)] if going else []


class _Room(NamedTuple):
    """How many rows a batch has room for: its limits, and the least share of its columns that hold no padding."""

    max_new_tokens: int
    limits: BatchLimits
    filled: float


@dataclass
class _Batch:
    """Rows that are being decoded.

    `ids` and `mask` are rows x columns, left-padded. `indices` are the rows' indices in the list of prompts, `ages`
    their numbers of new tokens. `cache` holds every column but the last, which the model has not seen yet.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    indices: list[int]
    ages: list[int]
    cache: Any


def _joining(held: list[int], prompts: list[list[int]], start: int, room: _Room) -> Iterator[list[int]]:
    """Yield the indices of the prompts from `start` on that there is room for, in groups to be prefilled together.

    `held` are the lengths of the prompts that are in the batch already.
    """
    lengths = [length + room.max_new_tokens for length in held]
    batch_size, most = room.limits
    group: list[int] = []
    for index in range(start, len(prompts)):
        lengths.append(len(prompts[index]) + room.max_new_tokens)
        padded = len(lengths) * max(lengths)
        over = most is not None and padded > most
        full = len(lengths) > batch_size or over or sum(lengths) < room.filled * padded
        if full and len(lengths) > 1:
            break
        longest = max(len(prompts[other]) for other in (*group, index))
        if group and longest * (len(group) + 1) > PREFILL:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def shared_start(model: PreTrainedModel, prompts: list[list[int]], config: DecodeConfig) -> DynamicCache | None:
    """Return the cache of the tokens that all prompts start with, read by itself; None where it is not.

    They have to be worth it (SHARED), and the model has to allow it. Arguments as those of `decode`.
    """
    # Two prompts that sort first and last share what all share. Never a whole prompt: its last token is still to go
    # through the model.
    both = list(zip(min(prompts), max(prompts), strict=False))
    same = next((place for place, (one, other) in enumerate(both) if one != other), len(both))
    shared = prompts[0][: min(same, min(map(len, prompts)) - 1)]
    # Where positions are scaled by the length of what is read, the start alone has other keys.
    scaling = str(getattr(model.config.get_text_config(decoder=True), "rope_parameters", None))
    if len(prompts) == 1 or len(shared) < SHARED or "dynamic" in scaling or "longrope" in scaling:
        return None
    return start_cache(_prefilled(model, [shared], [0], config._replace(sampling=None), None).cache)


def _prefilled(
    model: PreTrainedModel,
    prompts: list[list[int]],
    indices: list[int],
    config: DecodeConfig,
    started: DynamicCache | None,
) -> _Batch:
    """Return a batch of these prompts with the first new token of each. `started` has gone through the model."""
    width = max(len(prompts[index]) for index in indices)
    padding = [width - len(prompts[index]) for index in indices]
    pad = config.pad_token_id
    ids = [[pad] * free + prompts[index] for index, free in zip(indices, padding, strict=True)]
    mask = [[0] * free + [1] * (width - free) for free in padding]
    tensors = torch.tensor(ids, device=model.device), torch.tensor(mask, device=model.device)
    room = width + config.max_new_tokens
    cache = None if started is None else with_start(started, padding, room - started.get_seq_length())
    return _generated(model, _Batch(*tensors, indices, [0] * len(indices), cache), config._replace(max_new_tokens=1))


def _continued(model: PreTrainedModel, batch: _Batch, config: DecodeConfig) -> _Batch:
    """Return the batch with more tokens: until an eighth of its rows have ended, or the oldest has its last token."""
    left = config.max_new_tokens - max(batch.ages)
    return _generated(model, batch, config._replace(max_new_tokens=left)) if left else batch


def _generated(model: PreTrainedModel, batch: _Batch, config: DecodeConfig) -> _Batch:
    """Generate up to `config.max_new_tokens` more tokens for every row of the batch."""
    stop = StoppingCriteriaList([_SomeEnded(config.eos_token_ids, batch.ids.shape[1] - 1)])
    greedily = greedy(config)
    rows = list(zip(batch.indices, batch.ages, strict=True))
    with torch.inference_mode(), with_config(model, greedily), attention_for(model, batch.cache):
        output: Any = model.generate(  # type: ignore[operator]
            batch.ids,
            attention_mask=batch.mask,
            cache=batch.cache,
            generation_config=greedily,
            stopping_criteria=stop,
            logits_processor=choosing(model, config, rows, batch.ids.shape[1]),
        )
    ids, cache = output.sequences, output.cache
    added = ids.shape[1] - batch.ids.shape[1]
    mask = torch.cat([batch.mask, batch.mask.new_ones(len(ids), added)], dim=1)
    return _Batch(ids, mask, batch.indices, [age + added for age in batch.ages], cache)


def _merged(parts: list[tuple[_Batch, list[int]]], max_new_tokens: int, grouped: bool) -> _Batch:
    """Return rows of batches as one batch, without columns that are padding in all of them.

    The caches of the batches are freed on the way: the batches cannot be used again.
    """
    batches = [batch for batch, _ in parts]
    rows = [torch.tensor(kept, device=batches[0].ids.device) for _, kept in parts]
    masks = _kept([batch.mask for batch in batches], rows)
    width = int(max(mask.sum(dim=1).max() for mask in masks))
    ages = [batch.ages[row] for batch, kept in parts for row in kept]
    for layer in range(len(batches[0].cache.layers)):
        layers = [batch.cache.layers[layer] for batch in batches]
        if grouped:
            merged = _groups(layers, parts, max_new_tokens)
        else:
            merged = _layer(layers, rows, width - 1, max_new_tokens - max(ages))
        for batch in batches:  # frees what was merged, a layer at a time
            batch.cache.layers[layer] = merged
    ids = aligned(_kept([batch.ids for batch in batches], rows), width, -1)
    indices = [batch.indices[row] for batch, kept in parts for row in kept]
    return _Batch(ids, aligned(masks, width, -1), indices, ages, batches[0].cache)


def _groups(layers: list[Any], parts: list[tuple[_Batch, list[int]]], max_new_tokens: int) -> GroupedLayer:
    """Return rows of the caches of one layer as one cache, in the groups that they were prefilled in."""
    groups = []
    for layer, (batch, kept) in zip(layers, parts, strict=True):
        widths = (batch.mask[kept].sum(dim=1) - 1).tolist()
        groups += regrouped(layer, kept, widths, [max_new_tokens - batch.ages[row] for row in kept])
    return GroupedLayer(groups)


def _layer(layers: list[Any], rows: list[torch.Tensor], width: int, room: int) -> Any:
    """Return rows of the caches of one layer as one cache of `width` columns; recurrent states have no columns."""
    first = layers[0]
    for states in ("conv_states", "recurrent_states"):
        for state, held in getattr(first, states, {}).items():
            if held is not None:
                getattr(first, states)[state] = torch.cat(_kept([getattr(one, states)[state] for one in layers], rows))
    if getattr(first, "keys", None) is None:
        return first
    if isinstance(first, DynamicSlidingWindowLayer):
        first.cumulative_length, width = width, min(width, first.sliding_window - 1)
    roomy = type(first) in (DynamicLayer, RoomyLayer)
    keys = aligned(_kept([one.keys for one in layers], rows), width, -2, room if roomy else 0)
    values = aligned(_kept([one.values for one in layers], rows), width, -2, room if roomy else 0)
    if roomy:
        return RoomyLayer(keys, values, width)
    first.keys, first.values = keys, values
    return first


def _kept(tensors: list[torch.Tensor], rows: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return these rows of each tensor."""
    return [tensor[kept] for tensor, kept in zip(tensors, rows, strict=True)]


class _SomeEnded(StoppingCriteria):
    """Stops every row once an eighth of them have an end token in the columns from `start` on."""

    def __init__(self, eos_token_ids: list[int], start: int) -> None:
        self.eos_token_ids, self.start = eos_token_ids, start

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        new = input_ids[:, self.start :]
        ended = torch.isin(new, torch.tensor(self.eos_token_ids, dtype=new.dtype, device=new.device)).any(dim=1)
        return (ended.float().mean() >= _LEAVING).expand(len(ended))


class _Finite(LogitsProcessor):
    """Refuses logits of which the largest is no number: the token that is taken for it means nothing."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def __call__(self, input_ids: torch.Tensor, scores: Any) -> Any:
        refuse_endless(scores.amax(dim=-1), "the logits of replies", self.dtype)
        return scores


def choosing(
    model: PreTrainedModel, config: DecodeConfig, rows: list[tuple[int, int]], width: int
) -> LogitsProcessorList:
    """Return what makes greedy decoding choose as `config` says, and refuse logits that are no numbers.

    `rows` are the rows of a batch: each one's index in the list of prompts, and its number of new tokens so far.
    `width` is the number of columns before the next token.
    """
    found: list[LogitsProcessor] = [_Finite(str(model.dtype).removeprefix("torch."))]
    if config.sampling is not None:
        found.append(Drawn(config.sampling, rows, width, config.max_new_tokens))
    return LogitsProcessorList(found)


def before_end(new: list[int], eos: set[int]) -> list[int]:
    """Return the tokens before the first end token."""
    return new[: next((index for index, token in enumerate(new) if token in eos), len(new))]


def greedy(config: DecodeConfig) -> GenerationConfig:
    """Return a greedy generation config in which nothing but length, end and pad tokens is set."""
    return GenerationConfig(  # type: ignore[no-untyped-call] # transformers has no types here
        do_sample=False,
        num_beams=1,
        repetition_penalty=1.0,
        max_new_tokens=config.max_new_tokens,
        eos_token_id=config.eos_token_ids or None,
        pad_token_id=config.pad_token_id,
        return_dict_in_generate=True,
    )


@contextmanager
def with_config(model: PreTrainedModel, config: GenerationConfig) -> Iterator[None]:
    """Make the given config the model's own within the block.

    transformers fills whatever a config leaves unset from the model's own, so that a penalty or a ban in there would
    act on greedy decoding too.
    """
    own = model.generation_config
    model.generation_config = config
    try:
        yield
    finally:
        model.generation_config = own
