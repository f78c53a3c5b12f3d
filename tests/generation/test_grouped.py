from __future__ import annotations

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
from transformers.cache_utils import DynamicCache, DynamicLayer

from slmsafety.errors import InputError
from slmsafety.generation.decoding import BatchLimits, DecodeConfig, decode
from slmsafety.generation.grouped import GroupedLayer, RoomyLayer, can_group, regrouped, with_start
from slmsafety.models.load import LoadedModel

SHAPE = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


def columns(rows: int, width: int) -> torch.Tensor:
    """Keys of one head and size, of which each number is row.column."""
    return (torch.arange(rows)[:, None] + torch.arange(width) / 100)[:, None, :, None]


def roomy(rows: int, width: int, room: int = 2) -> RoomyLayer:
    return RoomyLayer(columns(rows, width + room), -columns(rows, width + room), width)


def test_only_attention_that_sees_all_columns_through_the_interface_is_grouped() -> None:
    llama = LlamaForCausalLM(LlamaConfig(vocab_size=32, **SHAPE))
    assert can_group(llama) and can_group(GPT2LMHeadModel(GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2)))
    llama.set_attn_implementation("eager")
    assert not can_group(llama)
    sliding = {"sliding_window": 8, "num_key_value_heads": 2}
    assert not can_group(MistralForCausalLM(MistralConfig(vocab_size=32, **SHAPE, **sliding)))


def test_groups_look_like_one_tensor_with_padding_on_the_left() -> None:
    layer = GroupedLayer([roomy(2, 3), roomy(1, 1)])
    new = torch.tensor([7.0, 8.0, 9.0])[:, None, None, None]
    assert layer.get_seq_length() == 3
    keys, values = layer.update(new, -new)
    assert layer.get_seq_length() == 4 and keys.shape == (3, 1, 4, 1)
    wanted = [[0, 0.01, 0.02, 7], [1, 1.01, 1.02, 8], [0, 0, 0, 9]]
    torch.testing.assert_close((keys + 0)[:, 0, :, 0], torch.tensor(wanted))
    assert torch.cat([keys, values]).sum() == 0


def test_a_group_that_loses_rows_loses_the_columns_that_nobody_needs() -> None:
    layer = GroupedLayer([roomy(2, 3), roomy(3, 5)])
    first, second = layer.groups
    same, smaller = regrouped(layer, [0, 1, 2, 4], [3, 2, 4, 3], [9, 9, 1, 2])
    assert same is first and smaller is not second
    assert smaller.keys.shape == (2, 1, 4, 1) and smaller.keys[:, 0, 0, 0].tolist() == pytest.approx([0.01, 2.01])
    assert smaller.update(torch.ones(2, 1, 2, 1), torch.ones(2, 1, 2, 1))[0].shape[2] == 6, "room for two more"
    assert regrouped(layer, [4], [5], [0])[0].keys[0, 0, :, 0].tolist() == second.keys[2, 0, :, 0].tolist()


def test_rows_get_the_shared_start_behind_their_padding() -> None:
    start = DynamicCache()
    start.layers.append(DynamicLayer())
    start.layers[0].update(columns(1, 3), columns(1, 3))
    layer = with_start(start, [0, 1, 5], 2).layers[0]
    assert layer.keys[0, 0, :, 0].tolist() == pytest.approx([0, 0.01, 0.02])
    assert layer.keys[1, 0, 1:, 0].tolist() == pytest.approx([0, 0.01])
    assert layer.keys.shape == layer.values.shape == (3, 1, 3, 1)


def test_the_model_keeps_its_own_attention(smollm2: LoadedModel) -> None:
    seen: list[str] = []
    hook = smollm2.model.register_forward_pre_hook(lambda *_: seen.append(smollm2.model.config._attn_implementation))
    finished = next(decode(smollm2.model, [[5, 6, 7], [8]], DecodeConfig(3, [2], 2), BatchLimits(2)))
    hook.remove()
    assert len(finished) == 2 and len(set(seen)) == 2, "another one while rows are in groups"
    assert smollm2.model.config._attn_implementation == "sdpa"


def test_the_model_keeps_its_own_attention_after_an_error() -> None:
    model = LlamaForCausalLM(LlamaConfig(vocab_size=32, **SHAPE)).eval()
    steps: list[int] = []

    def spoilt(*_: object) -> None:
        steps.append(0)
        if len(steps) == 2:
            torch.nn.init.constant_(model.model.norm.weight, float("nan"))

    model.register_forward_pre_hook(spoilt)
    with pytest.raises(InputError, match="nan or infinite"):
        list(decode(model, [[1, 2, 3], [4]], DecodeConfig(4, [31], 0), BatchLimits(2)))
    assert len(steps) == 2 and model.config._attn_implementation == "sdpa"
