"""The one error that bad input raises: a single line that names what is wrong and what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input from a user: a file, a key, a row or a name. The CLI prints its message and exits with code 2."""

    def __init__(self, message: str) -> None:
        """Keep the message as one line, whatever the names and values in it hold."""
        super().__init__(" ".join(message.splitlines()))


def unknown(kind: str, name: object, valid: Iterable[str], where: str = "") -> InputError:
    """Return the error for a name outside a closed vocabulary, with its nearest valid name.

    `kind` says what the name is ("suite", "key"), `where` names the file or parameter it came from.
    """
    choices = sorted(valid)
    near = difflib.get_close_matches(str(name), choices, n=1, cutoff=0.4)
    hint = f"did you mean '{near[0]}'?" if near else f"valid: {', '.join(choices)}"
    place = f" in {where}" if where else ""
    return InputError(f"unknown {kind} '{name}'{place}; {hint}")
