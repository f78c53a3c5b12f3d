"""The reference models of the metrics, each loaded at its first use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sentence_transformers import SentenceTransformer
from spacy.language import Language
from transformers import PreTrainedTokenizerBase

from slmsafety.models.encoder import dependency_parser, gpt2_tokenizer, sentence_encoder, word_frequencies
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.source import Source


@dataclass(frozen=True)
class ReferenceModels:
    """Where the language model, the sentence encoder and the parser come from, and what they load."""

    perplexity_source: Source
    encoder_source: Source
    parser_source: Source

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """GPT-2's tokenizer, which counts tokens."""
        return gpt2_tokenizer().tokenizer

    @cached_property
    def language_model(self) -> LoadedModel:
        """The causal language model of the perplexities."""
        return load_causal_lm(self.perplexity_source)

    @cached_property
    def one_vocabulary(self) -> bool:
        """Whether the language model has GPT-2's vocabulary, so that its own pass counts the tokens."""
        return bool(self.language_model.tokenizer.get_vocab() == self.tokenizer.get_vocab())

    @cached_property
    def encoder(self) -> SentenceTransformer:
        """The sentence encoder."""
        return sentence_encoder(self.encoder_source).model

    @cached_property
    def parser(self) -> Language:
        """The spaCy pipeline with tagger and dependency parser."""
        return dependency_parser(self.parser_source).nlp

    @cached_property
    def frequencies(self) -> Mapping[str, float]:
        """The share (0 to 1) of each word in running English."""
        return word_frequencies().frequencies
