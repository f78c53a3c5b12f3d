from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch

from slmsafety.errors import InputError
from slmsafety.generation.memory import within_memory
from slmsafety.generation.settings import GenerationSettings
from slmsafety.generation.transformers_engine import generate
from slmsafety.models.load import LoadedModel

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


def run(loaded: LoadedModel, batch_size: int) -> list[pd.DataFrame]:
    prompts = pd.DataFrame({"suite": "s", "instance_id": [f"q{i}" for i in range(len(TEXTS))], "prompt": TEXTS})
    return list(generate(loaded, prompts, GenerationSettings(max_new_tokens=NEW), "m", "id", batch_size))


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
    assert [rows for rows, columns in tried][:2] == [7, 3]


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
    tried = memory(NEW)
    with pytest.raises(InputError, match=r"^s q3: \d+ tokens of prompt and response do not fit into memory$"):
        run(smollm2, 2)
    assert [rows for rows, _ in tried] == [2, 1]


def test_what_torch_says_on_a_gpu_counts_and_other_errors_do_not() -> None:
    def fails(error: RuntimeError) -> Callable[[], None]:
        def work() -> None:
            raise error

        return work

    assert within_memory(lambda: 3) == 3
    assert within_memory(fails(torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))) is None
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        within_memory(lambda: torch.ones(2, 3) @ torch.ones(2, 3))
