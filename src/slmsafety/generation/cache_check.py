"""A look at a loaded model before its first batch: are its replies in a batch those of the model itself?

A cache that batches cannot rearrange gives other replies without any error: recurrent states take in the padding, and
a cache that does not know its length is fed every token again. So a few prompts go through the decoder, and what comes
out is held against plain forward passes: no cache, no padding, one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from slmsafety.errors import InputError
from slmsafety.generation.decoding import SHARED, BatchLimits, DecodeConfig, decode, shared_start
from slmsafety.generation.memory import OUT_OF_MEMORY, cache_bytes
from slmsafety.generation.one_by_one import decode_alone
from slmsafety.models.load import LoadedModel

Decoder = Callable[[PreTrainedModel, list[list[int]], DecodeConfig, BatchLimits], Iterator[list[tuple[int, list[int]]]]]
# Of three lengths, so that two of them are padded. Their content does not matter.
_PROBES = (
    "Hello",
    "Name three colours of the rainbow.",
    "The train to the coast leaves at nine every morning, stops in four small towns, and is often late. Why is that?",
)
_NEW = 8
# What a cache of a make that nobody foresaw raises.
_OF_A_CACHE = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
# How far below the best token of a plain pass a chosen one may lie, as a share of the best one's lead over the mean:
# more than rounding did in any of the tests. A wrong cache soon chooses tokens that lie as far below as any other.
_TOLERANCE = {"float32": 1e-3, "float16": 0.02, "bfloat16": 0.1}


class Checked(NamedTuple):
    """How a model is to be decoded; `alone` is whether one prompt at a time, since its batches give other replies."""

    decode: Decoder
    alone: bool


def checked_decoder(loaded: LoadedModel) -> Checked:
    """Return the decoder that gives the model's own replies: in batches if they do, else one prompt at a time.

    Parameters
    ----------
    loaded : LoadedModel
        The model, in the dtype that it will run in. Near ties, which rounding decides, count as equal.

    Returns
    -------
    Checked
        The decoder.

    Raises
    ------
    InputError
        When neither gives the replies of plain forward passes, and for logits that are nan or infinite.

    Notes
    -----
    Three prompts get eight new tokens in one batch, and four in a batch of two that one leaves and another joins; then
    four once more behind a start that all share, where such a start would be read once. A cache without keys is never
    batched: its states take in the padding. In all about 20 to 30 passes of the model.
    """
    batches = _problem(loaded, decode) if _keeps_tokens(loaded) else "its cache keeps no tokens apart"
    if batches is None:
        return Checked(decode, False)
    alone = _problem(loaded, decode_alone)
    if alone is None:
        return Checked(decode_alone, True)
    raise InputError(
        f"model type {loaded.model.config.model_type}: its replies with a cache are not those of plain forward passes "
        f"(in batches: {batches}; one prompt at a time: {alone}); ask it behind an endpoint instead"
    )


def _keeps_tokens(loaded: LoadedModel) -> bool:
    """Whether the model's cache has something for each token, as attention has and recurrence has not."""
    try:
        return cache_bytes(loaded.model).token > 0
    except _OF_A_CACHE as error:
        _raise_if_full(error)
        return False  # whatever it is, the check of single prompts says more


def _problem(loaded: LoadedModel, decoder: Decoder) -> str | None:
    """Return what is wrong with a decoder's replies, or None."""
    prompts = _prompts(loaded)
    to_the_limit, whole_batch = DecodeConfig(_NEW, [], loaded.pad_id), BatchLimits(len(prompts))
    try:
        whole = _replies(decoder(loaded.model, prompts, to_the_limit, whole_batch))
        wrong = sum(not _is_own(loaded, prompts[row], new) for row, new in whole.items())
        # Its second token ends the first row, whose place the third prompt takes.
        ending = DecodeConfig(_NEW // 2, [whole[0][1]], to_the_limit.pad_token_id)
        joined = _replies(decoder(loaded.model, prompts, ending, BatchLimits(len(prompts) - 1)))
        for row, new in joined.items():
            said = new + ending.eos_token_ids if len(new) < ending.max_new_tokens else new
            wrong += said != whole[row][: len(said)] and not _is_own(loaded, prompts[row], said)
        alike = _alike(loaded, prompts) if decoder is decode else []
        again = to_the_limit._replace(max_new_tokens=_NEW // 2)
        shared = _replies(decoder(loaded.model, alike, again, whole_batch)) if alike else {}
        wrong += sum(not _is_own(loaded, alike[row], new) for row, new in shared.items())
    except InputError:
        raise
    except _OF_A_CACHE as error:
        _raise_if_full(error)
        return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return f"{wrong} of {len(whole) + len(joined) + len(shared)} replies differ" if wrong else None


def _raise_if_full(error: Exception) -> None:
    """Raise an error that says nothing of the model: memory ran out."""
    if any(text in str(error) for text in OUT_OF_MEMORY):
        raise error


def _prompts(loaded: LoadedModel) -> list[list[int]]:
    """The probes as token ids, of three lengths that leave room for new ones in the model's window."""
    most = max(3, loaded.context_length - _NEW)
    ids: list[list[int]] = [loaded.tokenizer.encode(text, verbose=False) for text in _PROBES]
    return [row[: max(1, most // part)] or [0] for row, part in zip(ids, (3, 2, 1), strict=True)]


def _alike(loaded: LoadedModel, prompts: list[list[int]]) -> list[list[int]]:
    """The prompts behind a start that all share, as that of a chat template, where it goes through the model by itself;
    none where the model does not allow that."""
    start = (prompts[-1] * SHARED)[:SHARED]
    alike = [[*start, *prompt][: max(SHARED, loaded.context_length - _NEW)] for prompt in prompts]
    return alike if shared_start(loaded.model, alike, DecodeConfig(1, [], loaded.pad_id)) is not None else []


def _replies(lists: Iterator[list[tuple[int, list[int]]]]) -> dict[int, list[int]]:
    """The new ids of each row, by the row's index."""
    return dict(sorted(row for finished in lists for row in finished))


def _is_own(loaded: LoadedModel, prompt: list[int], new: list[int]) -> bool:
    """Whether each new token is the best that one plain pass gives at its place, or as good as that."""
    ids = torch.tensor([prompt + new], device=loaded.model.device)
    with torch.inference_mode():
        logits = loaded.model(ids, use_cache=False).logits[0, len(prompt) - 1 : -1].float()
    best = logits.amax(dim=-1)
    chosen = logits.gather(-1, ids[0, len(prompt) :, None])[:, 0]
    room = _TOLERANCE[loaded.dtype] * (best - logits.mean(dim=-1))
    return bool((best - chosen <= room).all())
