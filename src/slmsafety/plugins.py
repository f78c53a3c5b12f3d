"""A user's own judge or metric: a module by its import path or its file, named in ids by the bytes of that file."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from slmsafety.errors import InputError
from slmsafety.paths import data_path

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
    name = os.path.normpath(name) if name.endswith(".py") else name
    try:
        if name.endswith(".py"):
            return _from_file(name, root)
        module = _from_import_path(name, root)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's own lines raise
        raise InputError(f"module '{name}' cannot be imported ({type(error).__name__}: {error})") from error
    file = getattr(module, "__file__", None)
    if file is None:
        raise InputError(f"module '{name}' has no file of its own; name a file or a module with code")
    sha256 = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    if _IMPORTED.setdefault(name, sha256) != sha256:
        raise InputError(f"module '{name}' has changed since this process imported it; start anew (restart the kernel)")
    return Plugin(name, module, sha256)


def _from_import_path(name: str, root: Path) -> ModuleType:
    sys.path.insert(0, str(root))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(root))


def _from_file(name: str, root: Path) -> Plugin:
    """Run a file's bytes as a module; the very bytes that are run are hashed, whatever Python has compiled before."""
    path = data_path(name, root)
    content = path.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    module = ModuleType(f"slmsafety_own_{sha256[:16]}_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(content, str(path), "exec"), module.__dict__)
    return Plugin(name, module, sha256)
