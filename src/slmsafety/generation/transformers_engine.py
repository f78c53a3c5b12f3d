"""Greedy generation in this process, in left-padded batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pandas as pd
import torch
from transformers import GenerationConfig, PreTrainedModel

from slmsafety.errors import InputError
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

    `prompts` are the rows of the prompts table still to be done. In float32 a response does not depend on the batch
    size, the order, or what else is asked for. Raises InputError when the settings do not fit the loaded model.
    """
    limit = _prompt_limit(loaded, settings)
    rendered = [render(prompt, loaded.tokenizer, settings.template, limit) for prompt in prompts["prompt"]]
    # Prompts of one length make batches with little padding; the longest come first, so that memory runs out early.
    # Ties keep no trace of the caller's order: a resumed run walks through the rest as the first one would have.
    keys = list(zip(prompts["suite"], prompts["instance_id"], strict=True))
    order = sorted(range(len(keys)), key=lambda row: (-len(rendered[row].ids), keys[row]))
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        asked = [rendered[row] for row in rows]
        replies = _replies(loaded, asked, settings.max_new_tokens)
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
    model, ends = loaded.model, end_tokens(loaded)
    width = max(len(prompt.ids) for prompt in prompts)
    pad = loaded.tokenizer.pad_token_id
    ids = torch.tensor([[pad] * (width - len(prompt.ids)) + prompt.ids for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt.ids)) + [1] * len(prompt.ids) for prompt in prompts])
    config = greedy(max_new_tokens, ends, pad)
    with torch.inference_mode(), _only(model, config):
        output: Any = model.generate(  # type: ignore[operator]
            ids.to(model.device), attention_mask=mask.to(model.device), generation_config=config
        )
    return [_reply(loaded, row, ends) for row in output[:, width:].tolist()]


def _reply(loaded: LoadedModel, new: list[int], ends: list[int]) -> Reply:
    """Return the reply in a row of new tokens: what stands before the first end token."""
    count = next((place for place, token in enumerate(new) if token in ends), len(new))
    text = str(loaded.tokenizer.decode(new[:count], skip_special_tokens=True, clean_up_tokenization_spaces=False))
    ended = "stop" if count < len(new) else "length"
    return Reply(text, count, ended if text.strip() else "empty")


def end_tokens(loaded: LoadedModel) -> list[int]:
    """Return the ids that end a response: the generation config's (there may be several) and the tokenizer's."""
    own = loaded.model.generation_config.eos_token_id
    listed = own if isinstance(own, list) else [own]
    return sorted({int(token) for token in (*listed, loaded.tokenizer.eos_token_id) if token is not None})


def greedy(max_new_tokens: int, ends: list[int], pad: int) -> GenerationConfig:
    """Return a greedy generation config in which nothing but length, end and pad tokens is set."""
    return GenerationConfig(
        do_sample=False,
        num_beams=1,
        repetition_penalty=1.0,
        max_new_tokens=max_new_tokens,
        eos_token_id=ends or None,
        pad_token_id=pad,
    )


@contextmanager
def _only(model: PreTrainedModel, config: GenerationConfig) -> Iterator[None]:
    """Let the given config be the model's own for a while.

    transformers fills whatever a config leaves unset from the model's own, so that a penalty or a ban in there would
    act on greedy decoding too.
    """
    own = model.generation_config
    model.generation_config = config
    try:
        yield
    finally:
        model.generation_config = own


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
