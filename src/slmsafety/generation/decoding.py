"""Greedy decoding in one left-padded batch, which finished rows leave and waiting prompts join."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteria, StoppingCriteriaList
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

# Leaving copies the cache of the rows that stay, so that finished rows wait until they are an eighth of the batch.
_LEAVING = 1 / 8
# A batch may be half padding: its attention reads that too, but fewer rows than could be make slow products.
_FILLED = 1 / 2
# The most tokens that go through the model at once, padding included, unless a single prompt has more.
PREFILL = 2048


def decode(
    model: PreTrainedModel,
    prompts: list[list[int]],
    max_new_tokens: int,
    ends: list[int],
    pad: int,
    batch_size: int,
    tokens: int | None = None,
) -> Iterator[list[tuple[int, list[int]]]]:
    """Yield places in `prompts` and their new token ids as rows finish, without end tokens: fewer than
    `max_new_tokens` if one came.

    Prompts start in the order given. A batch has at most `batch_size` rows, and, with `tokens`, at most so many
    places for prompts and new tokens; one row is always taken. In float32 the ids depend on neither.
    """
    parts: list[tuple[_Batch, list[int]]] = []
    start = 0
    while parts or start < len(prompts):
        held = [len(prompts[batch.places[row]]) for batch, rows in parts for row in rows]
        for places in _joining(held, prompts, start, max_new_tokens, batch_size, tokens):
            parts.append((_prefilled(model, prompts, places, ends, pad), list(range(len(places)))))
            start += len(places)
        batch = _continued(model, _merged(parts, max_new_tokens), max_new_tokens, ends, pad)
        new = [row[-age:] for row, age in zip(batch.ids.tolist(), batch.ages, strict=True)]
        going = [row for row, ids in enumerate(new) if len(ids) < max_new_tokens and not set(ids) & set(ends)]
        yield [(batch.places[row], _before_end(new[row], ends)) for row in range(len(new)) if row not in set(going)]
        parts = [(batch, going)] if going else []


@dataclass
class _Batch:
    """Rows that are being decoded.

    `ids` and `mask` are rows x columns, left-padded. `places` say which prompts the rows are, `ages` how many tokens
    each has got. `cache` holds every column but the last, which the model has not seen yet.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    places: list[int]
    ages: list[int]
    cache: Any


def _joining(
    held: list[int], prompts: list[list[int]], start: int, max_new_tokens: int, batch_size: int, tokens: int | None
) -> Iterator[list[int]]:
    """Yield the places of the prompts from `start` on that there is room for, in groups to be prefilled together.

    `held` are the lengths of the prompts that are in the batch already.
    """
    lengths = [length + max_new_tokens for length in held]
    group: list[int] = []
    for place in range(start, len(prompts)):
        lengths.append(len(prompts[place]) + max_new_tokens)
        padded = len(lengths) * max(lengths)
        full = len(lengths) > batch_size or (tokens is not None and padded > tokens) or sum(lengths) < _FILLED * padded
        if full and len(lengths) > 1:
            break
        longest = max(len(prompts[other]) for other in (*group, place))
        if group and longest * (len(group) + 1) > PREFILL:
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def _prefilled(
    model: PreTrainedModel, prompts: list[list[int]], places: list[int], ends: list[int], pad: int
) -> _Batch:
    """Return a batch of these prompts and the first new token of each."""
    width = max(len(prompts[place]) for place in places)
    lengths = [len(prompts[place]) for place in places]
    ids = [[pad] * (width - length) + prompts[place] for place, length in zip(places, lengths, strict=True)]
    mask = [[0] * (width - length) + [1] * length for length in lengths]
    batch = _Batch(
        torch.tensor(ids, device=model.device), torch.tensor(mask, device=model.device), places, [0] * len(places), None
    )
    return _generated(model, batch, 1, ends, pad)


def _continued(model: PreTrainedModel, batch: _Batch, max_new_tokens: int, ends: list[int], pad: int) -> _Batch:
    """Return the batch with more tokens: until an eighth of its rows have ended, or the oldest has its last token."""
    left = max_new_tokens - max(batch.ages)
    return _generated(model, batch, left, ends, pad) if left else batch


