"""Tiny models with recurrent caches, written like those of test_architectures."""

from __future__ import annotations

from typing import Any

RECURRENT: dict[str, tuple[str, dict[str, Any]]] = {
    "Mamba": ("mamba", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "intermediate_size": 64}),
    "Mamba 2": (
        "mamba2",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "state_size": 8,
            "num_heads": 4,
            "head_dim": 16,
            "n_groups": 1,
            "chunk_size": 8,
        },
    ),
    "Falcon Mamba": (
        "falcon_mamba",
        {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "intermediate_size": 64},
    ),
    "RecurrentGemma": (
        "recurrent_gemma",
        {
            "hidden_size": 32,
            "num_hidden_layers": 3,
            "intermediate_size": 96,
            "num_attention_heads": 4,
            "lru_width": 32,
            "attention_window_size": 8,
        },
    ),
    "RWKV": (
        "rwkv",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "context_length": 48,
            "attention_hidden_size": 32,
            "intermediate_size": 64,
        },
    ),
}
