"""How a judge model is asked beside its rubric and its request: tokens, temperature, and the names of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

TokenKey = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True)
class Asking:
    """The token budget of a verdict, reasoning included (None: the rubric's); its name; whether temperature 0 is sent.

    What has its default is left out of a judge's definition, so that older ids stay.
    """

    max_tokens: int | None = None
    token_key: TokenKey = "max_tokens"
    temperature: Literal[0] | None = 0

    def definition(self, rubric_tokens: int) -> dict[str, Any]:
        """Return what differs from how judges were asked before these keys."""
        return {
            **({} if self.max_tokens in (None, rubric_tokens) else {"max_tokens": self.max_tokens}),
            **({} if self.token_key == "max_tokens" else {"token_key": self.token_key}),
        }

    def body(self, rubric_tokens: int) -> dict[str, Any]:
        """Return these keys of a request."""
        heat = {} if self.temperature is None else {"temperature": self.temperature}
        return {**heat, self.token_key: self.max_tokens or rubric_tokens}


_TOKENS = "the judge's keys max_tokens and token_key say how many tokens are asked for, and under which name"
HINTS = {
    "max_tokens": _TOKENS,
    "max_completion_tokens": _TOKENS,
    "temperature": "with the key temperature: null the judge is sent none",
}
"""What a judge's entry can do about a parameter."""
