"""Where a model comes from, and the identity of its weights."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from slmsafety.errors import InputError
from slmsafety.models.packages import package
from slmsafety.records.ids import file_sha256

# Raise it when models.gguf would write other weights or another tokenizer for the same file.
DEQUANTISER = 1


class Source(BaseModel):
    """Exactly one of: an installed package, a folder in the Hugging Face format, a GGUF file, a hub id.

    `revision` (a branch, tag or commit) belongs to a hub id; without it the hub's current one is taken and recorded.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    package: str | None = None
    folder: Path | None = None
    gguf: Path | None = None
    hub: str | None = None
    revision: str | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Source:
        kinds = ("package", "folder", "gguf", "hub")
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1:
            raise InputError(
                f"a model source needs exactly one of {', '.join(kinds)}; got {', '.join(given) or 'none'}"
            )
        if self.revision is not None and self.hub is None:
            raise InputError(f"revision '{self.revision}' belongs to a hub id; this source is a {given[0]}")
        if self.package is not None:
            package(self.package)
        return self

    def definition(self) -> dict[str, Any]:
        """Return what defines the weights: the bytes of a file or folder, or the hub id and the revision asked for.

        Nothing is loaded and the hub is not asked. Raises InputError when a file or folder is not there.
        """
        if self.hub is not None:
            return {"hub": self.hub, "revision": self.revision}
        if self.folder is not None:
            return {"folder_sha256": folder_sha256(self.folder)}
        sha256 = package(self.package).sha256 if self.package is not None else _gguf_sha256(self.gguf)
        return {"gguf_sha256": sha256, "dequantiser": DEQUANTISER}

    def __str__(self) -> str:
        """Return the source as an error names it, such as 'hub ID, revision main'."""
        values: dict[str, Any] = self.model_dump(exclude_none=True)
        return ", ".join(f"{key} {value}" for key, value in values.items())


def hub_commit(hub: str, revision: str | None) -> str:
    """Return the commit that a hub id and revision stand for now (offline: in the local hub cache)."""
    from transformers.utils.hub import cached_file, extract_commit_hash

    try:
        path = cached_file(hub, "config.json", revision=revision)
    except (OSError, ValueError) as error:
        raise unavailable(f"hub id {hub}, revision {revision or 'main'}", error) from error
    commit = extract_commit_hash(str(path), None)
    if commit is None:
        raise InputError(f"hub id {hub} is also a folder here; give it as a folder, or run from elsewhere")
    return commit


def folder_sha256(folder: Path) -> str:
    """Return the sha256 over the names and bytes of a model folder's files; InputError when there is no config.json."""
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: not a model folder (no config.json)")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    lines = [f"{path.relative_to(folder).as_posix()} {file_sha256(path)}\n" for path in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _gguf_sha256(path: Path | None) -> str:
    if path is None or not path.is_file():
        raise InputError(f"{path}: no such GGUF file")
    return file_sha256(path)


def unavailable(what: str, error: Exception) -> InputError:
    """Return the one-line error for a model that transformers could not load."""
    reason = str(error).strip().splitlines() or ["no reason given"]
    return InputError(f"{what}: cannot be loaded ({type(error).__name__}): {reason[0].strip()}")