def _generated(model: PreTrainedModel, batch: _Batch, new_tokens: int, ends: list[int], pad: int) -> _Batch:
    """Return the batch with at most so many more tokens a row."""
    config, stop = greedy(new_tokens, ends, pad), StoppingCriteriaList([_SomeEnded(ends, batch.ids.shape[1] - 1)])
    with torch.inference_mode(), _only(model, config):
        output: Any = model.generate(  # type: ignore[operator]
            batch.ids,
            attention_mask=batch.mask,
            cache=batch.cache,
            generation_config=config,
            stopping_criteria=stop,
        )
    ids, cache = output.sequences, output.cache
    added = ids.shape[1] - batch.ids.shape[1]
    mask = torch.cat([batch.mask, batch.mask.new_ones(len(ids), added)], dim=1)
    return _Batch(ids, mask, batch.places, [age + added for age in batch.ages], cache)


def _merged(parts: list[tuple[_Batch, list[int]]], max_new_tokens: int) -> _Batch:
    """Return rows of batches as one batch, without columns that are padding in all of them.

    The batches are used up: what their caches held is let go.
    """
    batches = [batch for batch, _ in parts]
    rows = [torch.tensor(kept, device=batches[0].ids.device) for _, kept in parts]
    masks = _kept([batch.mask for batch in batches], rows)
    width = int(max(mask.sum(dim=1).max() for mask in masks))
    ages = [batch.ages[row] for batch, kept in parts for row in kept]
    for place in range(len(batches[0].cache.layers)):
        layers = [batch.cache.layers[place] for batch in batches]
        merged = _layer(layers, rows, width - 1, max_new_tokens - max(ages))
        for batch in batches:  # lets go of what was merged, a layer at a time
            batch.cache.layers[place] = merged
    ids = _aligned(_kept([batch.ids for batch in batches], rows), width, -1)
    places = [batch.places[row] for batch, kept in parts for row in kept]
    return _Batch(ids, _aligned(masks, width, -1), places, ages, batches[0].cache)


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
    roomy = type(first) in (DynamicLayer, _RoomyLayer)
    keys = _aligned(_kept([one.keys for one in layers], rows), width, -2, room if roomy else 0)
    values = _aligned(_kept([one.values for one in layers], rows), width, -2, room if roomy else 0)
    if roomy:
        return _RoomyLayer(keys, values, width)
    first.keys, first.values = keys, values
    return first


def _kept(tensors: list[torch.Tensor], rows: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return these rows of each tensor."""
    return [tensor[kept] for tensor, kept in zip(tensors, rows, strict=True)]


class _RoomyLayer(DynamicLayer):
    """A layer's keys and values with room for those to come; a plain layer copies all it has for each new token."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, width: int) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self._room = keys, values
        self.keys, self.values = keys[:, :, :width], values[:, :, :width]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new columns behind those there are, and return them all."""
        keys, values = self._room
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        keys[:, :, start:end], values[:, :, start:end] = key_states, value_states
        self.keys, self.values = keys[:, :, :end], values[:, :, :end]
        return self.keys, self.values


def _aligned(parts: list[torch.Tensor], width: int, dim: int, room: int = 0) -> torch.Tensor:
    """Return the parts under each other with their last `width` columns aligned right, 0 where they have fewer.

    `room` more columns behind them hold anything.
    """
    shape = list(parts[0].shape)
    shape[0], shape[dim] = sum(len(part) for part in parts), width + room
    whole, row = parts[0].new_empty(shape), 0
    for part in parts:
        have = min(part.shape[dim], width)
        mine = whole.narrow(0, row, len(part))
        mine.narrow(dim, 0, width - have).zero_()
        mine.narrow(dim, width - have, have).copy_(part.narrow(dim, part.shape[dim] - have, have))
        row += len(part)
    return whole


class _SomeEnded(StoppingCriteria):
    """Stops every row once an eighth of them have an end token in the columns from `start` on."""

    def __init__(self, ends: list[int], start: int) -> None:
        self.ends, self.start = ends, start

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        new = input_ids[:, self.start :]
        ended = torch.isin(new, torch.tensor(self.ends, dtype=new.dtype, device=new.device)).any(dim=1)
        return (ended.float().mean() >= _LEAVING).expand(len(ended))


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
