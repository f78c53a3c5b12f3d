"""Whether a server read all that it was sent, by its own count of the prompt's tokens.

Pieces of a text are its runs of letters, of digits, and of marks. Nearly every tokenizer has a token or more for each,
but for a mark that goes together with the letters behind it, an apostrophe within a word, and a tag. These are not
counted, nor are words that are not all ASCII. A server that counts fewer tokens than 7 for 10 pieces, and than one for
five characters, has not read all: tokenizers whose tokens span several words need more than that too. It is a lower
bound: it sees a prompt in English that lost 45 % of its tokens, not one that lost its last lines, and nothing of a text
in another script. A server that leaves a cached part out of its count without saying so looks like one that cut.
"""

from __future__ import annotations

import re
from typing import Any

from slmsafety.models.answer_types import Completion

TOKENS_A_PIECE = 0.7
CHARACTERS_A_TOKEN = 5
# No model has so short a window. A smaller count is of something else, such as what was not in a cache.
_SHORTEST_WINDOW = 256
_PIECE = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)?|[0-9]+|[!-.:;=?@\[-`{-~]+(?![A-Za-z])")


def least_tokens(body: dict[str, Any]) -> int:
    """Return the fewest tokens that a request's texts can have."""
    return int(TOKENS_A_PIECE * sum(_pieces(text) for text in _texts(body)))


def input_cut(body: dict[str, Any], reply: Completion) -> bool:
    """Return whether the server that made a reply read less than it was sent, as far as its count of tokens tells."""
    if reply.input_tokens is None or reply.input_tokens < _SHORTEST_WINDOW:
        return False
    counted = reply.input_tokens + (reply.cached_tokens or 0)
    if counted * CHARACTERS_A_TOKEN >= sum(map(len, _texts(body))):
        return False  # of most calls, without counting pieces
    return counted < least_tokens(body)


def _texts(body: dict[str, Any]) -> list[str]:
    return [body["prompt"]] if "prompt" in body else [message["content"] for message in body["messages"]]


def _pieces(text: str) -> int:
    if not text.isascii():
        text = " ".join(word for word in text.split() if word.isascii())
    return len(_PIECE.findall(text))
