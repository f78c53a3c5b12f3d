"""Where a project, its cache and the files of its parameters are."""

from __future__ import annotations

import os
from pathlib import Path

from slmsafety.errors import InputError


def project_root() -> Path:
    """Return the folder that relative paths start from: SLMSAFETY_ROOT, or the repository of the installed package."""
    given = os.environ.get("SLMSAFETY_ROOT")
    root = Path(given) if given else Path(__file__).resolve().parents[2]
    if not (root / "params").is_dir():
        raise InputError(f"{root} holds no folder 'params'; set SLMSAFETY_ROOT to a clone of the repository")
    return root.resolve()


def cache_folder() -> Path:
    """Return the folder of downloaded and derived files: SLMSAFETY_CACHE, or slmsafety in the user's cache folder.

    The user's cache folder is XDG_CACHE_HOME, or .cache in the home folder.
    """
    own = os.environ.get("SLMSAFETY_CACHE")
    return Path(own or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/slmsafety").expanduser()


def is_file(path: Path) -> bool:
    """Return whether a file is there; InputError where that cannot be told (a closed folder, a name too long)."""
    try:
        return path.is_file()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"path '{path}' cannot be looked up ({reason})") from error


def data_path(text: str, root: Path) -> Path:
    """Return an existing path from a parameter: $VARIABLES are filled in, relative paths start at the root."""
    filled = os.path.expandvars(text)
    if "$" in filled:
        raise InputError(f"path '{text}' names an environment variable that is not set")
    path = root / filled
    try:
        there, usual = path.exists(), path.is_file() or path.is_dir()
    except (OSError, ValueError) as error:  # a folder that may not be entered, a name that is too long or holds a zero
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"path '{text}' cannot be looked up ({reason})") from error
    if not there:
        raise InputError(f"path '{text}' does not exist (looked for {path})")
    if not usual:  # a device, which may have no end, or a pipe, which can be read once
        raise InputError(f"path '{text}' is neither a file nor a folder")
    return path
