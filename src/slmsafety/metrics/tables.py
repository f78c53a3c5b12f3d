"""The two metric tables: prompt_metrics and reply_metrics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from spacy.language import Language
from transformers import PreTrainedTokenizerBase

from slmsafety.metrics.fluency import Fluency, perplexities
from slmsafety.metrics.lexical import lexical_sophistication
from slmsafety.metrics.once import Once
from slmsafety.metrics.readability import flesch_kincaid, gunning_fog, syllables, words
from slmsafety.metrics.similarity import Vectors, cosine, embed, self_coherence
from slmsafety.metrics.syntax import parse
from slmsafety.metrics.tokens import count_tokens
from slmsafety.models.encoder import dependency_parser, gpt2_tokenizer, sentence_encoder, word_frequencies
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.source import Source


class PromptNumbers(NamedTuple):
    """The metrics of a prompt's text."""

    tokens: int
    flesch_kincaid: float
    gunning_fog: float
    perplexity: float
    instruction_verbs: float
    dependency_distance: float


class ReplyNumbers(NamedTuple):
    """The metrics of a reply's text alone."""

    tokens: int
    perplexity: float
    self_coherence: float
    lexical_sophistication: float
    lexical_density: float


class Metrics:
    """The metrics by their reference models, each loaded at its first use. Identical texts are measured once."""

    def __init__(self, perplexity: Source, encoder: Source, parser: Source) -> None:
        """Take where the language model, the sentence encoder and the parser come from."""
        self._sources = {"perplexity": perplexity, "encoder": encoder, "parser": parser}
        self._prompts, self._replies = Once(self._measure_prompts), Once(self._measure_replies)
        self._vectors: Once[Vectors] = Once(self._embed)
        # Apart from replies and sentences, so that a suite's prompts last from one model to the next.
        self._prompt_vectors: Once[Vectors] = Once(self._embed, size=25_000)

    def of_prompts(self, prompts: pd.DataFrame) -> pd.DataFrame:
        """Return suite, instance_id and the six metrics of each row of a prompts table (suite, instance_id, prompt)."""
        numbers = pd.DataFrame(self._prompts(prompts["prompt"].tolist()), prompts.index, PromptNumbers._fields)
        return prompts[["suite", "instance_id"]].join(numbers.astype({"instruction_verbs": "Int64"}))

    def of_replies(self, replies: pd.DataFrame) -> pd.DataFrame:
        """Return the key and the six metrics of replies (response) with their prompts (prompt)."""
        numbers = pd.DataFrame(self._replies(replies["response"].tolist()), replies.index, ReplyNumbers._fields)
        similarity = self._similarity(replies["prompt"].tolist(), replies["response"].tolist())
        keys = replies[["suite", "instance_id", "model", "generation_id"]]
        return keys.join(numbers).assign(similarity=similarity)

    def _measure_prompts(self, texts: list[str]) -> list[PromptNumbers]:
        made = []
        for text, fluency, syntax in zip(texts, self._fluency(texts), parse(texts, self._parser), strict=True):
            counts, sentences = [syllables(word) for word in words(text)], max(1, len(syntax.sentences))
            made.append(
                PromptNumbers(
                    fluency.tokens,
                    flesch_kincaid(counts, sentences),
                    gunning_fog(counts, sentences),
                    fluency.perplexity,
                    syntax.instruction_verbs if syntax.words else np.nan,
                    syntax.dependency_distance,
                )
            )
        return made

    def _measure_replies(self, texts: list[str]) -> list[ReplyNumbers]:
        parsed = parse(texts, self._parser)
        coherence = self_coherence([syntax.sentences for syntax in parsed], self._vectors)
        return [
            ReplyNumbers(
                fluency.tokens,
                fluency.perplexity,
                coherent,
                lexical_sophistication(syntax.content, self._frequencies),
                syntax.lexical_density,
            )
            for fluency, coherent, syntax in zip(self._fluency(texts), coherence, parsed, strict=True)
        ]

    def _fluency(self, texts: list[str]) -> list[Fluency]:
        """Perplexity, and GPT-2's tokens: the language model's own where it is GPT-2, of the same pass."""
        found = perplexities(texts, self._lm)
        if self._lm_is_gpt2:
            return found
        tokens = count_tokens(texts, self._tokenizer)
        return [Fluency(count, each.perplexity) for count, each in zip(tokens, found, strict=True)]

    def _similarity(self, prompts: list[str], replies: list[str]) -> NDArray[np.float64]:
        return cosine(self._prompt_vectors(prompts), self._vectors(replies)) if prompts else np.empty(0)

    def _embed(self, texts: list[str]) -> list[Vectors]:
        return embed(texts, self._encoder)

    @cached_property
    def _tokenizer(self) -> PreTrainedTokenizerBase:
        return gpt2_tokenizer().tokenizer

    @cached_property
    def _lm(self) -> LoadedModel:
        return load_causal_lm(self._sources["perplexity"])

    @cached_property
    def _lm_is_gpt2(self) -> bool:
        return bool(self._lm.tokenizer.get_vocab() == self._tokenizer.get_vocab())

    @cached_property
    def _encoder(self) -> SentenceTransformer:
        return sentence_encoder(self._sources["encoder"]).model

    @cached_property
    def _parser(self) -> Language:
        return dependency_parser(self._sources["parser"]).nlp

    @cached_property
    def _frequencies(self) -> Mapping[str, float]:
        return word_frequencies().frequencies
