"""Every architecture family of the 26, with tiny random weights, from a folder on disk through the engine.

The reference is the argmax of a plain forward pass: one prompt, one token after the other, no cache, no padding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from slmsafety.generation.decoding import BatchLimits
from slmsafety.generation.settings import GenerationJob, GenerationSettings
from slmsafety.generation.transformers_engine import generate
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.source import Source

WINDOW, NEW = 48, 12
LETTERS = "abcdefghijklmnopqrstuvwxyz"
END = 0
TEXTS = ["a", "so it is", "the longest of them all by far", "red blue", "count to ten", "xyz", "the end of the line"]
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": WINDOW,
}
GROUPED = {**SHAPE, "num_key_value_heads": 2}
# Untied, against the real ones: tied random embeddings repeat the last letter for ever.
GEMMA = {
    **GROUPED,
    "head_dim": 8,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention"],
    "tie_word_embeddings": False,
}
# Model type, and what makes it tiny and like its real one; sliding windows are shorter than a prompt.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT-2": ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": WINDOW}),
    "OPT": ("opt", {**SHAPE, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "OPT-350M": ("opt", {**SHAPE, "ffn_dim": 48, "word_embed_proj_dim": 16, "do_layer_norm_before": False}),
    "Llama": ("llama", GROUPED),
    "danube (Mistral)": ("mistral", {**GROUPED, "head_dim": 8, "sliding_window": 8}),
    "Gemma 2": ("gemma2", GEMMA),
    "Gemma 3": ("gemma3_text", GEMMA),
    "Qwen2": ("qwen2", GROUPED),
    "OLMo 2": ("olmo2", SHAPE),
    "StableLM": ("stablelm", {**SHAPE, "num_key_value_heads": 4, "partial_rotary_factor": 0.25}),
    "Dolly (GPT-NeoX)": ("gpt_neox", {**SHAPE, "rotary_pct": 0.25}),
    "SmolLM2": ("llama", {**GROUPED, "num_attention_heads": 3, "hidden_size": 24, "num_key_value_heads": 1}),
    "MobileLLM": ("mobilellm", GROUPED),
    "MobileLLM's Llama-shaped twin": ("llama", {**GROUPED, "num_hidden_layers": 6, "tie_word_embeddings": True}),
    "Zamba2": (
        "zamba2",
        {
            **SHAPE,
            "num_hidden_layers": 4,
            "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
            "hybrid_layer_ids": [1, 3],
            "num_mem_blocks": 1,
            "mamba_d_state": 8,
            "n_mamba_heads": 4,
            "mamba_headdim": 16,
            "chunk_size": 8,
            "adapter_rank": 4,
        },
    ),
}


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A token per letter, so that a text and its tokens say the same."""
    vocabulary = {token: index for index, token in enumerate(["<|endoftext|>", "Ġ", *LETTERS])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")


def write_tiny(folder: Path, model_type: str, shape: dict[str, Any]) -> Path:
    tokenizer = tiny_tokenizer()
    special = {"bos_token_id": None, "eos_token_id": END, "pad_token_id": END}
    config = AutoConfig.for_model(model_type, vocab_size=len(tokenizer), **special, **shape)
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():  # the usual small weights make every reply one letter over and over
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    model_type, shape = FAMILIES[request.param]
    if model_type not in CONFIG_MAPPING:
        pytest.skip(f"{request.param}: transformers has no model type {model_type}; its Llama-shaped twin stands in")
    folder = write_tiny(tmp_path_factory.mktemp(model_type) / "model", model_type, shape)
    return load_causal_lm(Source(folder=folder))


def run(loaded: LoadedModel, texts: list[str], batch_size: int) -> pd.DataFrame:
    ids = [f"q{i}" for i in range(len(texts))]
    prompts = pd.DataFrame({"suite": "tiny", "instance_id": ids, "prompt": texts})
    job = GenerationJob(GenerationSettings(max_new_tokens=NEW), "m", "id")
    batches = generate(loaded, prompts, job, BatchLimits(batch_size))
    return pd.concat(list(batches)).sort_values("instance_id", ignore_index=True)


def by_hand(loaded: LoadedModel, text: str) -> list[int]:
    ids = loaded.tokenizer.encode(text)
    with torch.inference_mode():
        for _ in range(NEW):
            ids.append(int(loaded.model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return ids[-NEW:]


def reply(loaded: LoadedModel, new: list[int], ends: set[int]) -> tuple[str, int, str]:
    """What the engine should make of the reference's tokens: text, number of tokens, finish reason."""
    count = min((new.index(end) for end in ends if end in new), default=NEW)
    text = str(loaded.tokenizer.decode(new[:count]))
    return text, count, "empty" if not text.strip() else "stop" if count < NEW else "length"


def reasons(loaded: LoadedModel, reference: list[list[int]], end: int) -> set[str]:
    return {reply(loaded, new, {END, end})[2] for new in reference}


def replies(rows: pd.DataFrame) -> list[tuple[str, int, str]]:
    return list(rows[["response", "output_tokens", "finish_reason"]].itertuples(index=False, name=None))


@pytest.fixture(scope="module")
def reference(family: LoadedModel) -> list[list[int]]:
    return [by_hand(family, text) for text in TEXTS]


def test_replies_are_those_of_a_plain_forward_pass(family: LoadedModel, reference: list[list[int]]) -> None:
    assert len({tuple(new) for new in reference}) == len(TEXTS)  # the prompts matter
    for batch_size in (1, 3, len(TEXTS)):
        assert replies(run(family, TEXTS, batch_size)) == [reply(family, new, {END}) for new in reference]


def test_a_start_that_all_prompts_share_changes_no_reply(family: LoadedModel) -> None:
    texts = [f"let us say {text[:20]}" for text in TEXTS]  # the shortest rest is a letter, the longest twenty
    wanted = [reply(family, by_hand(family, text), {END}) for text in texts]
    assert len(set(wanted)) > len(texts) // 2
    for batch_size in (1, 3, len(texts)):
        assert replies(run(family, texts, batch_size)) == wanted


def test_an_end_token_ends_a_reply_and_its_row_leaves_the_batch(
    family: LoadedModel, reference: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [token for new in reference for token in new]
    end = next(token for token in said if {"stop", "length"} <= reasons(family, reference, token))
    monkeypatch.setattr(family.model.generation_config, "eos_token_id", end)
    sizes: list[int] = []
    hook = family.model.register_forward_pre_hook(
        lambda _, args, kwargs: sizes.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    rows = run(family, TEXTS, len(TEXTS))
    hook.remove()
    wanted = [reply(family, new, {END, end}) for new in reference]
    assert replies(rows) == wanted
    assert sizes[0] == len(TEXTS) and sizes[-1] < len(TEXTS) and sizes == sorted(sizes, reverse=True)
    assert replies(run(family, TEXTS, 2)) == wanted


def test_an_end_token_at_once_is_an_empty_reply(
    family: LoadedModel, reference: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(family.model.generation_config, "eos_token_id", reference[2][0])
    rows = run(family, TEXTS, len(TEXTS))
    assert replies(rows)[2] == ("", 0, "empty")
    assert replies(rows) == [reply(family, new, {END, reference[2][0]}) for new in reference]


def test_a_prompt_longer_than_the_window_loses_its_start(family: LoadedModel) -> None:
    text = LETTERS + LETTERS[::-1]
    rows = run(family, [text, "a"], 2)
    assert rows["prompt_truncated"].tolist() == [True, False]
    assert rows["prompt_tokens"].tolist() == [WINDOW - NEW, 1]
    assert replies(rows)[0] == reply(family, by_hand(family, text[NEW - WINDOW :]), {END})
