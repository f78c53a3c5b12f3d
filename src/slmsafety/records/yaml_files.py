"""YAML files as a user writes them: plain values only, no key twice, and no more of anything than a person writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from slmsafety.errors import InputError, cut

# Far above what a study or a rubric needs, far below what takes long to read.
BYTES, NODES, DEPTH, NUMBER = 2_000_000, 50_000, 40, 400


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file.

    Raises InputError, one line that names the file and where there is one the line, for a file that cannot be read or
    is too large, for what is no YAML, for a key that stands twice or is no word or number, and for content that nests
    too deep or that aliases blow up.
    """
    try:
        with path.open("rb") as file:
            data = file.read(BYTES + 1)
        if len(data) > BYTES:
            raise InputError(f"{path}: has more than {BYTES} bytes, which no study or rubric needs")
        loader = _Plain(data.decode("utf-8-sig"))
        try:
            node = loader.get_single_node()
            return None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        # Without the file's own words, which may be a secret.
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}: "
        raise InputError(f"{path}: not readable as YAML ({line}{error.problem or error.context})") from None
    except (yaml.YAMLError, ValueError, OSError) as error:  # a date that is none is a ValueError
        if isinstance(error, InputError):
            raise
        said = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise InputError(f"{path}: not readable as YAML ({said})") from error


class _Plain(yaml.SafeLoader):
    """YAML with limits, in which a key that stands twice is an error: plain YAML would take the last one in silence."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        # How many nodes each finished node stands for, with those behind its aliases.
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node, or raise a YAML error where it nests too deep, without end, or becomes too many."""
        alias = self.check_event(yaml.AliasEvent)
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call] # yaml's stubs have no type here
        self._depth += 1
        if self._depth > DEPTH:
            raise yaml.composer.ComposerError(None, None, f"nests more than {DEPTH} deep", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if alias and id(node) not in self._sizes:
            raise yaml.composer.ComposerError(None, None, "an alias stands within what it names", mark)
        if node is not None and not alias:
            self._sizes[id(node)] = size = 1 + sum(self._sizes[id(part)] for part in _parts(node))
            if size > NODES:
                raise yaml.composer.ComposerError(None, None, f"has more than {NODES} values, aliases counted", mark)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping, or raise a YAML error naming the key and its line."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            problem = None
            if not isinstance(key, str | int | float):
                kind = "nothing or a date" if isinstance(key_node, yaml.ScalarNode) else "a list or a mapping"
                problem = f"a key is {kind}; a key is a word or a number"
            elif key in seen:
                # A secret in the place of a key has digits.
                shown = "a key" if isinstance(key, str) and any(map(str.isdigit, key)) else f"key '{cut(key)}'"
                problem = f"{shown} stands twice"
            if problem is not None:
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def number(self, node: yaml.ScalarNode) -> Any:
        """Return a whole or broken number, or raise a YAML error for one of more digits than any that is meant."""
        if len(node.value) > NUMBER:
            raise yaml.constructor.ConstructorError(
                None, None, f"a number of {len(node.value)} digits", node.start_mark
            )
        whole = node.tag.endswith(":int")
        return self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)


def _parts(node: yaml.Node) -> list[yaml.Node]:
    """The nodes that a node is made of."""
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


for _kind in ("int", "float"):
    _Plain.add_constructor(f"tag:yaml.org,2002:{_kind}", _Plain.number)
