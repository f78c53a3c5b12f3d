"""GGUF files: dequantised once to float32 and kept as safetensors, which load several times faster.

The folder of a file is named by the file's sha256 and the versions of this code and of transformers, which reads the
file: another version may read it otherwise. It is built beside its place, under a
lock, and moved there when complete: a killed run leaves no half of a model.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from gguf import GGUFReader
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS
from transformers.integrations.gguf.reader import read_gguf_metadata
from transformers.integrations.gguf.utils import is_gguf_arch_supported
from transformers.modeling_gguf_pytorch_utils import TensorProcessor, get_gguf_hf_weights_map

from slmsafety.errors import InputError
from slmsafety.models.checkpoint import refuse_misfit, refuse_surplus
from slmsafety.models.engine import transformers_engine
from slmsafety.models.hub import unavailable
from slmsafety.models.packages import GEMMA3_BASE, check_sha256, missing, package, package_folder
from slmsafety.models.quiet import quiet
from slmsafety.models.source import DEQUANTISER
from slmsafety.paths import cache_folder
from slmsafety.records.ids import file_sha256

_JOINED = "joined.gguf"
# Vocabularies whose text is split by GPT-2's rule (llama.cpp's names for them).
_GPT2_SPLIT = ("gpt-2", "mpt", "olmo")


def from_package(name: str) -> Path:
    """Return the folder of a package's model as safetensors; the first call dequantises it (up to a minute).

    Raises InputError when the package is not installed or its GGUF is not the expected file.
    """
    return _cached(package(name).sha256, lambda scratch: _package_gguf(name, scratch))


def from_gguf(path: Path) -> Path:
    """Return the folder of any GGUF file's model as safetensors; InputError when transformers cannot read the file."""
    if not path.is_file():
        raise InputError(f"{path}: no such GGUF file")
    return _cached(file_sha256(path), lambda scratch: path)


def _package_gguf(name: str, scratch: Path) -> Path:
    """Return the GGUF of a package; Gemma's is joined from its chunks into the scratch folder."""
    folder = package_folder(name)
    if name != GEMMA3_BASE:
        return folder / package(name).file
    try:
        return Path(importlib.import_module(package(name).module).assemble(scratch / _JOINED))
    except ModuleNotFoundError as error:
        raise missing(name, str(error.name)) from error


def _cached(sha256: str, locate: Callable[[Path], Path]) -> Path:
    """Return the cache folder of a GGUF, built from the file that `locate` returns when the folder is not there yet."""
    version = transformers_engine().replace(" ", "-")
    folder = cache_folder() / "gguf" / f"{sha256[:16]}-{DEQUANTISER}-{version}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if folder.is_dir():
            return folder
        scratch = folder.with_name(f"{folder.name}.partial")
        # The lock is ours, so whatever lies there was left by a killed run.
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        try:
            gguf = locate(scratch)
            check_sha256(gguf, sha256)
            _dequantise(gguf, scratch)
            (scratch / _JOINED).unlink(missing_ok=True)
            os.replace(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _dequantise(gguf: Path, folder: Path) -> None:
    """Write a GGUF's tokenizer and its weights in float32 into a folder."""
    location, name = str(gguf.parent), gguf.name
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(location, gguf_file=name)
            _split_as_trained(tokenizer, gguf)
            tokenizer.save_pretrained(folder)
            # Without dequantize=True the model keeps a quantiser that refuses to be saved.
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                location,
                gguf_file=name,
                dtype=torch.float32,
                quantization_config=GgufConfig(dequantize=True),
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # refused below, by name
            )
            model, found = loaded
            refuse_misfit(str(gguf), found)
            _refuse_unread(model, gguf)
            model.save_pretrained(folder)
    except InputError:
        raise
    except Exception as error:  # a damaged file makes its parsers raise anything
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            raise
        raise unavailable(str(gguf), error) from error


def _refuse_unread(model: Any, gguf: Path) -> None:
    """Refuse a file with tensors that the model has no place for; transformers drops them without a word.

    Its own list of names is not enough, since parts of a mixture go by others: what counts is whether the file holds
    more numbers than the model took.
    """
    metadata, _ = read_gguf_metadata(str(gguf))
    if is_gguf_arch_supported(str(metadata.get("general.architecture"))):
        return  # this newer way reports them with the rest
    tensors = {tensor.name: int(tensor.n_elements) for tensor in GGUFReader(gguf).tensors}
    taken = {weight.data_ptr(): weight.numel() for weight in model.state_dict().values()}
    if sum(tensors.values()) > sum(taken.values()):
        processor = TensorProcessor(config=model.config.to_dict())  # type: ignore[no-untyped-call] # it has no types
        known = get_gguf_hf_weights_map(model, processor)
        refuse_surplus(str(gguf), [name for name in tensors if name not in known] or list(tensors))


def _split_as_trained(tokenizer: Any, gguf: Path) -> None:
    """Make a byte-level tokenizer split text as its vocabulary was trained.

    transformers 5.24 keeps GPT-2's split for every name that it does not know, and does not say so. SmolLM2 splits
    digits one by one: with GPT-2's rule a line break before a digit gets other ids.
    """
    metadata = read_gguf_metadata(str(gguf))[0]
    rule = metadata.get("tokenizer.ggml.pre")
    if metadata.get("tokenizer.ggml.model") != "gpt2" or rule in GGUF_PRE_TOKENIZER_SPLITS or rule in _GPT2_SPLIT:
        return
    if rule != "smollm":
        raise InputError(
            f"{gguf}: pre-tokenizer '{rule}' is not known, so token ids may be wrong; use the original model's folder"
        )
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
