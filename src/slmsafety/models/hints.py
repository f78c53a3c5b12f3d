"""What a user can do where a server refuses a parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from slmsafety.errors import InputError
from slmsafety.models.answers import Halted


@contextmanager
def naming_keys(hints: Mapping[str, str]) -> Iterator[None]:
    """Add to the end of a run, where the server refuses a parameter, which key of the entry sets it.

    `hints` says it of each parameter that the server's sentence may name.
    """
    try:
        yield
    except Halted as error:
        said = error.halt.said or ""
        found = dict.fromkeys(hint for name, hint in hints.items() if re.search(rf"\b{name}\b", said))
        if error.halt.reason != "refused_parameter" or not found:
            raise
        raise InputError(f"{error}; {'; '.join(found)}") from error
