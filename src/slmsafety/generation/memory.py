"""How many tokens of a batch fit into memory: an estimate from a budget, and a way to try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from transformers import PreTrainedModel

from slmsafety.errors import InputError
from slmsafety.generation.decoding import PREFILL
from slmsafety.models.load import LoadedModel

T = TypeVar("T")
# What torch says on GPUs, on CPUs and from cuBLAS; only the first has an error class of its own.
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")


def within_memory(work: Callable[[], T]) -> T | None:
    """Return what `work` returns, or None when it ran out of memory; every other error is raised.

    Linux may grant memory that it does not have, and then ends the process: that cannot be caught.
    """
    try:
        return work()
    except RuntimeError as error:
        if not any(text in str(error) for text in OUT_OF_MEMORY):
            raise
    # Only out here has the error let go of the tensors in its traceback.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


# Measured: what Python, torch, transformers and pandas hold before there is a model; about what CUDA holds on a GPU.
_LIBRARIES = 600_000_000
# Measured: a token on its way through the model holds no more than this many times the widest layer's activation.
_ACTIVATIONS = 12
# One layer is merged at a time, out of place: as new keys and values, from rows of the old, beside the old.
_LAYERS_IN_MERGING = 3


class Cached(NamedTuple):
    """Bytes of a model's cache for each token (keys and values) and each row (recurrent states); number of layers."""

    token: int
    row: int
    layers: int


def token_budget(loaded: LoadedModel, memory_gb: float, batch_size: int) -> int | None:
    """Return the most tokens of a batch, prompts, replies and padding, that fit into a memory budget.

    Parameters
    ----------
    loaded : LoadedModel
        The model.
    memory_gb : float
        The budget of this process in 1e9 bytes, of its GPU's memory if it has one.
    batch_size : int
        The most rows of a batch.

    Returns
    -------
    int or None
        The `max_batch_tokens` of `decoding.BatchLimits`, 1 or more; None where tokens leave nothing in the cache (a
        purely recurrent one), so that only rows take memory.

    Raises
    ------
    InputError
        When nothing is left for a single token.

    Notes
    -----
    Exact: the weights, and the cache of a token and of a row (measured with one token). Estimated: libraries, the
    activations and attention scores of `PREFILL` tokens (a single longer prompt needs more), the logits of
    `batch_size` rows. A sliding window counts as if it kept all tokens. Not counted: what else the process holds, the
    cache of a start that all prompts share (of one row), and the pages of the weights' file while it is read.
    """
    model = loaded.model
    cached = cache_bytes(model)
    fixed = weight_bytes(model) + _LIBRARIES + prefill_bytes(model) + batch_size * (2 * cached.row + logit_bytes(model))
    left = memory_gb * 1e9 - fixed
    token = cached.token * (1 + _LAYERS_IN_MERGING / cached.layers)
    if left < token:
        raise InputError(
            f"memory_gb {memory_gb:g}: the model and {batch_size} rows need {(fixed + token) / 1e9:.2f} GB without any"
            " prompt; give more, or a smaller batch_size"
        )
    return int(left / token) if token else None


def weight_bytes(model: PreTrainedModel) -> int:
    """Return the bytes of a model's parameters and buffers; tied ones count once."""
    held = {tensor.data_ptr(): tensor for tensor in (*model.parameters(), *model.buffers())}
    return sum(tensor.numel() * tensor.element_size() for tensor in held.values())


def cache_bytes(model: PreTrainedModel) -> Cached:
    """Return the size of the model's cache after one token, measured, for any kind of layer.

    A cache without layers (states of a model's own make) counts as the states of a row.
    """
    token = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    with torch.inference_mode():
        output = model(token, use_cache=True)
    layers = getattr(output.get("cache"), "layers", None)
    if layers is None:
        states = [held for name, value in output.items() if name != "logits" for held in _tensors(value)]
        return Cached(0, _size(states), 1)
    kept = [(getattr(layer, "keys", None), getattr(layer, "values", None)) for layer in layers]
    states = [
        state
        for layer in layers
        for name in ("conv_states", "recurrent_states")
        for state in getattr(layer, name, {}).values()
    ]
    return Cached(_size([tensor for pair in kept for tensor in pair]), _size(states), len(layers))


def _tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in a value, or in the lists of lists that it is."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [held for each in value for held in _tensors(each)] if isinstance(value, list | tuple) else []


def prefill_bytes(model: PreTrainedModel) -> int:
    """Return an estimate of the bytes that `PREFILL` prompt tokens take while they go through the model."""
    config = model.config.get_text_config()
    vocabulary = _vocabulary(model)
    shapes = [weight.shape for weight in model.parameters() if weight.ndim == 2 and vocabulary not in weight.shape]
    widest = max(max(shape) for shape in shapes)
    heads = getattr(config, "num_attention_heads", 0) if config._attn_implementation == "eager" else 0
    # Scores are there three times: in the model's dtype, in float32 for the softmax, and back; the mask twice.
    scores = PREFILL**2 * (heads * (2 * model.dtype.itemsize + 4) + 1 + model.dtype.itemsize)
    return PREFILL * _ACTIVATIONS * widest * model.dtype.itemsize + scores


def logit_bytes(model: PreTrainedModel) -> int:
    """Return the bytes of the logits of a row's next token: in the model's dtype, and twice in float32."""
    return _vocabulary(model) * (model.dtype.itemsize + 8)


def _vocabulary(model: PreTrainedModel) -> int:
    embeddings: Any = model.get_input_embeddings()
    return int(embeddings.weight.shape[0])


def _size(tensors: Sequence[torch.Tensor | None]) -> int:
    """Return the bytes of the tensors, None left out."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)
