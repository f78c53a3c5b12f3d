"""A user's own judge or metric: a module by its import path or its file, named in ids by the bytes of that file."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from slmsafety.errors import InputError

# The hash of each module when this process imported it: Python goes on with that code, whatever the file holds now.
_IMPORTED: dict[str, str] = {}


class Plugin(NamedTuple):
    """A module of a user's own: how the study names it, the module, and the sha256 of its file (64 hex digits)."""

    name: str
    module: ModuleType
    sha256: str


def load_plugin(name: str, root: Path) -> Plugin:
    """Import a module of a user's own.

    Parameters
    ----------
    name : str
        An import path (`my_package.my_judge`) or a file ending in `.py`. Files and packages are looked for below
        `root` first, then where Python looks.
    root : Path
        The project's root.

    Returns
    -------
    Plugin
        The module and the hash of its file: a changed file is another judge or metric, with other ids.

    Raises
    ------
    InputError
        When there is no such module, when it has no file, or when importing it fails; the message has the cause.
    """
    try:
        module = _from_file(root / name) if name.endswith(".py") else _from_import_path(name, root)
    except Exception as error:  # whatever the user's own lines raise
        raise InputError(f"module '{name}' cannot be imported ({type(error).__name__}: {error})") from error
    if module.__file__ is None:
        raise InputError(f"module '{name}' has no file of its own; name a file or a module with code")
    sha256 = hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()
    if not name.endswith(".py") and _IMPORTED.setdefault(name, sha256) != sha256:
        raise InputError(f"module '{name}' has changed since this process imported it; start anew (restart the kernel)")
    return Plugin(name, module, sha256)


def _from_import_path(name: str, root: Path) -> ModuleType:
    sys.path.insert(0, str(root))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(root))


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
