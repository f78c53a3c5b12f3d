"""A tiny model with random weights and a token for each letter, in a folder on disk."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

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
