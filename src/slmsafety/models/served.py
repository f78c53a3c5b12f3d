"""Whether the model that answered is the one asked for, by its name.

Names are compared without what servers add to them or leave out: capitals, a path or provider before the last `/`, the
ending gguf, "meta-", a tag after `:` or `@`, and the marks at the end or before `-preview`: dates and numbers of a
snapshot, `latest` or `0`, and the number format of the weights. Where both names have a tag, or marks of one kind,
these must be the same.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from slmsafety.errors import InputError, cut

ANY = "any"
"""What an entry's `served_as` says that takes every model's answers."""

_FORMATS = r"(?:i?q\d\w*|f16|f32|fp16|fp32|bf16|fp8|fp4|mxfp4|nvfp4|int[48]|w\da\d+|[48]bit|awq|gptq|mlx|bnb)"
_MARKS = re.compile(
    rf"[-_. ](?:(?P<format>{_FORMATS})"
    r"|(?P<snapshot>20\d\d-?[01]\d-?[0-3]\d|[01]\d-[0-3]\d|[01]\d-20\d\d|\d{3,4}|\d{6}|0|latest))"
    r"(?=(?:-vision)?-(?:preview|beta|exp)\Z|\Z)"
)
# An alias that leaves out more than marks: OpenAI answers for it as gpt-4-0125-preview.
_ALIASES = {"gpt-4-turbo-preview": "gpt-4-preview"}


class _Name(NamedTuple):
    """A model's name, taken apart."""

    base: str
    tag: str
    formats: tuple[str, ...]
    snapshots: tuple[str, ...]


def same_model(asked: str, answered: str | None) -> bool:
    """Return whether two names can be one model's; an empty name, or none, tells of no other."""
    if answered is None or not answered.strip():
        return True
    here, there = _taken_apart(asked), _taken_apart(answered)
    pairs = (here.tag, there.tag), (here.formats, there.formats), (here.snapshots, there.snapshots)
    return here.base == there.base and all(one == other or not (one and other) for one, other in pairs)


def takes(asked: str, answered: str | None, also: tuple[str, ...]) -> bool:
    """Return whether an entry takes an answer: of the model asked for, or of one of those it names besides."""
    return ANY in also or any(same_model(name, answered) for name in (asked, *also))


def other_model(who: str, asked: str, answered: str | None, host: str) -> InputError:
    """Return the error that stops a run whose server answers for another model; `who` names the entry."""
    name = cut(answered)
    return InputError(
        f"{who}: {host} answered for the model '{name}', and '{asked}' was asked for; what it answered is not used. "
        f"Where that is right, give the entry the key served_as: {name} (or a list of names, or {ANY})"
    )


@lru_cache(maxsize=256)
def _taken_apart(name: str) -> _Name:
    last = re.split(r"[/\\]", name.strip().rstrip("/\\"))[-1].casefold()
    base, _, tag = re.sub(r"@", ":", last).partition(":")
    base = re.sub(r"[-_.]gguf\Z", "", base).removeprefix("meta-")
    marks: dict[str, list[str]] = {"format": [], "snapshot": []}
    while (found := _MARKS.search(base)) and found.start():
        kind = str(found.lastgroup)
        marks[kind].append(found[kind].replace("-", ""))
        base = base[: found.start()] + base[found.end() :]
    snapshots = [mark for mark in marks["snapshot"] if mark not in ("latest", "0")]
    return _Name(_ALIASES.get(base, base), "" if tag in _NO_TAGS else tag, tuple(marks["format"]), tuple(snapshots))


# Tags that name a way of serving (OpenRouter) or a default (Ollama, a branch), not other weights.
_NO_TAGS = ("free", "nitro", "floor", "beta", "extended", "online", "exacto", "latest", "main", "self-moderated")
