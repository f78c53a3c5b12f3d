"""Where a model comes from, and the identity of its weights."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from slmsafety.errors import InputError
from slmsafety.models.checkpoint import ADAPTER_FILE, refuse_adapter
from slmsafety.models.endpoint import RETRIES, TIMEOUT, Endpoint
from slmsafety.models.packages import package
from slmsafety.records.ids import file_sha256

# Raise it when models.gguf would write other weights or another tokenizer for the same file.
DEQUANTISER = 1
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Of hidden files those that a model can be read from: an index may name any shard, a config any file of weights.
_READABLE = (".safetensors", ".bin", ".json", ".jinja", ".model", ".txt")
_ORIGINS = ("package", "folder", "gguf", "hub", "endpoint")
# Keys that only some origins can have.
_BELONGS = {
    "revision": ("hub", "endpoint"),
    "served": ("endpoint",),
    "api_key_env": ("endpoint",),
    "served_as": ("endpoint",),
    "timeout": ("endpoint",),
    "retries": ("endpoint",),
    "trust_remote_code": ("hub", "folder"),
    "weights": ("hub", "folder"),
}


class Source(BaseModel):
    """Where a model comes from: exactly one of package, folder, gguf, hub and endpoint.

    Parameters
    ----------
    package : str or None
        An installed Python package that holds the weights, a name of `packages.PACKAGES`.
    folder : Path or None
        A folder in the Hugging Face format.
    gguf : Path or None
        A GGUF file.
    hub : str or None
        A Hugging Face hub id.
    revision : str or None
        Of a hub id a branch, tag or commit; None: the hub's current commit is taken and recorded. Of an endpoint what
        its user says it serves.
    trust_remote_code : bool, default False
        Whether the model's own code may run (hub, folder).
    weights : {"safetensors", "bin"}, default "safetensors"
        `bin` reads a checkpoint without safetensors, by a reader that runs no code (hub, folder).
    endpoint : str or None
        The base URL of an OpenAI-compatible server.
    served : str or None
        The model's name on that server.
    api_key_env : str or None
        The environment variable that holds the server's key.
    served_as : tuple of str
        Other names that the model may answer by on that server, or `any`; no part of what defines the weights.
    timeout : float, default 600
        The longest time of one attempt in seconds, from its sending to the last byte of its answer (endpoint).
    retries : int, default 5
        How many times a request is sent again after its first attempt (endpoint).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    package: str | None = None
    folder: Path | None = None
    gguf: Path | None = None
    hub: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    weights: Literal["safetensors", "bin"] = "safetensors"
    endpoint: str | None = None
    served: str | None = None
    api_key_env: str | None = None
    served_as: tuple[str, ...] = ()
    timeout: float = Field(default=TIMEOUT, gt=0, allow_inf_nan=False)
    retries: int = Field(default=RETRIES, ge=0)

    @model_validator(mode="after")
    def _one_origin(self) -> Source:
        given = [kind for kind in _ORIGINS if getattr(self, kind) is not None]
        if len(given) != 1:
            raise InputError(
                f"a model source needs exactly one of {', '.join(_ORIGINS)}; got {', '.join(given) or 'none'}"
            )
        for key, origins in _BELONGS.items():
            if getattr(self, key) != type(self).model_fields[key].default and given[0] not in origins:
                raise InputError(f"key '{key}' belongs to {' or '.join(origins)}; this model's source is '{given[0]}'")
        if self.endpoint is not None:
            Endpoint(self.endpoint, self.served or "", self.api_key_env)
            if not self.served:
                raise InputError(f"endpoint '{self.endpoint}' needs 'served': the model's name on that server")
        if self.package is not None:
            package(self.package)
        return self

    def definition(self) -> dict[str, Any]:
        """Return what defines the weights: the hash of a file or folder, or the hub id and the revision asked for.

        For an endpoint it is the served name, not the address: a study may move to another machine. Nothing is loaded
        and no server is asked. Raises InputError when a file or folder is missing.
        """
        code = {"remote_code": True} if self.trust_remote_code else {}
        if self.endpoint is not None:
            return {"served": self.served, "revision": self.revision}
        if self.hub is not None:
            return {"hub": self.hub, "revision": self.revision, **code}
        if self.folder is not None:
            return {"folder_sha256": folder_sha256(self.folder), **code}
        sha256 = package(self.package).sha256 if self.package is not None else _gguf_sha256(self.gguf)
        return {"gguf_sha256": sha256, "dequantiser": DEQUANTISER}

    def __str__(self) -> str:
        """Return the source as an error names it, such as 'hub ID, revision main'."""
        values: dict[str, Any] = self.model_dump(exclude_defaults=True)
        return ", ".join(f"{key} {value}" for key, value in values.items())


