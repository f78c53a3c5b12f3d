from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import DynamicLayer

from slmsafety.errors import InputError
from slmsafety.generation import decoding
from slmsafety.generation.decoding import SHARED, BatchLimits, DecodeConfig, decode
from slmsafety.generation.render import render
from slmsafety.generation.settings import GenerationSettings
from slmsafety.models.load import LoadedModel

NEW = 12
TEXTS = [
    "Tell me, slowly, in one long sentence, what a river does on its way from the hills to the sea.",
    "Name three colours that a tree can have in autumn.",
    "Say yes, and nothing else, please.",
    "What is the capital of France?",
    "Count from one to five.",
    "Where is the moon?",
    "Say hello.",
    "Hi",
]


@pytest.fixture(scope="module")
def prompts(smollm2: LoadedModel) -> list[list[int]]:
    return [render(text, smollm2.tokenizer, GenerationSettings(), 1000).ids for text in TEXTS]


@pytest.fixture(scope="module")
def eos(smollm2: LoadedModel) -> list[int]:
    """Full stops, commas and exclamation marks end a reply: early in some, late or never in others."""
    return [2, *(smollm2.tokenizer.encode(mark)[0] for mark in (".", ",", "!"))]


@pytest.fixture(scope="module")
def alone(smollm2: LoadedModel, prompts: list[list[int]], eos: list[int]) -> list[list[int]]:
    return [
        new
        for prompt in prompts
        for _, new in next(decode(smollm2.model, [prompt], DecodeConfig(NEW, eos, 2), BatchLimits(1)))
    ]


def decoded(loaded: LoadedModel, prompts: list[list[int]], eos: list[int], batch_size: int) -> list[list[int]]:
    groups = list(decode(loaded.model, prompts, DecodeConfig(NEW, eos, 2), BatchLimits(batch_size)))
    assert all(groups)
    new = [finished for group in groups for finished in group]
    assert sorted(index for index, _ in new) == list(range(len(prompts)))
    return [ids for _, ids in sorted(new)]


@contextmanager
def shapes(loaded: LoadedModel) -> Iterator[list[tuple[int, int, int]]]:
    """Rows and columns that go into the model, and the columns of its cache before."""
    seen: list[tuple[int, int, int]] = []
    hook = loaded.model.register_forward_pre_hook(
        lambda _, args, given: seen.append((*given["input_ids"].shape, given["cache"].get_seq_length())),
        with_kwargs=True,
    )
    yield seen
    hook.remove()


def test_prompts_join_as_soon_as_others_leave(
    smollm2: LoadedModel, prompts: list[list[int]], eos: list[int], alone: list[list[int]]
) -> None:
    assert len({len(new) for new in alone}) > 3 and max(map(len, alone)) == NEW, "replies of several lengths"
    with shapes(smollm2) as seen:
        assert decoded(smollm2, prompts, eos, 3) == alone
    prefills = [step for step, (_, columns, _) in enumerate(seen) if columns > 1][1:]  # the shared start is the first
    assert sum(seen[step][0] for step in prefills) == len(prompts)
    assert len(prefills) > 3, "not in lots of three"
    after_a_prefill = [seen[step + 1][0] for step in prefills if seen[step + 1][1] == 1]
    assert after_a_prefill == [3] * len(after_a_prefill), "every free row was taken"


def test_columns_that_nobody_needs_any_more_are_dropped(
    smollm2: LoadedModel, prompts: list[list[int]], eos: list[int], alone: list[list[int]]
) -> None:
    with shapes(smollm2) as seen:
        assert decoded(smollm2, prompts, eos, 2) == alone
    last = len(prompts[-1]) + len(alone[-1])
    assert seen[1][1] + seen[1][2] > last + NEW and seen[-1][2] <= max(len(prompt) for prompt in prompts[-2:]) + NEW


