"""Untrusted text inside a judge's message: quoted so that nothing in it can be a tag, a role or a special token.

Every line starts with "> ", so that no line of the text opens a role, a heading or a fence. The four characters that
tags and special tokens of chat templates start with (& < [ #), their compatibility forms (a tokenizer may normalise
them to the plain ones), and characters that are not seen (controls, direction marks, zero-width ones except the joiners
that scripts and emoji need, lone surrogates, which no request can carry) become entities. The reply is still readable,
and quoting loses nothing of it. Other look-alikes stay: they are no tag for any tokenizer and none for a parser.
"""

from __future__ import annotations

import re

VERSION = 1
PREFIX = "> "
# The characters and those that NFKC turns into one of them; a test checks the list against the Unicode database.
_OPENERS = "&\ufe60\uff06<\ufe64\uff1c\\[\ufe47\uff3b#\ufe5f\uff03"
_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_ESCAPED = re.compile(f"[{_OPENERS}{_UNSEEN}]")
_NAMED = {"&": "&amp;", "<": "&lt;"}


def quote(text: str) -> str:
    """Return the text with every line behind "> " and with entities for what could open a tag or is not seen."""
    escaped = _ESCAPED.sub(lambda found: _NAMED.get(found[0]) or f"&#x{ord(found[0]):X};", text)
    return PREFIX + escaped.replace("\n", "\n" + PREFIX)
