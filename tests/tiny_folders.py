"""Tiny models with random weights in folders on disk: with a token for each letter, or with SmolLM2's words."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from slmsafety.models.gguf import from_package
from slmsafety.models.packages import SMOLLM2

_SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def write_tiny(folder: Path) -> Path:
    """Write the model's weights, config and tokenizer, whose end token is its first; its window is 48."""
    vocabulary = {token: index for index, token in enumerate(["<|end|>", "Ġ", *"abcdefghijklmnopqrstuvwxyz"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = {"bos_token_id": None, "eos_token_id": 0, "pad_token_id": 0}
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(vocabulary), max_position_embeddings=48, **special, **_SHAPE))
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>").save_pretrained(folder)
    return folder


def write_with_smollm2_words(folder: Path) -> Path:
    """Write a model of one layer with SmolLM2's tokenizer; its weights are big, so that no two tokens nearly tie."""
    tokenizer = AutoTokenizer.from_pretrained(from_package(SMOLLM2))
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=len(tokenizer), initializer_range=0.4, eos_token_id=2, pad_token_id=2, **sizes)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder
