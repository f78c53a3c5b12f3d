"""A causal LM and its tokenizer from a source, ready for left-padded batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from slmsafety.errors import InputError, unknown
from slmsafety.models.checkpoint import (
    refuse_misfit,
    refuse_parts_from_elsewhere,
    refuse_unconverted,
    weights_advice,
)
from slmsafety.models.gguf import from_gguf, from_package
from slmsafety.models.hub import unavailable
from slmsafety.models.packages import GEMMA3_BASE, SMOLLM2
from slmsafety.models.quiet import quiet
from slmsafety.models.source import Source, hub_commit, hub_file
from slmsafety.models.tokens import refuse_other_vocabulary, window

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode with its tokenizer.

    Parameters
    ----------
    model : PreTrainedModel
        The model, on its device.
    tokenizer : PreTrainedTokenizerBase
        Its tokenizer, which pads on the left.
    revision : str
        The commit of a hub id, otherwise the sha256 of the GGUF file or of the folder.
    dtype : str
        A name of `DTYPES`.
    name : str, default "the model"
        How an error names it: its source, such as 'hub someone/model'.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    revision: str
    dtype: str
    name: str = "the model"

    @property
    def context_length(self) -> int:
        """The most tokens that prompt and response may have together."""
        return int(self.tokenizer.model_max_length)

    @property
    def vocabulary(self) -> int:
        """The number of tokens that the model has an embedding of."""
        embeddings: Any = self.model.get_input_embeddings()
        return int(embeddings.weight.shape[0])

    @property
    def pad_id(self) -> int:
        """The id that fills batches up: the tokenizer's, or 0 where it names none that the model has an embedding of.

        Any id will do, a word's too: every batch has a mask or an order that keeps the filling out of sight.
        """
        own = self.tokenizer.pad_token_id
        return int(own) if own is not None and 0 <= own < self.vocabulary else 0

    def refuse_unread(self, texts: Iterable[Iterable[int]]) -> None:
        """Raise InputError for token ids without an embedding, which added tokens of a tokenizer can have."""
        highest = max((max(ids, default=0) for ids in texts), default=0)
        if highest >= self.vocabulary:
            token = self.tokenizer.convert_ids_to_tokens(highest)
            raise InputError(
                f"{self.name}: a text holds the token '{token}' ({highest}), and the model reads "
                f"{self.vocabulary} tokens only; leave the text out, or remove that token from the tokenizer's files"
            )


def load_causal_lm(source: Source, *, dtype: str = "float32") -> LoadedModel:
    """Return a causal language model on the GPU if there is one, else on the CPU.

    Parameters
    ----------
    source : Source
        Where the weights come from; no endpoint.
    dtype : {"float32", "bfloat16", "float16"}, default "float32"
        The number format of the weights.

    Returns
    -------
    LoadedModel
        The model and its tokenizer.

    Raises
    ------
    InputError
        When the dtype is unknown or the source cannot be loaded, with the reason and what to do; for a checkpoint whose
        weights are not those of its architecture, an adapter, code that no revision pins, the tokenizer of another
        model, and a folder that changes on the way.

    Notes
    -----
    Only safetensors are read, or the .bin of a source with `weights="bin"` (by torch's weights-only reader, which runs
    no code). A model's own code is run only for a source with `trust_remote_code`.
    """
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    location, commit, revision = locate(source)
    trust = source.trust_remote_code
    try:
        with quiet() as reports:
            tokenizer = AutoTokenizer.from_pretrained(location, revision=commit, trust_remote_code=trust)
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                location,
                revision=commit,
                dtype=DTYPES[dtype],
                use_safetensors=True if source.weights == "safetensors" else None,
                weights_only=True,
                trust_remote_code=trust,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below, by name
            )
    except Exception as error:  # the parsers of its files raise anything; tokenizers raises Exception itself
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error):
            raise
        refuse_unconverted(str(source), reports.unconverted())
        raise unavailable(str(source), error, weights_advice(error, source.folder, source.weights)) from error
    model, found = loaded
    refuse_misfit(str(source), found)
    if source.folder is not None and source.definition()["folder_sha256"] != revision:
        raise InputError(f"{source}: its files changed while it was loaded; run again when they stay as they are")
    made = LoadedModel(model, tokenizer, revision, dtype, str(source))
    refuse_other_vocabulary(str(source), tokenizer, made.vocabulary)
    _prepare(tokenizer, model)
    model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    return made


def locate(source: Source) -> tuple[str, str | None, str]:
    """Return what from_pretrained takes (a folder, or a hub id with its commit) and the revision for the record."""
    if source.endpoint is not None:
        raise InputError(f"{source.served} is served by {source.endpoint}; its weights cannot be loaded here")
    if source.hub is not None:
        commit = hub_commit(source.hub, source.revision)
        refuse_parts_from_elsewhere(str(source), lambda name: hub_file(str(source.hub), name, commit))
        return source.hub, commit, commit
    definition = source.definition()
    if source.folder is not None:
        refuse_parts_from_elsewhere(str(source), source.folder.joinpath)
        return str(source.folder), None, definition["folder_sha256"]
    if source.package is None:
        folder = from_gguf(Path(str(source.gguf)))
    elif source.package in (SMOLLM2, GEMMA3_BASE):
        folder = from_package(source.package)
    else:
        raise unknown("package with a causal LM", source.package, (SMOLLM2, GEMMA3_BASE))
    return str(folder), None, definition["gguf_sha256"]


def _prepare(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
    """Pad on the left, with the end token where there is no pad token, and limit the context length."""
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.model_max_length = window(model.config, tokenizer)
