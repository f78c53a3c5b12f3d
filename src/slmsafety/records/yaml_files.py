"""YAML files as a user writes them: plain values only, and no key twice."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from slmsafety.errors import InputError


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file; InputError naming the file where it is unreadable or has a key twice."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)
    except (yaml.YAMLError, ValueError, OSError) as error:  # a date that is none is a ValueError
        raise InputError(f"{path}: not readable as YAML ({' '.join(str(error).split())})") from error


class _UniqueKeys(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error: plain YAML would take the last one in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping, or raise a YAML error naming the key and its line."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            problem = None
            if not isinstance(key, Hashable):
                problem = "a key is a list or a mapping; a key is a word"
            elif key in seen:
                problem = f"key '{key}' stands twice"
            if problem is not None:
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)
