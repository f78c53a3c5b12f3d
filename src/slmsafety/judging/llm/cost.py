"""What a judge's calls cost: prices with their date, and the tokens of a request and of what came back."""

from __future__ import annotations

import json
import math
import re
from datetime import date
from typing import Any, NamedTuple

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from slmsafety.models.answers import Again, Completion, Failure, Halt

Heard = Completion | Failure | Again | Halt | None
"""What an attempt has heard; None: nothing, though it may have been billed."""

# What tokenizers split a text into before they look anything up: an ending such as 's, a word, up to three digits or
# marks, spaces beyond the one that belongs to a word, a line's end. A text of English has few more tokens than these.
_PIECE = re.compile(
    r"'(?:s|t|re|ve|m|ll|d)\b|[A-Za-z]{1,16}|[0-9]{1,3}|[!-/:-@\[-`{-~]{1,3}|  +|[^\S ]\s*|[\x00-\x1f\x7f]", re.ASCII
)
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
# Bytes of UTF-8 a token, of what is not ASCII: two letters of Chinese, three of Russian.
_FOREIGN_BYTES = 6
# The most tokens that a chat template writes around a conversation: a system prompt of the model's own, a date.
_TEMPLATE = 100
# A server's count beyond this is a fault and no count. Below it a hidden prompt, or hidden reasoning that keeps to no
# limit, may have taken any multiple of what was asked for.
_ABSURD = 1_000_000
# What a server bills nothing for: it did no work. `unsent` had no connection; a batch has an end before its last line.
_FREE = {"unsent", "redirect", "rate_limit", "no_budget", "batch_expired", "batch_cancelled"}
# It timed out at work, which Azure bills.
_WORKED = "http_408"


class Price(BaseModel):
    """US dollars a million tokens, and the day on which they were looked up."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    date: date

    def cost(self, input_tokens: float, output_tokens: float) -> float:
        """Return the dollars for so many tokens."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6

    def __str__(self) -> str:
        """Return the price as a table shows it, such as '$2.5 in, $10 out a million tokens (2026-11-01)'."""
        return f"${self.input:g} in, ${self.output:g} out a million tokens ({self.date})"


_WRITTEN = re.compile(r"\$([\d.e+-]+) in, \$([\d.e+-]+) out")


def dollars(judgments: pd.DataFrame) -> pd.Series:
    """Return the dollars of each judgment: its tokens at the price in its meta; nan where one of them is not known."""
    written = [json.loads(meta).get("price") or "" if isinstance(meta, str) else "" for meta in judgments["meta"]]
    prices = pd.Series(written, judgments.index, dtype="str").str.extract(_WRITTEN).astype("float64")
    tokens = judgments[["input_tokens", "output_tokens"]].astype("float64")
    return (tokens["input_tokens"] * prices[0] + tokens["output_tokens"] * prices[1]) / 1e6


def count_tokens(text: str) -> int:
    """Return about how many tokens a text has, without a vocabulary: the pieces that tokenizers split it into.

    Parameters
    ----------
    text : str
        Any text; half of a surrogate pair counts as three bytes.

    Returns
    -------
    int
        Pieces of ASCII, and one for every 6 bytes of what is not; 0 for the empty text. Of the package's grading
        prompts that is .97 of GPT-2's tokens, of other languages less.
    """
    pieces = len(_PIECE.findall(text))
    if text.isascii():
        return pieces
    foreign = (len(run.encode("utf-8", "surrogatepass")) for run in _FOREIGN.findall(text))
    return pieces + sum(math.ceil(length / _FOREIGN_BYTES) for length in foreign)


class Size(NamedTuple):
    """The tokens of a request.

    Attributes
    ----------
    input : int
        About how many its texts have (`count_tokens`).
    most_input : int
        More than they can have: one for every byte of the request, and the chat template's own.
    most_output : int
        The most that may be written.
    """

    input: int
    most_input: int
    most_output: int


def request_size(body: dict[str, Any]) -> Size:
    """Return the tokens of a chat request, which names the most that may be written."""
    texts = (message["content"] for message in body["messages"])
    written = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    most_output = max(int(body[key]) for key in ("max_tokens", "max_completion_tokens") if key in body)
    return Size(sum(map(count_tokens, texts)), len(written) + _TEMPLATE, most_output)


class Taken(NamedTuple):
    """The tokens that an attempt is counted at, and whether a count of the server's was none."""

    input: int
    output: int
    absurd: bool = False


def taken(size: Size, heard: Heard) -> Taken:
    """Return the tokens that an attempt may be billed for.

    Parameters
    ----------
    size : Size
        What was sent.
    heard : Completion, Failure, Again, Halt or None
        How the attempt ended.

    Returns
    -------
    Taken
        Of a completion the server's counts, or ours where they are larger; the most that there can be where the server
        gives no count or an absurd one. Of what ended otherwise: nothing where the server did no work (a rate limit, a
        refused request), the prompt's most where it may have read it (too long: Azure bills some), else the most of
        both: a time-out, a cut connection, a server's error, a reply that cannot be read, or one that a filter stopped.
    """
    if isinstance(heard, Completion):
        cached = heard.cached_tokens or 0
        told = heard.input_tokens
        if told is not None and abs(told + cached - size.input) < abs(told - size.input):
            told += cached  # a server that leaves out what it read from a cache, which is billed too
        came = count_tokens(heard.text) + count_tokens(heard.reasoning or "")
        given, absurd_input = _believed(told, size.input, size.most_input)
        written, absurd_output = _believed(heard.output_tokens, came, size.most_output)
        return Taken(given, written, absurd_input or absurd_output)
    if heard is None:
        return Taken(size.most_input, size.most_output)
    if isinstance(heard, Halt) or heard.reason in _FREE:
        return Taken(0, 0)
    if heard.reason == "prompt_too_long":
        return Taken(size.most_input, 0)
    if heard.reason.startswith("http_4") and heard.reason != _WORKED:
        return Taken(0, 0)
    return Taken(size.most_input, size.most_output)


def _believed(told: int | None, own: int, most: int) -> tuple[int, bool]:
    """The tokens to count where a server tells so many, and whether what it tells is absurd."""
    if told is None:
        return max(own, most), False
    if not 0 <= told <= max(_ABSURD, own, most):
        return max(own, most), True
    return max(told, own), False
