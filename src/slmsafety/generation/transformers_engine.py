"""Greedy generation in this process, in left-padded batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pandas as pd
import torch

from slmsafety.errors import InputError
from slmsafety.generation.cache_check import Decoder
from slmsafety.generation.decoding import BatchLimits, DecodeConfig, decode
from slmsafety.generation.memory import within_memory
from slmsafety.generation.render import Rendered, render
from slmsafety.generation.settings import GenerationJob, GenerationSettings
from slmsafety.models.load import LoadedModel
from slmsafety.models.tokens import eos_token_ids
from slmsafety.records.schema import RESPONSES, typed


class Reply(NamedTuple):
    """A response's text, its number of tokens without pad and end tokens, and why it ended (stop, length, empty).

    `empty` is a reply that the model ended without any text; white space up to the token limit is `length`.
    """

    text: str
    tokens: int
    finish_reason: str


def generate(
    loaded: LoadedModel,
    prompts: pd.DataFrame,
    job: GenerationJob,
    limits: BatchLimits,
    decoder: Decoder = decode,
) -> Iterator[pd.DataFrame]:
    """Generate replies in batches; the longest prompts start first.

    Parameters
    ----------
    loaded : LoadedModel
        The model, in the dtype of the settings.
    prompts : DataFrame
        Rows of the prompts table still to be done: suite, instance_id and prompt (str).
    job : GenerationJob
        Settings and ids of the replies.
    limits : BatchLimits
        The most rows and tokens of a batch (`memory.token_budget` estimates the tokens). A batch that does not fit
        into memory is halved, and so are the limits of those after it.
    decoder : callable, default decode
        How prompts are decoded (`cache_check.checked_decoder` says it for a model).

    Yields
    ------
    DataFrame
        Rows of the responses table as they finish. In float32 a reply does not depend on the batches, on the order, or
        on the other prompts.

    Raises
    ------
    InputError
        When the settings do not fit the loaded model, or one prompt alone does not fit into memory.
    """
    settings, limit = job.settings, _prompt_limit(loaded, job.settings)
    template, cut = settings.template, settings.truncation
    rendered = [render(prompt, loaded.tokenizer, template, limit, cut) for prompt in prompts["prompt"]]
    # Prompts of one length make batches with little padding; the longest come first, so that memory runs out early.
    # Ties keep no trace of the caller's order: a resumed run walks through the rest as the first one would have.
    keys = list(zip(prompts["suite"], prompts["instance_id"], strict=True))
    order = sorted(range(len(keys)), key=lambda row: (-len(rendered[row].ids), keys[row]))
    prompts_in_order = [(keys[row], rendered[row]) for row in order]
    for finished in _decoded(loaded, prompts_in_order, settings.max_new_tokens, limits, decoder):
        records = []
        for index, new in finished:
            (suite, instance), prompt = prompts_in_order[index]
            reply = _reply(loaded, new, settings.max_new_tokens)
            records.append(
                {
                    "suite": suite,
                    "instance_id": instance,
                    "model": job.model_id,
                    "generation_id": job.generation_id,
                    "response": reply.text,
                    "prompt_tokens": len(prompt.ids),
                    "output_tokens": reply.tokens,
                    "finish_reason": reply.finish_reason,
                    "prompt_truncated": prompt.truncated,
                    "meta": _meta(loaded, prompt, limits.batch_size),
                }
            )
        yield typed(pd.DataFrame.from_records(records), RESPONSES)


def _decoded(
    loaded: LoadedModel,
    prompts: list[tuple[tuple[str, str], Rendered]],
    max_new_tokens: int,
    limits: BatchLimits,
    decoder: Decoder,
) -> Iterator[list[tuple[int, list[int]]]]:
    """Yield what `decode` yields; each time that memory runs out, go on with a smaller batch of the unfinished rows."""
    eos, pad = eos_token_ids(loaded.model, loaded.tokenizer), loaded.tokenizer.pad_token_id
    config = DecodeConfig(max_new_tokens, eos, pad)
    waiting = dict.fromkeys(range(len(prompts)))
    while waiting:
        indices = list(waiting)
        asked = [prompts[index][1].ids for index in indices]
        longest = len(asked[0]) + max_new_tokens
        if limits.max_batch_tokens is not None and longest > limits.max_batch_tokens:
            named = " ".join(prompts[indices[0]][0])
            raise InputError(f"{named}: {longest} tokens of prompt and response do not fit into memory")
        decoding = decoder(loaded.model, asked, config, limits)
        while finished := within_memory(partial(next, decoding, [])):
            yield [(indices[index], new) for index, new in finished]
            for index, _ in finished:
                del waiting[indices[index]]
        if finished is None:
            longest = len(prompts[next(iter(waiting))][1].ids) + max_new_tokens
            fitting = (limits.max_batch_tokens or limits.batch_size * longest) // longest
            rows = min(limits.batch_size, len(waiting), fitting)
            limits = limits._replace(max_batch_tokens=rows * longest // 2)


def _prompt_limit(loaded: LoadedModel, settings: GenerationSettings) -> int:
    """Return how many tokens a prompt may have, after checking that the settings fit the loaded model."""
    if settings.dtype != loaded.dtype:
        raise InputError(f"settings have dtype {settings.dtype}, the model was loaded in {loaded.dtype}")
    window, new = loaded.context_length, settings.max_new_tokens
    if window <= new:
        raise InputError(f"max_new_tokens {new} leaves no room for a prompt in a window of {window}")
    return window - new


def _reply(loaded: LoadedModel, new: list[int], max_new_tokens: int) -> Reply:
    """Return the reply in the new tokens that stand before an end token."""
    text = str(loaded.tokenizer.decode(new, skip_special_tokens=True, clean_up_tokenization_spaces=False))
    if len(new) >= max_new_tokens:
        return Reply(text, len(new), "length")
    return Reply(text, len(new), "stop" if text.strip() else "empty")


def _meta(loaded: LoadedModel, prompt: Rendered, batch_size: int) -> str:
    """Return the JSON of what ran a response. No times and no thread count: a resumed table has the same bytes."""
    model = loaded.model
    device = torch.cuda.get_device_name(model.device) if model.device.type == "cuda" else model.device.type
    meta = {
        "attention": model.config._attn_implementation,
        "batch_size": batch_size,
        "bos_count": prompt.bos_count,
        "device": device,
        "dtype": loaded.dtype,
        "end_tokens": eos_token_ids(model, loaded.tokenizer),
        "revision": loaded.revision,
        "template_used": prompt.template_used,
    }
    return json.dumps(meta, sort_keys=True)