def test_prompts_go_through_the_model_in_groups_of_so_many_tokens(
    smollm2: LoadedModel,
    prompts: list[list[int]],
    eos: list[int],
    alone: list[list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding, "PREFILL", 90)
    with shapes(smollm2) as seen:
        assert decoded(smollm2, prompts, eos, len(prompts)) == alone
    groups = [(rows, columns + cached) for rows, columns, cached in seen[1:] if columns > 1]
    assert max(rows * columns for rows, columns in groups) <= 90 and max(rows for rows, _ in groups) == 2
    assert max(rows for rows, columns, _ in seen if columns == 1) == len(prompts), "and are decoded together"


@pytest.fixture
def one_width(smollm2: LoadedModel) -> Iterator[None]:
    """Rows of any length have the same columns, as where a model cannot attend in groups."""
    smollm2.model.set_attn_implementation("eager")
    yield
    smollm2.model.set_attn_implementation("sdpa")


def test_a_batch_of_one_width_is_at_least_half_full_of_tokens(smollm2: LoadedModel, one_width: None) -> None:
    prompts = [list(range(200, 500)), *[list(range(100, 110))] * 5]
    with shapes(smollm2) as seen:
        decoded(smollm2, prompts, [], 6)
    assert [rows for rows, columns, _ in seen if columns > 1] == [2, 4], "one short prompt beside the long one"


@contextmanager
def cells_read() -> Iterator[list[int]]:
    """Rows times columns of the keys in each attention to a single new token."""
    cells: list[int] = []

    class Attentions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.nn.functional.scaled_dot_product_attention and args[0].shape[:2] == args[1].shape[:2]:
                cells.append(args[1].shape[0] * args[1].shape[2])
            return func(*args, **(kwargs or {}))

    with Attentions():
        yield cells


def test_rows_of_any_length_are_decoded_together_and_attention_reads_no_padding(
    smollm2: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "PREFILL", 1)  # every row is a group
    prompts = [list(range(100, 400)), *[list(range(110, 110 + length)) for length in (40, 12, 10)]]
    with shapes(smollm2) as seen, cells_read() as cells:
        together = decoded(smollm2, prompts, [], 4)
    steps = [rows for rows, columns, _ in seen if columns == 1]
    assert steps == [4] * (NEW - 1)
    layers = smollm2.model.config.num_hidden_layers
    assert sum(cells) == layers * sum(len(prompt) + new for prompt in prompts for new in range(1, NEW))
    for prompt, new in zip(prompts, together, strict=True):
        assert decoded(smollm2, [prompt], [], 1) == [new]


def test_what_all_prompts_start_with_goes_through_the_model_once(
    smollm2: LoadedModel, prompts: list[list[int]], eos: list[int], alone: list[list[int]]
) -> None:
    start = next(place for place, tokens in enumerate(zip(*prompts, strict=False)) if len(set(tokens)) > 1)
    assert start > 2 * SHARED, "the default system prompt of the chat template"
    with shapes(smollm2) as seen:
        assert decoded(smollm2, prompts, eos, 3) == alone
    assert seen[0] == (1, start, 0)
    assert all(cached == start for rows, columns, cached in seen[1:] if columns > 1)


@pytest.mark.parametrize("same", [SHARED - 1, SHARED])
def test_a_short_start_is_not_worth_it_and_a_whole_prompt_is_none(smollm2: LoadedModel, same: int) -> None:
    start = list(range(100, 100 + same))
    with shapes(smollm2) as seen:
        decoded(smollm2, [[*start, 200, 201, 202], [*start, 300], [*start, 200]], [2], 3)
    assert seen[0] == ((3, same + 3, 0) if same < SHARED else (1, same, 0))
    with shapes(smollm2) as seen:
        assert len(set(map(tuple, decoded(smollm2, [[*start, 200]] * 3, [2], 3)))) == 1
    assert seen[1] == ((3, 1, same) if same == SHARED else (3, 1, same + 1))


def test_keys_that_depend_on_the_length_of_what_is_read_are_not_shared() -> None:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=32, rope_parameters=rope, **shape)).eval()
    seen: list[int] = []
    model.register_forward_pre_hook(lambda _, args, given: seen.append(len(given["input_ids"])), with_kwargs=True)
    list(decode(model, [[*range(20), 3], [*range(20), 4]], DecodeConfig(1, [31], 0), BatchLimits(2)))
    assert seen == [2]


def test_a_token_budget_limits_prompt_and_reply_of_all_rows(
    smollm2: LoadedModel, prompts: list[list[int]], eos: list[int]
) -> None:
    budget = 2 * (len(prompts[0]) + NEW)
    with shapes(smollm2) as seen:
        groups = list(decode(smollm2.model, prompts, DecodeConfig(NEW, eos, 2), BatchLimits(8, budget)))
    new = [finished for group in groups for finished in group]
    assert len(new) == len(prompts)
    assert max(rows * (columns + cached) for rows, columns, cached in seen) <= budget
    assert seen[1][0] == 2


def test_one_token_needs_no_second_pass(smollm2: LoadedModel, prompts: list[list[int]]) -> None:
    with shapes(smollm2) as seen:
        first = list(decode(smollm2.model, prompts[:3], DecodeConfig(1, [2], 2), BatchLimits(3)))
    assert [rows for rows, *_ in seen] == [1, 3] and [len(new) for _, new in first[0]] == [1, 1, 1]


def test_new_tokens_are_written_behind_the_old_ones_without_a_copy(
    smollm2: LoadedModel, prompts: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def copying(*args: object, **kwargs: object) -> None:
        raise AssertionError("a plain layer grows by copying all it has")

    steps = decode(smollm2.model, prompts[:2], DecodeConfig(3, [2], 2), BatchLimits(2))
    update = DynamicLayer.update
    monkeypatch.setattr(
        DynamicLayer,
        "update",
        lambda layer, keys, *rest, **more: (copying if keys.shape[2] == 1 else update)(layer, keys, *rest, **more),
    )
    assert len(next(steps)) == 2


@pytest.mark.parametrize(("weight", "dtype"), [(float("nan"), torch.float32), (6e4, torch.float16)])
def test_logits_that_are_no_numbers_stop_the_model(weight: float, dtype: torch.dtype) -> None:
    """In float16 a large weight overflows to infinity; the replies of such a model were empty ones."""
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=32, tie_word_embeddings=False, **shape)).to(dtype).eval()
    config = DecodeConfig(4, [31], 0)
    assert len(next(decode(model, [[1, 2, 3]], config, BatchLimits(1)))) == 1
    torch.nn.init.constant_(model.model.norm.weight, 6e4 if dtype == torch.float16 else 1)
    torch.nn.init.constant_(model.lm_head.weight, weight)
    with pytest.raises(InputError, match="the logits of replies are nan or infinite in float"):
        list(decode(model, [[1, 2, 3]], config, BatchLimits(1)))
