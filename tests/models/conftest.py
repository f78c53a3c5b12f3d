from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter, TokenType
from transformers.convert_slow_tokenizer import bytes_to_unicode

END = "<|end|>"


Shapes = dict[str, tuple[int, ...] | None]


def write_tiny_gguf(path: Path, pre: str = "smollm", **changed: Any) -> Path:
    """Write a Llama of one layer with random weights and a token per byte: small, but a GGUF like any other.

    `shapes` in `changed` gives tensors other shapes, adds some, or leaves some out (None).
    """
    tokens = [END, *bytes_to_unicode().values(), "ab"]
    hidden, ffn, context = 32, 64, 128
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(hidden)
    writer.add_block_count(1)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL, *[TokenType.NORMAL] * (len(tokens) - 1)])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(0)
    rng = np.random.default_rng(0)
    shapes = {
        "token_embd": (len(tokens), hidden),
        "output": (len(tokens), hidden),
        "output_norm": (hidden,),
        "blk.0.attn_norm": (hidden,),
        "blk.0.ffn_norm": (hidden,),
        "blk.0.attn_q": (hidden, hidden),
        "blk.0.attn_k": (hidden // 2, hidden),
        "blk.0.attn_v": (hidden // 2, hidden),
        "blk.0.attn_output": (hidden, hidden),
        "blk.0.ffn_gate": (ffn, hidden),
        "blk.0.ffn_up": (ffn, hidden),
        "blk.0.ffn_down": (hidden, ffn),
    }
    other: Shapes = changed.get("shapes", {})
    for name, shape in {**shapes, **other}.items():
        if shape is not None:
            writer.add_tensor(f"{name}.weight", rng.standard_normal(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def tiny_writer() -> Callable[..., Path]:
    return write_tiny_gguf


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    monkeypatch.setenv("SLMSAFETY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
