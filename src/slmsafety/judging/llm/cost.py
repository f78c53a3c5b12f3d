"""What judging costs: prices with their date, the tokens that calls are expected to take, and a run's budget."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

# Characters of English a token, as rate limits and price pages count.
CHARACTERS = 4
# Tokens that a chat's roles and separators add to a message.
_FRAME = 8


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


def text_tokens(characters: float) -> float:
    """Return the tokens that so many characters are expected to have."""
    return characters / CHARACTERS


def request_tokens(body: dict[str, Any]) -> float:
    """Return the input tokens that a chat request is expected to have."""
    return sum(text_tokens(len(message["content"])) + _FRAME for message in body["messages"])


class Budget:
    """What a judge may still spend: a call is reserved at its most expensive and settled at what it took.

    Without a price nothing is counted. `spent` are the dollars of settled calls, earlier runs' included.
    """

    def __init__(
        self,
        price: Price | None,
        limit: float | None = None,
        spent: float = 0.0,
        note: Callable[[float], None] = lambda dollars: None,
    ) -> None:
        """Take the price, the most dollars that may be spent in all, and what earlier runs have spent.

        `note` is told the dollars of each settled call, for the next run to know.
        """
        self.price, self.limit, self.spent, self._note = price, limit, spent, note
        self._reserved: dict[object, float] = {}

    def reserve(self, key: object, input_tokens: float, most_output: float) -> bool:
        """Return whether the limit leaves room for a call of so many tokens, and set its price aside if it does."""
        if self.price is None:
            return True
        cost = self.price.cost(input_tokens, most_output)
        if key in self._reserved:
            return True
        if self.limit is not None and self.spent + sum(self._reserved.values()) + cost > self.limit:
            return False
        self._reserved[key] = cost
        return True

    def settle(self, key: object, input_tokens: int | None, output_tokens: int | None) -> None:
        """Count what a call took instead of what was set aside for it, unless the server does not say what it took."""
        if self.price is None:
            return
        cost = self._reserved.pop(key)
        told = input_tokens is not None and output_tokens is not None
        cost = self.price.cost(input_tokens or 0, output_tokens or 0) if told else cost
        self.spent += cost
        self._note(cost)

    def hold(self, key: object, input_tokens: float, most_output: float) -> None:
        """Set a call's price aside whatever the limit says: it is on its way already."""
        if self.price is not None:
            self._reserved[key] = self.price.cost(input_tokens, most_output)

    def release(self, key: object) -> None:
        """Take back what was set aside for a call that was never made."""
        self._reserved.pop(key, None)
