from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Zamba2Config

from slmsafety.errors import InputError
from slmsafety.generation.decoding import PREFILL, BatchLimits
from slmsafety.generation.memory import (
    cache_bytes,
    logit_bytes,
    prefill_bytes,
    token_budget,
    weight_bytes,
    within_memory,
)
from slmsafety.generation.settings import GenerationJob, GenerationSettings
from slmsafety.generation.transformers_engine import generate
from slmsafety.models.load import LoadedModel

pytestmark = pytest.mark.long

NEW = 4
TEXTS = [
    "Hi",
    "Name a colour.",
    "Say yes.",
    "What is a sea, and what is a lake?",
    "Count to two.",
    "Why?",
    "Go on, then.",
]
Limit = Callable[[int], list[tuple[int, int]]]


def run(loaded: LoadedModel, batch_size: int, max_batch_tokens: int | None = None) -> list[pd.DataFrame]:
    prompts = pd.DataFrame({"suite": "s", "instance_id": [f"q{i}" for i in range(len(TEXTS))], "prompt": TEXTS})
    job = GenerationJob(GenerationSettings(max_new_tokens=NEW), "m", "id")
    return list(generate(loaded, prompts, job, BatchLimits(batch_size, max_batch_tokens)))


@pytest.fixture
def memory(smollm2: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> Limit:
    """Let the model ask the real allocator for far too much where its cache gets more than so many tokens."""
    forward = smollm2.model.forward

    def limit(tokens: int) -> list[tuple[int, int]]:
        tried: list[tuple[int, int]] = []

        def limited(*args: Any, **kwargs: Any) -> Any:
            rows, columns = kwargs["input_ids"].shape
            columns += kwargs["cache"].get_seq_length()
            tried.append((rows, columns))
            if rows * columns > tokens:
                torch.empty(2**60, dtype=torch.uint8)
            return forward(*args, **kwargs)

        monkeypatch.setattr(smollm2.model, "forward", limited)
        return tried

    return limit


def sorted_rows(batches: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(batches).sort_values("instance_id", ignore_index=True)


def test_a_batch_that_does_not_fit_is_halved_until_it_does(smollm2: LoadedModel, memory: Limit) -> None:
    free = sorted_rows(run(smollm2, 7))
    widest = int(free["prompt_tokens"].max())
    tried = memory(2 * (widest + NEW))
    rows = sorted_rows(run(smollm2, 7))
    firsts = [rows for rows, columns in tried if columns == widest]
    assert firsts == [7, 3, 1]
    assert rows.equals(free), "meta too: a row does not tell which batch held it"


def test_the_tokens_that_fitted_limit_the_batches_after_it(smollm2: LoadedModel, memory: Limit) -> None:
    widest = int(sorted_rows(run(smollm2, 7))["prompt_tokens"].max())
    tried = memory(4 * (widest + NEW))
    assert [len(batch) for batch in run(smollm2, 7)] == [3, 4], "shorter prompts: four fit where three were tried"
    assert [rows for rows, columns in tried if columns == widest][:2] == [7, 3]


def test_what_had_not_finished_when_memory_ran_out_is_done_again(
    smollm2: LoadedModel, memory: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = sorted_rows(run(smollm2, 7))
    widest = int(free["prompt_tokens"].max())
    tried = memory(7 * widest + 7)  # the prompts fit, and one new token a row
    batches = run(smollm2, 7)
    assert (7, widest + 1) in tried and (7, widest + 2) in tried and (7, widest + 3) not in tried
    assert sum(map(len, batches)) == 7 and sorted_rows(batches).equals(free)


def test_a_prompt_that_does_not_fit_alone_is_named(smollm2: LoadedModel, memory: Limit) -> None:
    widest = int(sorted_rows(run(smollm2, 7))["prompt_tokens"].max())
    tried = memory(widest - 1)
    with pytest.raises(InputError, match=r"^s q3: \d+ tokens of prompt and response do not fit into memory$"):
        run(smollm2, 2)
    assert [rows for rows, columns in tried if columns == widest] == [2, 1]


def test_what_torch_says_on_a_gpu_counts_and_other_errors_do_not() -> None:
    def fails(error: RuntimeError) -> Callable[[], None]:
        def work() -> None:
            raise error

        return work

    assert within_memory(lambda: 3) == 3
    assert within_memory(fails(torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))) is None
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        within_memory(lambda: torch.ones(2, 3) @ torch.ones(2, 3))


def test_cache_and_weights_of_a_small_configuration_are_those_by_hand() -> None:
    shape = {
        "vocab_size": 50,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 8,
        "head_dim": 16,
    }
    for groups, keys_and_values in ((8, 3 * 2 * 8 * 16), (2, 3 * 2 * 2 * 16), (1, 3 * 2 * 1 * 16)):  # MHA, GQA, MQA
        config = LlamaConfig(**shape, num_key_value_heads=groups, tie_word_embeddings=True)
        model = AutoModelForCausalLM.from_config(config).eval()
        assert cache_bytes(model) == (4 * keys_and_values, 0, 3)
        attention = 32 * 16 * (8 + 2 * groups + 8)
        rotary = 2 * 8  # inverse frequencies of half a head, and their original
        assert weight_bytes(model) == 4 * (50 * 32 + 3 * (attention + 3 * 32 * 48 + 2 * 32) + 32 + rotary)
        assert cache_bytes(model.to(torch.bfloat16)).token == 2 * keys_and_values
        assert logit_bytes(model) == 50 * (2 + 8)


def test_layers_without_keys_count_by_the_row() -> None:
    config = Zamba2Config(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=4,
        num_attention_heads=4,
        layers_block_type=["mamba", "hybrid", "mamba", "hybrid"],
        num_mem_blocks=1,
        mamba_d_state=8,
        mamba_d_conv=4,
        mamba_expand=2,
        mamba_ngroups=1,
        n_mamba_heads=4,
        mamba_headdim=16,
        adapter_rank=4,
    )
    convolution, state = (64 + 2 * 8) * 4, 4 * 16 * 8
    attention = 2 * 2 * 64  # two hybrid layers: keys and values, of twice the hidden size
    cached = cache_bytes(AutoModelForCausalLM.from_config(config).eval())
    assert cached == (4 * attention, 4 * 4 * (convolution + state), 4)


def test_eager_attention_is_given_room_for_its_scores(smollm2: LoadedModel) -> None:
    lean = prefill_bytes(smollm2.model)
    smollm2.model.set_attn_implementation("eager")
    try:
        assert prefill_bytes(smollm2.model) - lean == 9 * PREFILL**2 * 12
    finally:
        smollm2.model.set_attn_implementation("sdpa")


def test_a_budget_grows_by_the_cache_and_one_that_is_too_small_is_refused(smollm2: LoadedModel) -> None:
    cached = cache_bytes(smollm2.model)
    assert cached == (30 * 2 * 3 * 64 * 4, 0, 30)
    few, more = (token_budget(smollm2, memory_gb, 8) for memory_gb in (2.0, 3.0))
    assert more - few == pytest.approx(1e9 / (cached.token * 1.1), abs=1)
    with pytest.raises(InputError, match=r"^memory_gb 1: the model and 8 rows need 1\.\d\d GB without any prompt; "):
        token_budget(smollm2, 1.0, 8)


def test_a_prompt_over_the_budget_is_named(smollm2: LoadedModel) -> None:
    with pytest.raises(InputError, match=r"^s q3: \d+ tokens of prompt and response do not fit into memory$"):
        run(smollm2, 7, max_batch_tokens=40)


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux reports it")
def test_memory_stays_under_the_budget_and_more_of_it_makes_larger_batches() -> None:
    small, large = budgeted(1.4), budgeted(1.45)
    assert small["peak_gb"] < 1.4 and large["peak_gb"] < 1.45
    assert 1 < small["largest"] < large["largest"] < 12
    assert small["texts"] == large["texts"]


def budgeted(memory_gb: float) -> dict[str, Any]:
    """Generate with real weights in a process of its own, whose peak is then known."""
    command = [sys.executable, "-c", BUDGETED, str(memory_gb)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


BUDGETED = """
import gc, json, re, sys
from pathlib import Path

import pandas as pd
import torch

from slmsafety.generation.memory import token_budget
from slmsafety.generation.decoding import BatchLimits
from slmsafety.generation.settings import GenerationJob, GenerationSettings
from slmsafety.generation.transformers_engine import generate
from slmsafety.models.cards import card
from slmsafety.models.load import load_causal_lm

torch.set_num_threads(1)
loaded = load_causal_lm(card("smollm2-135m-it-q4").source)
# While weights are read, the pages of their file count as well; the peak from here on is that of generation.
gc.collect()
Path("/proc/self/clear_refs").write_text("5")
tokens = token_budget(loaded, float(sys.argv[1]), 64)
texts = [f"Say {row}. " + "It is so. " * 40 for row in range(12)]
prompts = pd.DataFrame({"suite": "s", "instance_id": [f"q{row:02}" for row in range(12)], "prompt": texts})
rows = []
loaded.model.register_forward_pre_hook(lambda _, args, given: rows.append(len(given["input_ids"])), with_kwargs=True)
job = GenerationJob(GenerationSettings(max_new_tokens=2), "m", "id")
replies = pd.concat(generate(loaded, prompts, job, BatchLimits(64, tokens)))
print(json.dumps({
    "peak_gb": int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024 / 1e9,
    "largest": max(rows),
    "texts": replies.sort_values("instance_id")["response"].tolist(),
}))
"""
