"""HELM's own judge templates, read out of a crfm-helm distribution without importing it (it pins pandas below 3).

Their text is HELM's (Apache-2.0) and no part of this package: it is read where a user has it.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from slmsafety.errors import InputError

_FOLDER = "helm/benchmark/annotation"
# template -> the module that assigns it and the name there
_TEMPLATES = {
    "harmbench": ("harm_bench_annotator.py", "PROMPT_TEMPLATE"),
    "sst": ("simple_safety_tests_annotator.py", "PROMPT_TEMPLATE"),
    "xstest_safe": ("xstest_annotator.py", "PROMPT_TEMPLATE_SAFE"),
    "xstest_unsafe": ("xstest_annotator.py", "PROMPT_TEMPLATE_UNSAFE"),
}
_METADATA = re.compile(r"(?:^|/)(?:crfm_helm-[^/]*\.dist-info/METADATA|crfm[_-]helm-[^/]*/PKG-INFO)\Z")

# What a torn or foreign archive raises.
_UNREADABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError)


class HelmPrompts(NamedTuple):
    """A release and its templates by name (harmbench, sst, xstest_safe, xstest_unsafe), stripped as HELM sends them."""

    version: str
    templates: dict[str, str]


class _Tree(NamedTuple):
    """A distribution's file names and how to read one."""

    names: list[str]
    read: Callable[[str], bytes]


def read_prompts(path: Path | None) -> HelmPrompts:
    """Return the release and the templates of a crfm-helm distribution.

    `path` is a wheel, an sdist (.tar.gz) or a folder that holds the package and its metadata (site-packages of any
    environment); without one it is the distribution installed beside this package. Raises InputError when there is
    none, and for a file that is unreadable or lacks a template.
    """
    where = "the installed crfm-helm" if path is None else f"'{path}'"
    if path is None:
        try:
            path = Path(str(importlib.metadata.distribution("crfm-helm").locate_file("")))
        except importlib.metadata.PackageNotFoundError as error:
            raise InputError(
                "prompt_source 'helm' needs crfm-helm: give the path of its wheel, sdist or site-packages folder "
                "(pip download crfm-helm --no-deps)"
            ) from error
    try:
        if path.is_dir():
            return _prompts(_folder(path), where)
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                return _prompts(_Tree(wheel.namelist(), wheel.read), where)
        with tarfile.open(path) as sdist:
            return _prompts(_Tree(sdist.getnames(), lambda name: _member(sdist, name)), where)
    except (*_UNREADABLE, UnicodeDecodeError, SyntaxError) as error:
        raise InputError(f"{where} is no readable wheel, sdist or folder of crfm-helm ({error})") from error


def _prompts(tree: _Tree, where: str) -> HelmPrompts:
    templates = {}
    for name, (module, constant) in _TEMPLATES.items():
        source = tree.read(_one(tree.names, f"{_FOLDER}/{module}", where)).decode("utf-8")
        templates[name] = _constant(source, constant, f"{where}, {module}").strip()
    metadata = sorted((name for name in tree.names if _METADATA.search(name)), key=len)
    if not metadata:
        raise InputError(f"{where} holds no metadata of crfm-helm, so that its release is not known")
    found = re.search(r"^Version: *(\S+)", tree.read(metadata[0]).decode("utf-8"), re.MULTILINE)
    if found is None:
        raise InputError(f"{where}: {metadata[0]} names no version")
    return HelmPrompts(found[1], templates)


def _one(names: Iterable[str], ending: str, where: str) -> str:
    """Return the shortest name that is a path ending, which leaves out copies under build folders."""
    found = sorted((name for name in names if f"/{name}".endswith(f"/{ending}")), key=len)
    if not found:
        raise InputError(f"{where} lacks {ending}; is it a distribution of crfm-helm from 0.5.3 on?")
    return found[0]


def _constant(source: str, name: str, where: str) -> str:
    """Return the text that a module assigns to a name at its top level."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                return node.value.value
            break
    raise InputError(f"{where}: {name} is not assigned a plain text")


def _folder(path: Path) -> _Tree:
    """Return the annotators and the metadata of a folder, not all of its files: site-packages is large."""
    found = [*path.glob("crfm_helm-*.dist-info/METADATA"), *path.glob("PKG-INFO")]
    for root in (path, path / "src"):
        found += (root / _FOLDER).glob("*.py")
    names = [str(PurePosixPath(file.relative_to(path.parent))) for file in found]
    return _Tree(names, lambda name: (path.parent / name).read_bytes())


def _member(sdist: tarfile.TarFile, name: str) -> bytes:
    handle = sdist.extractfile(name)
    if handle is None:
        raise InputError(f"'{sdist.name!s}': {name} is no file")
    with handle:
        return handle.read()
