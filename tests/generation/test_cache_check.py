"""Every model is held against plain forward passes before its first batch; recurrent ones go one prompt at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from recurrent_models import RECURRENT
from test_architectures import END, FAMILIES, TEXTS, by_hand, replies, reply, write_tiny
from torch import nn

from slmsafety.errors import InputError
from slmsafety.generation.cache_check import checked_decoder
from slmsafety.generation.decoding import BatchLimits, DecodeConfig, decode
from slmsafety.generation.memory import token_budget
from slmsafety.generation.one_by_one import decode_alone
from slmsafety.generation.settings import GenerationJob, GenerationSettings
from slmsafety.generation.transformers_engine import generate
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.outline import read_outline
from slmsafety.models.source import Source


def tiny(folder: Path, name: str, dtype: str = "float32") -> LoadedModel:
    return load_causal_lm(Source(folder=write_tiny(folder / "model", *{**FAMILIES, **RECURRENT}[name])), dtype=dtype)


@pytest.mark.parametrize("name", RECURRENT)
def test_a_recurrent_model_gives_its_own_replies_one_prompt_at_a_time(name: str, tmp_path: Path) -> None:
    loaded = tiny(tmp_path, name)
    checked = checked_decoder(loaded)
    assert checked.alone and checked.decode is decode_alone
    ids = [f"q{i}" for i in range(len(TEXTS))]
    prompts = pd.DataFrame({"suite": "tiny", "instance_id": ids, "prompt": TEXTS})
    job = GenerationJob(GenerationSettings(max_new_tokens=12), "m", "id")
    loaded.tokenizer.model_max_length = 64
    rows = pd.concat(list(generate(loaded, prompts, job, BatchLimits(1), checked.decode)))
    rows = rows.sort_values("instance_id", ignore_index=True)
    assert replies(rows) == [reply(loaded, by_hand(loaded, text), {END}) for text in TEXTS]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", ["GPT-2", "Gemma 3", "SmolLM2", "Zamba2"])
def test_models_with_keys_for_each_token_stay_in_batches(name: str, dtype: str, tmp_path: Path) -> None:
    assert checked_decoder(tiny(tmp_path, name, dtype)) == (decode, False)


def test_a_window_under_a_name_of_its_own_is_kept(tmp_path: Path) -> None:
    shape = {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 48, "expansion_ratio": 2}
    loaded = load_causal_lm(Source(folder=write_tiny(tmp_path / "model", "mpt", shape)))
    assert loaded.context_length == read_outline(Source(folder=tmp_path / "model")).context_length == 48
    assert not checked_decoder(loaded).alone


@pytest.mark.parametrize("name", RECURRENT)
def test_a_budget_of_memory_knows_caches_without_tokens(name: str, tmp_path: Path) -> None:
    assert token_budget(tiny(tmp_path, name), 1.0, 1) is None
    with pytest.raises(InputError, match=r"memory_gb 0\.1: the model and 1 rows need"):
        token_budget(tiny(tmp_path / "again", name), 0.1, 1)


def broken(loaded: LoadedModel, change: Any) -> None:
    """Change the logits wherever the model works with a cache, as a wrong cache does."""

    def hook(_: nn.Module, __: Any, kwargs: dict[str, Any], output: Any) -> None:
        if kwargs.get("use_cache") is not False and output.get("cache") is not None:
            change(kwargs, output)

    loaded.model.register_forward_hook(hook, with_kwargs=True)


def test_a_cache_that_is_wrong_in_batches_only_is_found(tmp_path: Path) -> None:
    loaded = tiny(tmp_path, "Llama")

    def change(kwargs: dict[str, Any], output: Any) -> None:
        if len(output.logits) > 1:
            output.logits[-1] = output.logits[0]  # a row answers for another

    broken(loaded, change)
    assert checked_decoder(loaded).alone


def test_a_row_that_joins_in_the_wrong_place_is_found(tmp_path: Path) -> None:
    loaded = tiny(tmp_path, "Llama")

    def change(kwargs: dict[str, Any], output: Any) -> None:
        if len(output.logits) == 2:  # only once a row has left and another has joined
            output.logits[:] = output.logits.flip(0)

    broken(loaded, change)
    assert checked_decoder(loaded).alone


def test_a_start_that_goes_wrong_by_itself_is_found(tmp_path: Path) -> None:
    loaded = tiny(tmp_path, "Llama")

    def change(kwargs: dict[str, Any], output: Any) -> None:
        if kwargs["input_ids"].shape[1] > 1 and output.cache.get_seq_length() > kwargs["input_ids"].shape[1]:
            output.logits[:] = output.logits.flip(-1)  # prompts that follow on a start

    broken(loaded, change)
    assert checked_decoder(loaded).alone


def test_a_cache_that_is_wrong_for_single_prompts_too_is_refused_by_name(tmp_path: Path) -> None:
    loaded = tiny(tmp_path, "Llama")

    def change(kwargs: dict[str, Any], output: Any) -> None:
        output.logits *= -1

    broken(loaded, change)
    with pytest.raises(InputError, match=r"model type llama: its replies with a cache are not those of plain forward"):
        checked_decoder(loaded)


def test_an_architecture_that_fails_with_a_cache_is_refused_by_name(tmp_path: Path) -> None:
    loaded = tiny(tmp_path, "Llama")

    def change(kwargs: dict[str, Any], output: Any) -> None:
        raise ValueError("state has the wrong shape\nand more")

    broken(loaded, change)
    with pytest.raises(InputError, match=r"one prompt at a time: ValueError: state has the wrong shape\)"):
        checked_decoder(loaded)


def test_memory_that_runs_out_says_nothing_of_the_cache(tmp_path: Path) -> None:
    loaded = tiny(tmp_path, "Llama")

    def change(kwargs: dict[str, Any], output: Any) -> None:
        raise RuntimeError("CUDA out of memory")

    broken(loaded, change)
    with pytest.raises(RuntimeError, match="out of memory"):
        checked_decoder(loaded)


def test_logits_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    loaded = tiny(tmp_path, "Llama")

    def change(kwargs: dict[str, Any], output: Any) -> None:
        output.logits *= float("nan")

    broken(loaded, change)
    with pytest.raises(InputError, match="logits of replies are nan or infinite in float32"):
        checked_decoder(loaded)


def test_a_near_tie_that_rounding_decides_is_no_mistake(tmp_path: Path) -> None:
    """A share of a thousandth of the best token's lead is what other batches may change; much more is another reply."""
    for size, alone in ((1e-5, False), (0.5, True)):
        loaded = tiny(tmp_path / str(size), "Llama")

        def change(kwargs: dict[str, Any], output: Any, size: float = size) -> None:
            if len(output.logits) > 1:  # the second best token is a little better in a batch
                best = output.logits.topk(2)
                gap = best.values[..., :1] - best.values[..., 1:]
                lead = best.values[..., :1] - output.logits.mean(-1, keepdim=True)
                output.logits.scatter_add_(-1, best.indices[..., 1:], torch.where(gap < size * lead, 2 * gap, 0 * gap))

        broken(loaded, change)
        assert checked_decoder(loaded).alone is alone


def test_prompts_alone_end_like_those_in_batches(tmp_path: Path) -> None:
    loaded = tiny(tmp_path, "Llama")
    prompts = [loaded.tokenizer.encode(text) for text in TEXTS]
    config = DecodeConfig(12, [], END)

    def rows(lists: Iterator[list[tuple[int, list[int]]]]) -> dict[int, list[int]]:
        return dict(row for finished in lists for row in finished)

    whole = rows(decode(loaded.model, prompts, config, BatchLimits(3)))
    assert rows(decode_alone(loaded.model, prompts, config, BatchLimits(3))) == whole
    ending = config._replace(eos_token_ids=[whole[1][3]])
    ended = rows(decode_alone(loaded.model, prompts, ending, BatchLimits(3)))
    assert ended == rows(decode(loaded.model, prompts, ending, BatchLimits(3)))
    assert len(ended[1]) < 12
