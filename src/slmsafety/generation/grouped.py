"""A cache that keeps rows of like lengths in groups, each with its own columns, so that attention reads no padding.

All rows go through the model's matrix products together, as many rows make fast products; attention, which reads all
of a row's columns for each new token, is done a group at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME = "slmsafety_grouped"


def can_group(model: PreTrainedModel) -> bool:
    """Return whether the model can decode in groups.

    Its attention has to go through transformers' interface and to see all columns. Only on CPUs: a GPU reads padding
    faster than it starts one attention for each group.
    """
    own = model.config.get_text_config(decoder=True)._attn_implementation
    standard = own == "sdpa" and bool(model.is_backend_compatible())  # type: ignore[no-untyped-call] # transformers has no types here
    return standard and model.device.type == "cpu" and _whole_layers(DynamicCache(config=model.config))


def start_cache(cache: Any) -> DynamicCache | None:
    """Return the cache of a start that all prompts share; None where its layers are not columns of keys and values."""
    return cache if isinstance(cache, DynamicCache) and _whole_layers(cache) else None


def _whole_layers(cache: DynamicCache) -> bool:
    return bool(cache.layers) and all(type(layer) is DynamicLayer for layer in cache.layers)


def with_start(start: DynamicCache, padding: list[int], room: int) -> DynamicCache:
    """Return the cache of rows that begin with the start, each behind so many columns of padding.

    It has as many columns as `start`: of a row with padding the last tokens of the start are not in it. `room` more
    columns can be written without a copy.
    """
    cache, layers = DynamicCache(), list[Any](start.layers)
    for layer in layers:
        width = layer.get_seq_length()
        # The padding gets the first column, which attention does not see there.
        columns = (torch.arange(width) - torch.tensor(padding)[:, None]).clamp(min=0).to(layer.keys.device)
        keys, values = (tensor[0][:, columns].transpose(0, 1) for tensor in (layer.keys, layer.values))
        roomy = RoomyLayer(aligned([keys], width, -2, room), aligned([values], width, -2, room), width)
        cache.layers.append(roomy)
    return cache


class RoomyLayer(DynamicLayer):  # type: ignore[no-untyped-call] # transformers has no types here
    """A layer's keys and values with free columns for new tokens; a DynamicLayer copies all of them for each one."""

    keys: Any
    values: Any

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, width: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # transformers has no types here
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


class GroupedLayer(DynamicLayer):  # type: ignore[no-untyped-call] # transformers has no types here
    """A layer's keys and values, the rows in groups; the last columns of all groups are the same."""

    def __init__(self, groups: list[RoomyLayer]) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # transformers has no types here
        self.groups, self.is_initialized = groups, True

    def get_seq_length(self) -> int:
        """Return the columns of the widest group."""
        return max(group.get_seq_length() for group in self.groups)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new columns of each group behind those there are, and return them all."""
        sizes = [len(group.keys) for group in self.groups]
        new = zip(self.groups, torch.split(key_states, sizes), torch.split(value_states, sizes), strict=True)
        keys, values = zip(*(group.update(*states) for group, *states in new), strict=True)
        return _parts(keys), _parts(values)


def regrouped(layer: Any, kept: list[int], widths: list[int], rooms: list[int]) -> list[RoomyLayer]:
    """Return the groups of a layer without the rows that are not kept.

    A group that loses none is returned as it is; others keep the columns that the longest of their rows needs.

    Parameters
    ----------
    layer : cache layer
        With groups, or a single group.
    kept : list of int
        Its rows to be kept, ascending.
    widths, rooms : list of int
        The columns and the free columns that each of the kept rows needs.
    """
    found: list[Any] = layer.groups if isinstance(layer, GroupedLayer) else [layer]
    groups: list[RoomyLayer] = []
    start = 0
    for group in found:
        size = len(group.keys)
        mine = [place for place, row in enumerate(kept) if start <= row < start + size]
        if len(mine) == size and isinstance(group, RoomyLayer):
            groups.append(group)
        elif mine:
            width, room = max(widths[place] for place in mine), max(rooms[place] for place in mine)
            rows = torch.tensor([kept[place] - start for place in mine])
            keys, values = (aligned([tensor[rows]], width, -2, room) for tensor in (group.keys, group.values))
            groups.append(RoomyLayer(keys, values, width))
        start += size
    return groups


def aligned(parts: list[torch.Tensor], width: int, dim: int, room: int = 0) -> torch.Tensor:
    """Stack the parts with their last `width` columns aligned right, filled with 0 where a part has fewer.

    `room` more columns follow, which are not initialised.
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


class _Parts(torch.Tensor):
    """Keys or values of all groups. Whatever is done with them, but for `_attend`, sees one tensor with padding."""

    parts: tuple[torch.Tensor, ...]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*_whole(args), **{name: _whole(value) for name, value in (kwargs or {}).items()})


def _parts(parts: tuple[torch.Tensor, ...]) -> _Parts:
    made = torch.Tensor._make_subclass(_Parts, parts[0].new_empty(0))
    made.parts = parts
    return made


def _whole(value: Any) -> Any:
    """Return the value with each `_Parts` in it as one tensor."""
    if isinstance(value, _Parts):
        return aligned(list(value.parts), max(part.shape[-2] for part in value.parts), -2)
    return type(value)(map(_whole, value)) if type(value) in (list, tuple) else value


def _attend(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, **kwargs: Any
) -> tuple[torch.Tensor, None]:
    """Attend a group at a time, each to its own columns."""
    if not isinstance(key, _Parts) or not isinstance(value, _Parts) or kwargs.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, _whole(key), _whole(value), mask, **kwargs)
    outputs, start = [], 0
    for keys, values in zip(key.parts, value.parts, strict=True):
        rows = slice(start, start + len(keys))
        seen = None if mask is None else mask[rows, ..., -keys.shape[-2] :]
        outputs.append(sdpa_attention_forward(module, query[rows], keys, values, seen, **kwargs)[0])
        start = rows.stop
    return torch.cat(outputs), None


AttentionInterface.register(_NAME, _attend)
AttentionMaskInterface.register(_NAME, sdpa_mask)


@contextmanager
def attention_for(model: PreTrainedModel, cache: Any) -> Iterator[None]:
    """Let the model attend in groups within the block, if the cache has some."""
    config, own = model.config.get_text_config(decoder=True), None
    if any(isinstance(layer, GroupedLayer) for layer in getattr(cache, "layers", [])):
        own, config._attn_implementation = config._attn_implementation, _NAME
    try:
        yield
    finally:
        if own is not None:
            config._attn_implementation = own
