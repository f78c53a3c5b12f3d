"""The way back from `quoting.quote`, by which the tests know that nothing is lost."""

from __future__ import annotations

import re

from slmsafety.judging.rubrics.quoting import PREFIX

_ENTITY = re.compile(r"&(?:(amp)|(lt)|#x([0-9A-F]{1,6}));")


def unquote(quoted: str) -> str:
    """Return the text that `quote` was given."""
    text = quoted.removeprefix(PREFIX).replace("\n" + PREFIX, "\n")
    return _ENTITY.sub(lambda found: "&" if found[1] else "<" if found[2] else chr(int(found[3], 16)), text)
