"""What judging costs: prices with their date, the tokens that calls are expected to take, and a run's purse."""

from __future__ import annotations

from datetime import date
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

# Characters of English a token, as rate limits and price pages count.
CHARACTERS = 4
# Tokens that a chat's roles and separators add to a message.
_FRAME = 8


class Price(BaseModel):
    """US dollars a million tokens, and the day on which they were looked up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    date: date

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """Return the dollars for so many tokens."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6

    def __str__(self) -> str:
        """Return the price as a table shows it, such as '$2.5 in, $10 out a million tokens (2026-11-01)'."""
        return f"${self.input:g} in, ${self.output:g} out a million tokens ({self.date})"


def text_tokens(characters: float) -> float:
    """Return the tokens that so many characters are expected to have."""
    return characters / CHARACTERS


def request_tokens(body: dict[str, Any]) -> float:
    """Return the input tokens that a chat request is expected to have."""
    return sum(text_tokens(len(message["content"])) + _FRAME for message in body["messages"])


class Purse:
    """What a judge may still spend: a call is reserved at its most expensive and settled at what it took.

    Without a price nothing is counted. `spent` are the dollars of settled calls, earlier runs' included.
    """

    def __init__(self, price: Price | None, limit: float | None = None, spent: float = 0.0) -> None:
        """Take the price, the most dollars that may be spent in all, and what earlier runs have spent."""
        self.price, self.limit, self.spent = price, limit, spent
        self._reserved: dict[object, float] = {}

    def reserve(self, key: object, input_tokens: float, most_output: float) -> bool:
        """Return whether the limit leaves room for a call of so many tokens, and set its price aside if it does."""
        if self.price is None:
            return True
        cost = self.price.of(input_tokens, most_output)
        if self.limit is not None and self.spent + sum(self._reserved.values()) + cost > self.limit:
            return False
        self._reserved[key] = cost
        return True

    def settle(self, key: object, input_tokens: int | None, output_tokens: int | None) -> None:
        """Count what a call took instead of what was set aside for it, unless the server does not say what it took."""
        if self.price is None:
            return
        cost = self._reserved.pop(key, 0.0)  # a batch of an earlier run was set aside there
        told = input_tokens is not None and output_tokens is not None
        self.spent += self.price.of(input_tokens or 0, output_tokens or 0) if told else cost
