"""Content hashes: what defines a piece of work becomes its id."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def content_id(definition: dict[str, Any]) -> str:
    """Return the 12 hex digits that identify a definition: the same content gives the same id, in any key order."""
    text = json.dumps(definition, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def text_id(text: str) -> str:
    """Return the 12 hex digits that identify a text (lone surrogates are allowed)."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes as 64 hex digits."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
