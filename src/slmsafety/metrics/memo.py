"""A cache of the results of identical texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """Memoise a batch function of texts: a least-recently-used cache of at most `size` results.

    functools.lru_cache takes one call at a time; here the texts that are not cached are computed in one batch. Keys are
    128-bit hashes, so that the texts themselves are not kept.
    """

    def __init__(self, compute: Callable[[list[str]], Sequence[T]], size: int = 50_000) -> None:
        """Take a function that returns one result for each of a list of well-formed texts, in their order."""
        self._compute, self._size = compute, size
        self._kept: dict[bytes, T] = {}

    def __call__(self, texts: Sequence[str]) -> list[T]:
        """Return the result of each text, in their order; results of identical texts are shared."""
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        new = {key: well_formed(text) for key, text in zip(keys, texts, strict=True) if key not in self._kept}
        made = dict(zip(new, self._compute(list(new.values())), strict=True)) if new else {}
        found = {key: made[key] if key in made else self._kept.pop(key) for key in dict.fromkeys(keys)}
        self._kept |= found  # the latest at the end
        for key in list(self._kept)[: max(0, len(self._kept) - self._size)]:
            del self._kept[key]
        return [found[key] for key in keys]


def well_formed(text: str) -> str:
    """Return the text with each lone surrogate replaced by U+FFFD: tokenizers refuse what UTF-8 cannot hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
