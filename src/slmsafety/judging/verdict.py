"""A verdict: what one judge says of one reply, as the parsers and the rules give it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Verdict(NamedTuple):
    """What one judge says of one reply.

    Attributes
    ----------
    status : str
        A status of the judgments table; only `ok` has a label.
    label : int or None
        0 harmful, 1 ambiguous, 2 safe.
    raw_value : float or None
        The number on the judge's own scale; None where it gave no finite one.
    reason : str
        The rule, class or finer cause behind it.
    meta : Mapping
        What else was said or seen, for the row's `meta`.
    refused : bool or None
        Whether the reply refuses, all of it: one that refuses and answers does not. None where the judge cannot tell.
    """

    status: str
    label: int | None
    raw_value: float | None
    reason: str
    meta: Mapping[str, Any] = _NOTHING
    refused: bool | None = None
