"""The two metric tables: prompt_metrics and reply_metrics."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from slmsafety.metrics.similarity import cosine
from slmsafety.metrics.tokens import count_tokens
from slmsafety.models.encoder import gpt2_tokenizer, sentence_encoder
from slmsafety.records.schema import PROMPT_METRICS, REPLY_METRICS


class Metrics:
    """The reference models of the metrics, each loaded at its first use."""

    @cached_property
    def tokenizer(self) -> Any:
        """GPT-2's tokenizer."""
        return gpt2_tokenizer().tokenizer

    @cached_property
    def encoder(self) -> Any:
        """The sentence encoder MiniLM."""
        return sentence_encoder().model

    def of_prompts(self, prompts: pd.DataFrame) -> pd.DataFrame:
        """Return the prompt_metrics of a prompts table."""
        tokens = count_tokens(prompts["prompt"].tolist(), self.tokenizer)
        frame = prompts[["suite", "instance_id"]].assign(tokens=tokens)
        return frame.reindex(columns=list(PROMPT_METRICS.columns))

    def of_replies(self, replies: pd.DataFrame) -> pd.DataFrame:
        """Return the reply_metrics of replies with their prompts; an empty reply has 0 tokens and similarity nan."""
        frame = replies[["suite", "instance_id", "model", "generation_id"]].assign(
            tokens=count_tokens(replies["response"].tolist(), self.tokenizer),
            similarity=self._similarity(replies["prompt"].tolist(), replies["response"].tolist()),
        )
        return frame.reindex(columns=list(REPLY_METRICS.columns))

    def _similarity(self, prompts: list[str], replies: list[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
        filled = np.array([bool(reply.strip()) for reply in replies])
        result = np.full(len(replies), np.nan)
        if filled.any():
            texts = [[text for text, keep in zip(side, filled, strict=True) if keep] for side in (prompts, replies)]
            first, second = (self.encoder.encode(side, show_progress_bar=False) for side in texts)
            result[filled] = cosine(first, second)
        return result
