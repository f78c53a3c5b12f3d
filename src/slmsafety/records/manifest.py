"""The manifest of a run: what made the tables, kept beside them (shape after inspect_ai's log header)."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from slmsafety.records.files import write_atomic

_PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "sentence-transformers", "numpy", "pandas", "pyarrow")


def start_manifest(root: Path, given: Any, resolved: dict[str, Any]) -> dict[str, Any]:
    """Return the opening of a manifest: commit and dirty flag, versions, parameters as given and as resolved."""
    commit, dirty = git_state(root)
    return {
        "start": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "commit": commit,
        "dirty": dirty,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: metadata.version(name) for name in ("slmsafety", *_PACKAGES)},
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "given": given,
        "resolved": resolved,
    }


def write_manifest(folder: Path, manifest: dict[str, Any], ended: bool = True) -> Path:
    """Write a manifest as `<folder>/manifests/<start>-<pid>.json`, atomically, and return its path.

    The `end` of one that has not ended is null, and stays so when the run is killed.
    """
    manifest = {**manifest, "end": datetime.now(UTC).isoformat(timespec="seconds") if ended else None}
    path = folder / "manifests" / f"{manifest['start'].replace(':', '')}-{os.getpid()}.json"
    return write_atomic(path, (json.dumps(manifest, indent=2, default=str) + "\n").encode())


def git_state(root: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the repository at `root` and whether tracked files differ; (None, None) without git."""
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return commit, bool(_git(root, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return None, None


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
