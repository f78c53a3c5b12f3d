"""Tiny models with random weights and vocabularies of words, as folders on disk, and what can be done to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from slmsafety.models.load import LoadedModel

# Id 0 is a word, as in vocabularies without special tokens.
WORDS = ["tea", "is", "the", "sun", "rises", "late", "safe", "unsafe", "yes", "no", "a", "bee", "?", "?2", "?3", "end"]
SHAPE: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
}
Weights = dict[str, torch.Tensor]


def word_tokenizer(**special: Any) -> PreTrainedTokenizerFast:
    """A token for each of `WORDS`, split at spaces; no special token unless one is given."""
    vocabulary = {word: place for place, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def write_model(
    folder: Path, model_type: str = "llama", scale: float = 0.3, tokenizer: Any = None, **shape: Any
) -> Path:
    """Write a causal LM whose weight matrices have this standard deviation, with a tokenizer, as a folder."""
    none: dict[str, Any] = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    config = AutoConfig.for_model(model_type, vocab_size=len(WORDS), **none, **(shape or SHAPE))
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, scale)
    model.save_pretrained(folder)
    (tokenizer or word_tokenizer()).save_pretrained(folder)
    return folder


def tiny_llama(tokenizer: PreTrainedTokenizerFast, window: int = 2048) -> LoadedModel:
    """A Llama of one layer that reads the tokens of a tokenizer, in memory."""
    tokenizer.model_max_length = window
    shape = {**SHAPE, "num_hidden_layers": 1, "max_position_embeddings": window, "vocab_size": len(tokenizer)}
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(bos_token_id=None, eos_token_id=None, pad_token_id=None, **shape))
    return LoadedModel(model.eval(), tokenizer, "random", "float32")


def write_encoder(folder: Path, **special: str) -> Path:
    """Write a BERT of two layers with the mean over its tokens, as a folder of sentence-transformers' own form."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=32,
        initializer_range=0.3,
    )
    bare = folder.with_name(f"{folder.name}-bare")
    BertModel(config).save_pretrained(bare)
    word_tokenizer(unk_token="?", model_max_length=32, **special).save_pretrained(bare)
    SentenceTransformer(modules=[Transformer(str(bare)), Pooling(16)]).save(str(folder))
    return folder


def change_weights(folder: Path, change: Callable[[Weights], None]) -> Path:
    """Change the weights of a folder's safetensors by name."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file({name: weight.contiguous() for name, weight in weights.items()}, path, metadata={"format": "pt"})
    return folder


def change_json(path: Path, **values: Any) -> None:
    """Set keys of a JSON file; None removes one."""
    found = json.loads(path.read_text()) if path.exists() else {}
    kept = {key: value for key, value in {**found, **values}.items() if value is not None}
    path.write_text(json.dumps(kept))


def overflow(weights: Weights) -> None:
    """Make the weights so large that float16 overflows on the way, while float32 does not."""
    for name, weight in weights.items():
        if weight.ndim > 1:
            weights[name] = weight * 3000
