"""The one error that bad input raises: a single line that names what is wrong and what would be right."""

from __future__ import annotations

import difflib
import os
import unicodedata
from collections.abc import Iterable

# Controls, format characters (bidirectional overrides too), surrogates, private use, line and paragraph separators.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}

# Of a line, a value in it and a list in it: the most characters. A longer line loses its middle.
_LINE, _VALUE, _LIST = 1200, 100, 400
# How like a valid name a wrong one must be to be taken for a slip of the hand (difflib's ratio; 'okay' and 'ok': .67).
_NEAR = 0.65


class InputError(ValueError):
    """Bad input from a user: a file, a key, a row or a name. The CLI prints its message and exits with code 2."""

    def __init__(self, message: str) -> None:
        """Keep the message as one line in which everything can be seen, whatever the names and values in it hold."""
        super().__init__(one_line(message))


class PartFailed(InputError):
    """Some of the work could not be done; the rest is done and kept. The CLI prints its message, exits with code 1."""


def visible(text: object) -> str:
    r"""Return the text with every unseen character written out (`\x1b`, `\n`), so that none can steer a terminal."""
    return "".join(_written_out(char) if unicodedata.category(char) in _UNSEEN else char for char in str(text))


def one_line(message: str) -> str:
    """Return a message as a line to print: unseen characters written out, and "..." for the middle of a long one."""
    line = visible(message)
    if len(line) <= _LINE:
        return line
    return f"{line[: _LINE * 2 // 3]} ... {line[-_LINE // 3 :]}"


def cut(value: object) -> str:
    """Return a value as a message shows it: its start and "..." where it is long."""
    text = str(value)
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}..."


def refused_by_system(error: OSError) -> str:
    """Return what the system said of a file, in one line that names it: a full disk, a closed folder, a long name."""
    said = error.strerror or str(error) or type(error).__name__
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    place = " -> ".join(names) or "what is printed, or a file"
    return one_line(f"{place}: {said}; what is finished is kept, the same command goes on from there")


def unknown(kind: str, name: object, valid: Iterable[str], where: str = "") -> InputError:
    """Return the error for a name outside a closed vocabulary: with the valid name that it misspells, or all of them.

    `kind` says what the name is ("suite", "key"), `where` names the file or parameter it came from.
    """
    choices = sorted(valid)
    near = _near(str(name), choices)
    hint = f"valid: {_listed(choices)}" if near is None else f"did you mean '{near}'?"
    place = f" in {where}" if where else ""
    return InputError(f"unknown {kind} '{cut(name)}'{place}; {hint}")


def _near(name: str, choices: list[str]) -> str | None:
    """The one valid name that a name misspells, or is the start of; None where none is near."""
    plain = {_plain(choice): choice for choice in reversed(choices)}
    found = difflib.get_close_matches(_plain(name)[: 2 * _VALUE], plain, n=1, cutoff=_NEAR)
    if not found and len(name) > 2:
        found = [choice for choice in plain if choice.startswith(_plain(name))][:1]
    return plain[found[0]] if found else None


def _plain(name: str) -> str:
    return name.casefold().replace("-", "_").replace(" ", "_")


def _listed(choices: list[str]) -> str:
    """The names in a row, as many as a line can take."""
    shown = ", ".join(choices)
    if len(shown) <= _LIST:
        return shown
    return f"{shown[:_LIST].rpartition(', ')[0]}, ... ({len(choices)} in all)"


def _written_out(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
