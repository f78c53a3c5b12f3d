"""Per-token perplexity under a causal language model, with the tokens counted in the same pass (paper section 3.3).

A text of tokens t1..tn has perplexity exp(-(1/(n-1)) sum over i=2..n of ln p(ti | t1..t(i-1))). No token is put before
the text, so the first one is not scored and a text of one token has none.

A text that is longer than the context length is read in windows that move on by half their length; each token is scored
once, in the first window that holds it, with at least half a window of tokens before it (the strided evaluation of the
transformers documentation, "Perplexity of fixed-length models").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch.nn.functional import cross_entropy

from slmsafety.errors import InputError
from slmsafety.metrics.tokens import token_ids
from slmsafety.models.finite import refuse_endless
from slmsafety.models.load import LoadedModel

MAX_WINDOW = 1024
"""The most tokens that a model reads at once: GPT-2's context length, also for models with a longer one."""
MAX_LOGIT_BYTES = {"cpu": 2**27, "cuda": 2**32}
"""The most bytes of the logits of one batch. On a CPU more rows are no faster, and padding costs time."""


class Fluency(NamedTuple):
    """A text's tokens and its per-token perplexity (1 or more; nan with less than two tokens)."""

    tokens: int
    perplexity: float


class _Window(NamedTuple):
    """Tokens that are read together, of which those from index `first` on are scored."""

    tokens: tuple[int, ...]
    first: int


def perplexities(texts: list[str], loaded: LoadedModel) -> list[Fluency]:
    """Return the number of tokens and the perplexity of each text.

    Parameters
    ----------
    texts : list of str
        Texts of any length; a lone surrogate counts as U+FFFD.
    loaded : LoadedModel
        The causal language model and its tokenizer.

    Returns
    -------
    list of Fluency
        In the order of `texts`: tokens (0 for an empty text) and perplexity (1 for a text that the model predicts with
        certainty, no upper bound; nan with less than two tokens).

    Raises
    ------
    InputError
        For losses that are nan or infinite, perplexities beyond any number, and tokens that the model has no embedding
        of.

    Notes
    -----
    Texts of similar length are read together, padded on the right. No token sees what comes after it, so a number is
    that of the single text, without mask or positions. Windows of the same tokens are read once.
    """
    ids = token_ids(texts, loaded.tokenizer)
    loaded.refuse_unread(ids)
    size = min(loaded.context_length, MAX_WINDOW)
    windows: dict[_Window, list[int]] = {}
    for text, own in enumerate(ids):
        for window in _windows(own, size):
            windows.setdefault(window, []).append(text)
    sums = [0.0] * len(ids)
    for batch in _batches(windows, _max_batch_tokens(loaded)):
        for window, loss in zip(batch, _losses(batch, loaded), strict=True):
            for text in windows[window]:
                sums[text] += loss
    return [
        Fluency(len(own), _perplexity(total / (len(own) - 1), loaded.name) if len(own) > 1 else math.nan)
        for own, total in zip(ids, sums, strict=True)
    ]


def _perplexity(loss: float, model: str) -> float:
    """Return exp(loss); InputError where it is beyond all numbers, as for weights that are far too large."""
    try:
        return math.exp(loss)
    except OverflowError as error:
        raise InputError(
            f"{model}: the mean loss of a text is {loss:.0f} nats a token, and its perplexity beyond any number; "
            "use other weights"
        ) from error


def _windows(ids: list[int], size: int) -> Iterator[_Window]:
    """Yield the windows of a text; none where there is nothing to score."""
    scored = 1
    while scored < len(ids):
        start = 0 if scored == 1 else scored - size // 2
        yield _Window(tuple(ids[start : start + size]), scored - start)
        scored = start + size


def _max_batch_tokens(loaded: LoadedModel) -> int:
    """Return the most tokens of a batch, by the memory that their logits take; a single window may have more."""
    return MAX_LOGIT_BYTES[loaded.model.device.type] // (4 * int(loaded.model.config.get_text_config().vocab_size))


def _batches(windows: Iterable[_Window], max_batch_tokens: int) -> Iterator[list[_Window]]:
    """Yield batches of windows, the longest first, each within the limit."""
    batch: list[_Window] = []
    for window in sorted(windows, key=lambda each: -len(each.tokens)):
        if batch and (len(batch) + 1) * len(batch[0].tokens) > max_batch_tokens:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


@torch.inference_mode()
def _losses(batch: list[_Window], loaded: LoadedModel) -> list[float]:
    """Return the summed cross-entropy loss, -ln p, of the scored tokens of each window."""
    inputs = torch.zeros(len(batch), max(len(window.tokens) for window in batch), dtype=torch.long)
    for row, window in enumerate(batch):
        inputs[row, : len(window.tokens)] = torch.tensor(window.tokens)
    inputs = inputs.to(loaded.model.device)
    logits = loaded.model(input_ids=inputs, use_cache=False).logits
    losses = []
    for row, (tokens, first) in enumerate(batch):  # row by row: the softmax of all would take as much memory again
        scores = logits[row, first - 1 : len(tokens) - 1].float()
        losses.append(cross_entropy(scores, inputs[row, first : len(tokens)], reduction="sum"))
    summed = torch.stack(losses)
    refuse_endless(summed, f"{loaded.name}: the losses behind perplexity", loaded.dtype)
    return [float(loss) for loss in summed.tolist()]
