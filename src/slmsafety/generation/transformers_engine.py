"""Greedy generation in this process, in left-padded batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pandas as pd
import torch

from slmsafety.errors import InputError
from slmsafety.generation.decoding import decode
from slmsafety.generation.memory import within_memory
from slmsafety.generation.render import Rendered, render
from slmsafety.generation.settings import GenerationSettings
from slmsafety.models.load import LoadedModel
from slmsafety.records.schema import RESPONSES, typed


class Reply(NamedTuple):
    """A response's text, its number of tokens without pad and end tokens, and why it ended (stop, length, empty)."""

    text: str
    tokens: int
    finish_reason: str


def generate(
    loaded: LoadedModel,
    prompts: pd.DataFrame,
    settings: GenerationSettings,
    model_id: str,
    generation_id: str,
    batch_size: int,
) -> Iterator[pd.DataFrame]:
    """Yield finished batches as frames of the responses table, longest prompts first.

    `prompts` are the rows of the prompts table still to be done. `batch_size` is the most prompts of a batch; a batch
    that memory does not hold is halved, and the tokens that it had then limit the batches after it. In float32 a
    response does not depend on the batches, the order, or what else is asked for. Raises InputError when the settings
    do not fit the loaded model, and when one prompt alone does not fit into memory.
    """
    limit = _prompt_limit(loaded, settings)
    rendered = [render(prompt, loaded.tokenizer, settings.template, limit) for prompt in prompts["prompt"]]
    # Prompts of one length make batches with little padding; the longest come first, so that memory runs out early.
    # Ties keep no trace of the caller's order: a resumed run walks through the rest as the first one would have.
    keys = list(zip(prompts["suite"], prompts["instance_id"], strict=True))
    order = sorted(range(len(keys)), key=lambda row: (-len(rendered[row].ids), keys[row]))
    tokens, start = batch_size * loaded.window, 0
    while start < len(order):
        longest = len(rendered[order[start]].ids) + settings.max_new_tokens
        rows = order[start : start + min(batch_size, max(1, tokens // longest))]
        asked = [rendered[row] for row in rows]
        replies = within_memory(partial(_replies, loaded, asked, settings.max_new_tokens))
        if replies is None and len(rows) == 1:
            suite, instance = keys[rows[0]]
            raise InputError(f"{suite} {instance}: {longest} tokens of prompt and response do not fit into memory")
        if replies is None:
            tokens = len(rows) * longest // 2
            continue
        records = [
            {
                "suite": keys[row][0],
                "instance_id": keys[row][1],
                "model": model_id,
                "generation_id": generation_id,
                "response": reply.text,
                "prompt_tokens": len(prompt.ids),
                "output_tokens": reply.tokens,
                "finish_reason": reply.finish_reason,
                "prompt_truncated": prompt.truncated,
                "meta": _meta(loaded, prompt, batch_size),
            }
            for row, prompt, reply in zip(rows, asked, replies, strict=True)
        ]
        yield typed(pd.DataFrame.from_records(records), RESPONSES)
        start += len(rows)


def _prompt_limit(loaded: LoadedModel, settings: GenerationSettings) -> int:
    """Return how many tokens a prompt may have, after checking that the settings fit the loaded model."""
    if settings.dtype != loaded.dtype:
        raise InputError(f"settings have dtype {settings.dtype}, the model was loaded in {loaded.dtype}")
    limit = loaded.window - settings.max_new_tokens
    if limit < 1:
        raise InputError(
            f"max_new_tokens {settings.max_new_tokens} leaves no room for a prompt in a window of {loaded.window}"
        )
    return limit


def _replies(loaded: LoadedModel, prompts: list[Rendered], max_new_tokens: int) -> list[Reply]:
    """Return the replies to a batch of prompts, in their order."""
    asked, pad = [prompt.ids for prompt in prompts], loaded.tokenizer.pad_token_id
    decoded = decode(loaded.model, asked, max_new_tokens, end_tokens(loaded), pad)
    return [_reply(loaded, new, max_new_tokens) for new in decoded]


def _reply(loaded: LoadedModel, new: list[int], max_new_tokens: int) -> Reply:
    """Return the reply in the new tokens that stand before an end token."""
    text = str(loaded.tokenizer.decode(new, skip_special_tokens=True, clean_up_tokenization_spaces=False))
    ended = "stop" if len(new) < max_new_tokens else "length"
    return Reply(text, len(new), ended if text.strip() else "empty")


def end_tokens(loaded: LoadedModel) -> list[int]:
    """Return the ids that end a response: the generation config's (there may be several) and the tokenizer's."""
    own = loaded.model.generation_config.eos_token_id
    listed = own if isinstance(own, list) else [own]
    return sorted({int(token) for token in (*listed, loaded.tokenizer.eos_token_id) if token is not None})


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
        "end_tokens": end_tokens(loaded),
        "revision": loaded.revision,
        "template_used": prompt.template_used,
    }
    return json.dumps(meta, sort_keys=True)
