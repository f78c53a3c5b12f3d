from __future__ import annotations

import copy
import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_models import change_weights, overflow, word_tokenizer, write_model

from slmsafety.errors import InputError
from slmsafety.metrics import fluency
from slmsafety.metrics.fluency import perplexities
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.source import Source

WINDOW = 32
WORDS = ["bee", "scent", "sun", "rain", "hive", "wax", "day"]
TEXTS = [
    "Bees find flowers by their scent and colour, and tell others of them.",
    "A",
    "",
    "Hello world",
    "def double(x):\n    return 2 * x",
    "Привет, мир! 你好 \U0001f600",
    "\n\n",
]


def loop(text: str, loaded: LoadedModel, window: int) -> float:
    """Perplexity token by token, each from a pass of its own over what its window lets it see."""
    ids: Any = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
    total = 0.0
    for place in range(1, len(ids)):
        begins = 0
        while place >= begins + window:
            begins += window // 2
        with torch.no_grad():
            logits = loaded.model(torch.tensor([ids[begins:place]])).logits[0, -1].double()
        total -= torch.log_softmax(logits, -1)[ids[place]].item()
    return math.exp(total / (len(ids) - 1)) if len(ids) > 1 else math.nan


def test_it_is_what_an_unbatched_loop_gives(tiny_gpt2: LoadedModel) -> None:
    made = perplexities(TEXTS, tiny_gpt2)
    assert [each.tokens for each in made][1:4] == [1, 0, 2]
    assert [each.perplexity for each in made] == pytest.approx(
        [loop(text, tiny_gpt2, WINDOW) for text in TEXTS], rel=1e-4, nan_ok=True
    )
    assert [math.isnan(each.perplexity) for each in made] == [False, True, True, False, False, False, True]
    assert perplexities([], tiny_gpt2) == []


@pytest.mark.parametrize("words", [31, 32, 33, 47, 48, 49, 64, 100])
def test_a_text_beyond_the_window_is_read_in_strides(tiny_gpt2: LoadedModel, words: int) -> None:
    text = "".join(f" {WORDS[n * n % 7]}" for n in range(words))
    (made,) = perplexities([text], tiny_gpt2)
    assert made.tokens == words
    assert made.perplexity == pytest.approx(loop(text, tiny_gpt2, WINDOW), rel=1e-4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=90), min_size=1, max_size=6))
def test_batched_equals_single(tiny_gpt2: LoadedModel, texts: list[str]) -> None:
    for together, text in zip(perplexities(texts, tiny_gpt2), texts, strict=True):
        (alone,) = perplexities([text], tiny_gpt2)
        assert together.tokens == alone.tokens
        assert together.perplexity == pytest.approx(alone.perplexity, rel=1e-4, nan_ok=True)


def test_a_batch_keeps_to_its_memory(tiny_gpt2: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    forward = tiny_gpt2.model.forward

    def watched(*args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["input_ids"].numel())
        return forward(*args, **kwargs)

    texts = [" one" * n for n in (3, 20, 100, 7, 1, 31)]
    whole = perplexities(texts, tiny_gpt2)
    monkeypatch.setattr(fluency, "MAX_LOGIT_BYTES", {"cpu": 64 * 4 * 50257})
    monkeypatch.setattr(tiny_gpt2.model, "forward", watched)
    assert [each.perplexity for each in perplexities(texts, tiny_gpt2)] == pytest.approx(
        [each.perplexity for each in whole], rel=1e-5, nan_ok=True
    )
    assert max(seen) <= 64
    assert len(seen) > 2


def test_a_hundred_kilobytes_of_one_letter(tiny_gpt2: LoadedModel) -> None:
    (made,) = perplexities(["o" * 100_000], tiny_gpt2)
    assert made.tokens > 1000
    assert 1 <= made.perplexity < 1e6


def test_a_lone_surrogate_reads_as_the_replacement_character(tiny_gpt2: LoadedModel) -> None:
    first, second = perplexities(["one \ud800 two", "one \ufffd two"], tiny_gpt2)
    assert first == second
    assert first.tokens > 2


def test_replies_of_others_by_the_real_model(smollm2: LoadedModel, data: Path) -> None:
    with (data / "responses/xstest/xstest_v2_completions_gpt4_gpteval.csv").open(encoding="utf-8", newline="") as file:
        texts = sorted((row["completion"] for row in csv.DictReader(file)), key=len)[40:64:4]
    expected = []
    for text in texts:
        ids: Any = torch.tensor([smollm2.tokenizer(text, add_special_tokens=False)["input_ids"]])
        with torch.no_grad():
            loss = smollm2.model(ids, labels=ids).loss.item()  # the mean over the tokens after the first
        expected.append(math.exp(loss))
    assert [each.perplexity for each in perplexities(texts, smollm2)] == pytest.approx(expected, rel=1e-4)


def test_losses_that_are_no_numbers_are_refused(tiny_gpt2: LoadedModel) -> None:
    broken = replace(tiny_gpt2, model=copy.deepcopy(tiny_gpt2.model))
    torch.nn.init.constant_(broken.model.transformer.ln_f.weight, float("nan"))
    with pytest.raises(InputError, match="the losses behind perplexity are nan or infinite in float32"):
        perplexities(["Two words."], broken)


WORD_TEXTS = ["tea tea", "the sun rises", "is the bee late the sun is late the tea is late", "a bee", "tea", ""]


def test_a_vocabulary_whose_first_id_is_a_word_and_that_has_no_special_token(tmp_path: Path) -> None:
    loaded = load_causal_lm(Source(folder=write_model(tmp_path / "words")))
    together = [each.perplexity for each in perplexities(WORD_TEXTS, loaded)]
    alone = [perplexities([text], loaded)[0].perplexity for text in WORD_TEXTS]
    assert together == pytest.approx(alone, rel=1e-5, nan_ok=True)
    assert together[:4] == pytest.approx([loop(text, loaded, 64) for text in WORD_TEXTS[:4]], rel=1e-4)


def test_losses_beyond_float16_and_perplexities_beyond_any_number(tmp_path: Path) -> None:
    folder = change_weights(write_model(tmp_path / "words"), overflow)
    with pytest.raises(InputError, match=rf"^folder {folder}: the losses behind perplexity are nan or .* in float16"):
        perplexities(WORD_TEXTS, load_causal_lm(Source(folder=folder), dtype="float16"))
    with pytest.raises(InputError, match=rf"^folder {folder}: the mean loss of a text is \d+ nats a token"):
        perplexities(WORD_TEXTS, load_causal_lm(Source(folder=folder)))


def test_a_text_with_a_token_that_the_model_cannot_read_is_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "words", tokenizer=word_tokenizer(pad_token="[PAD]"))
    with pytest.raises(InputError, match=r"a text holds the token '\[PAD\]' \(16\)"):
        perplexities(["the [PAD] sun"], load_causal_lm(Source(folder=folder)))
