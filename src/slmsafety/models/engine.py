"""The engine that runs weights in this process, as ids name it: another version may give other texts or logits."""

from __future__ import annotations

import importlib.metadata


def transformers_engine() -> str:
    """Return the engine's name and version, such as "transformers 5.24.0"."""
    return f"transformers {importlib.metadata.version('transformers')}"
