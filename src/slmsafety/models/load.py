"""A causal LM and its tokenizer from a source, ready for left-padded batches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from slmsafety.errors import InputError, unknown
from slmsafety.models.gguf import from_gguf, from_package
from slmsafety.models.packages import GEMMA3_BASE, SMOLLM2
from slmsafety.models.quiet import quiet
from slmsafety.models.source import Source, hub_commit, unavailable

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode, its tokenizer (left padding), its revision and its dtype.

    `revision` is the commit of a hub id, otherwise the sha256 of the GGUF file or of the folder.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    revision: str
    dtype: str

    @property
    def context_length(self) -> int:
        """The most tokens that prompt and response may have together."""
        return int(self.tokenizer.model_max_length)


def load_causal_lm(source: Source, *, dtype: str = "float32") -> LoadedModel:
    """Return a causal LM on the GPU if there is one, else on the CPU.

    Only safetensors are read, or the .bin of a source that says so (by torch's weights-only reader: it runs no code),
    and no code of the model's own is run unless the source trusts it. Raises InputError when the source cannot be
    loaded, with the reason.
    """
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    place, commit, revision = _place(source)
    trust = source.trust_remote_code
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(place, revision=commit, trust_remote_code=trust)
            model: Any = AutoModelForCausalLM.from_pretrained(
                place,
                revision=commit,
                dtype=DTYPES[dtype],
                use_safetensors=True if source.weights == "safetensors" else None,
                weights_only=True,
                trust_remote_code=trust,
            )
    except Exception as error:  # whatever the parsers of its files raise; tokenizers has no error of its own
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error):
            raise
        raise unavailable(str(source), error) from error
    _prepare(tokenizer, model)
    model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    return LoadedModel(model, tokenizer, revision, dtype)


def _place(source: Source) -> tuple[str, str | None, str]:
    """Return what from_pretrained takes (a folder, or a hub id with its commit) and the revision for the record."""
    if source.endpoint is not None:
        raise InputError(f"{source.served} is served by {source.endpoint}; its weights cannot be loaded here")
    if source.hub is not None:
        commit = hub_commit(source.hub, source.revision)
        return source.hub, commit, commit
    definition = source.definition()
    if source.folder is not None:
        return str(source.folder), None, definition["folder_sha256"]
    if source.package is None:
        folder = from_gguf(Path(str(source.gguf)))
    elif source.package in (SMOLLM2, GEMMA3_BASE):
        folder = from_package(source.package)
    else:
        raise unknown("package with a causal LM", source.package, (SMOLLM2, GEMMA3_BASE))
    return str(folder), None, definition["gguf_sha256"]


def _prepare(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
    """Pad on the left, with the end token where there is no pad token, and limit the length to the model's window.

    The window is the smaller of the tokenizer's and the model's: either may be unset or larger than the other.
    """
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if positions is not None:
        tokenizer.model_max_length = min(tokenizer.model_max_length, positions)
