"""The built-in metrics: which function fills which column of prompt_metrics and reply_metrics.

A further metric is a column of the table in `records.schema`, a function, and a line in one of the three dicts below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from slmsafety.metrics.fluency import Fluency, perplexities
from slmsafety.metrics.lexical import lexical_sophistication
from slmsafety.metrics.memo import Memo
from slmsafety.metrics.readability import flesch_kincaid, gunning_fog, syllables, words
from slmsafety.metrics.reference_models import ReferenceModels
from slmsafety.metrics.similarity import Vector, cosine, embed, self_coherence
from slmsafety.metrics.syntax import Syntax, parse
from slmsafety.metrics.tokens import count_tokens
from slmsafety.models.source import Source
from slmsafety.records.schema import PROMPT_METRICS, REPLY_METRICS, Table, typed, with_sample


class PromptText(NamedTuple):
    """What the metrics of a prompt are computed from; `syllables` are those of each word."""

    fluency: Fluency
    syntax: Syntax
    syllables: list[int]
    sentences: int


class ReplyText(NamedTuple):
    """What the metrics of a reply are computed from; a reply of one sentence has no sentence vectors."""

    fluency: Fluency
    syntax: Syntax
    sentence_vectors: list[Vector]
    frequencies: Mapping[str, float]


PROMPT_COLUMNS: dict[str, Callable[[PromptText], float]] = {
    "tokens": lambda text: text.fluency.tokens,
    "flesch_kincaid": lambda text: flesch_kincaid(text.syllables, text.sentences),
    "gunning_fog": lambda text: gunning_fog(text.syllables, text.sentences),
    "perplexity": lambda text: text.fluency.perplexity,
    "instruction_verbs": lambda text: text.syntax.instruction_verbs if text.syntax.words else math.nan,
    "dependency_distance": lambda text: text.syntax.dependency_distance,
}
REPLY_COLUMNS: dict[str, Callable[[ReplyText], float]] = {
    "tokens": lambda text: text.fluency.tokens,
    "perplexity": lambda text: text.fluency.perplexity,
    "self_coherence": lambda text: self_coherence(text.sentence_vectors),
    "lexical_sophistication": lambda text: lexical_sophistication(text.syntax.content, text.frequencies),
    "lexical_density": lambda text: text.syntax.lexical_density,
}
# Of the vectors of prompts and of their replies, row by row.
PAIR_COLUMNS: dict[str, Callable[[Sequence[Vector], Sequence[Vector]], NDArray[np.float64]]] = {"similarity": cosine}


class Metrics:
    """The built-in metrics of prompts and replies. Results of identical texts are kept, at most 50,000 of each kind."""

    def __init__(self, perplexity: Source, encoder: Source, parser: Source) -> None:
        """Take where the language model, the sentence encoder and the parser come from; each is loaded when needed."""
        self._models = ReferenceModels(perplexity, encoder, parser)
        self._prompts, self._replies = Memo(self._measure_prompts), Memo(self._measure_replies)
        self._vectors = Memo(self._embed)
        # Apart from replies and sentences, so that a suite's prompts last from one model to the next.
        self._prompt_vectors = Memo(self._embed, size=25_000)

    def of_prompts(self, prompts: pd.DataFrame) -> pd.DataFrame:
        """Measure prompts.

        Parameters
        ----------
        prompts : DataFrame
            Rows of the prompts table: suite, instance_id and prompt (str).

        Returns
        -------
        DataFrame
            suite, instance_id, tokens and instruction_verbs (Int64), flesch_kincaid, gunning_fog, perplexity and
            dependency_distance (float64; nan where undefined), with the index of `prompts`.
        """
        numbers = self._prompts(prompts["prompt"].tolist())
        return _rows(prompts, pd.DataFrame(numbers, prompts.index, list(PROMPT_COLUMNS)), PROMPT_METRICS)

    def of_replies(self, replies: pd.DataFrame) -> pd.DataFrame:
        """Measure replies.

        Parameters
        ----------
        replies : DataFrame
            Rows of the responses table, suite, instance_id, model, generation_id and response (str), with their
            prompt (str).

        Returns
        -------
        DataFrame
            The key, tokens (Int64), perplexity, self_coherence, lexical_sophistication, lexical_density and similarity
            (float64; nan where undefined), with the index of `replies`.
        """
        responses = replies["response"].tolist()
        numbers = pd.DataFrame(self._replies(responses), replies.index, list(REPLY_COLUMNS))
        pairs = self.of_pairs(replies["prompt"].tolist(), responses)
        return _rows(replies, numbers.assign(**pairs), REPLY_METRICS)

    def of_pairs(self, prompts: list[str], replies: list[str]) -> dict[str, NDArray[np.float64]]:
        """Return the metrics of each reply with its own prompt: similarity (float64, -1 to 1; nan where undefined)."""
        vectors = self._prompt_vectors(prompts), self._vectors(replies)
        return {column: function(*vectors) for column, function in PAIR_COLUMNS.items()}

    def _measure_prompts(self, texts: list[str]) -> list[tuple[float, ...]]:
        measured = []
        for text, fluency, syntax in zip(texts, self._fluency(texts), parse(texts, self._models.parser), strict=True):
            counts = [syllables(word) for word in words(text)]
            prompt = PromptText(fluency, syntax, counts, max(1, len(syntax.sentences)))
            measured.append(tuple(function(prompt) for function in PROMPT_COLUMNS.values()))
        return measured

    def _measure_replies(self, texts: list[str]) -> list[tuple[float, ...]]:
        parsed = parse(texts, self._models.parser)
        sentences = [syntax.sentences if len(syntax.sentences) > 1 else () for syntax in parsed]
        vectors = iter(self._vectors([sentence for text in sentences for sentence in text]))
        measured = []
        for fluency, syntax, own in zip(self._fluency(texts), parsed, sentences, strict=True):
            reply = ReplyText(fluency, syntax, [next(vectors) for _ in own], self._models.frequencies)
            measured.append(tuple(function(reply) for function in REPLY_COLUMNS.values()))
        return measured

    def _fluency(self, texts: list[str]) -> list[Fluency]:
        """Return perplexities and GPT-2's tokens, from one pass where the language model is GPT-2."""
        found = perplexities(texts, self._models.language_model)
        if self._models.one_vocabulary:
            return found
        tokens = count_tokens(texts, self._models.tokenizer)
        return [Fluency(count, each.perplexity) for count, each in zip(tokens, found, strict=True)]

    def _embed(self, texts: list[str]) -> list[Vector]:
        return embed(texts, self._models.encoder)


def _rows(texts: pd.DataFrame, numbers: pd.DataFrame, table: Table) -> pd.DataFrame:
    """Return the key of the texts beside their numbers, with the dtypes of a metric table."""
    texts = with_sample(texts) if "sample" in table.key else texts
    rows = texts[[column for column in table.key if column != "metrics_id"]].join(numbers)
    return typed(rows, table, list(rows.columns))