def pinned(source: Source) -> bool:
    """Return whether a source is the same weights for ever: all but a hub id without a commit, or with a moving name.

    A branch or a tag moves: rows made at one of its commits are not those of another one.
    """
    return source.hub is None or bool(_COMMIT.fullmatch(source.revision or ""))


def hub_commit(hub: str, revision: str | None, file: str = "config.json") -> str:
    """Return the commit that a hub id and revision stand for now (offline: in the local hub cache).

    `file` is one that every revision of such a model has. Raises InputError where the hub has none or does not answer,
    and for an adapter, whose base is another model.
    """
    from transformers.utils.hub import cached_file, extract_commit_hash

    from slmsafety.models.hub import unavailable

    what = f"hub id {hub}, revision {revision or 'main'}"
    try:
        path = cached_file(hub, file, revision=revision)
    except (OSError, ValueError) as error:
        raise unavailable(what, error) from error
    if path is None:
        refuse_adapter(what, hub_file(hub, ADAPTER_FILE, revision))
        raise InputError(f"{what}: has no file {file}, so it is no model of this kind")
    commit = extract_commit_hash(str(path), None)
    if commit is None:
        raise InputError(f"hub id {hub} is also a folder here; give it as a folder, or run from elsewhere")
    return commit


def hub_file(hub: str, file: str, revision: str | None) -> Path | None:
    """Return a file of a hub id in the local cache, asked for where it is not there yet; None where it has none."""
    from transformers.utils.hub import cached_file

    path = cached_file(
        hub,
        file,
        revision=revision,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
    )
    return None if path is None else Path(path)


def folder_sha256(folder: Path) -> str:
    """Return the sha256 over the names and bytes of a model folder's files; InputError when there is no config.json.

    A spaCy pipeline has a config.cfg instead. Folders that are links are followed; of hidden files those are left out
    that no model is read from.
    """
    _check_folder(folder)
    files = sorted(path for path in _files(folder) if not path.name.startswith(".") or path.suffix in _READABLE)
    lines = [f"{path.relative_to(folder).as_posix()} {_weights_sha256(path)}\n" for path in files]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def check_there(source: Source) -> None:
    """Raise InputError for a folder or a GGUF file that is no model's at first sight; nothing of it is read."""
    if source.folder is not None:
        _check_folder(source.folder)
    if source.gguf is not None:
        _check_file(source.gguf)


def _check_folder(folder: Path) -> None:
    if not any((folder / name).is_file() for name in ("config.json", "config.cfg")):
        refuse_adapter(f"folder {folder}", folder / ADAPTER_FILE)
        raise InputError(f"{folder}: not a model folder (no config.json)")


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path}: no such GGUF file")


def _files(folder: Path, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """Yield the files below a folder; a link to a folder that it lies in is not followed."""
    real = os.path.realpath(folder)
    for path in () if real in above else folder.iterdir():
        if path.is_dir():
            yield from _files(path, (*above, real))
        elif path.is_file():
            yield path


def _gguf_sha256(path: Path | None) -> str:
    if path is None:
        raise InputError("a model source without any origin has no weights")
    _check_file(path)
    return _weights_sha256(path)


def _weights_sha256(path: Path) -> str:
    """The sha256 of a file's bytes, computed once a process while the file stays as it is: weights are gigabytes.

    The time of the last change counts too, which no tool sets back as it does the time of the last writing.
    """
    state = path.stat()
    return _sha256_of(path, state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino)


@lru_cache(maxsize=1024)
def _sha256_of(path: Path, *_state: int) -> str:
    return file_sha256(path)
