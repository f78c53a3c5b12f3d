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
    tokens: int | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield rows of the responses table as they finish; the longest prompts start first.

    `prompts` are the rows of the prompts table still to be done. `batch_size` is the most rows decoded together, and
    `tokens`, if given, the most tokens of prompt and response that they may have, padding included (see
    `memory.token_budget`). A batch that memory does not hold is halved, and limits those after it. In float32 a
    response does not depend on the batches, the order, or what else is asked for. Raises InputError when the settings
    do not fit the loaded model, and when one prompt alone does not fit into memory.
    """
    limit = _prompt_limit(loaded, settings)
    template, cut = settings.template, settings.truncation
    rendered = [render(prompt, loaded.tokenizer, template, limit, cut) for prompt in prompts["prompt"]]
    # Prompts of one length make batches with little padding; the longest come first, so that memory runs out early.
    # Ties keep no trace of the caller's order: a resumed run walks through the rest as the first one would have.
    keys = list(zip(prompts["suite"], prompts["instance_id"], strict=True))
    order = sorted(range(len(keys)), key=lambda row: (-len(rendered[row].ids), keys[row]))
    prompts_in_order = [(keys[row], rendered[row]) for row in order]
    for finished in _decoded(loaded, prompts_in_order, settings.max_new_tokens, batch_size, tokens):
        records = []
        for place, new in finished:
            (suite, instance), prompt = prompts_in_order[place]
            reply = _reply(loaded, new, settings.max_new_tokens)
            records.append(
                {
                    "suite": suite,
                    "instance_id": instance,
                    "model": model_id,
                    "generation_id": generation_id,
                    "response": reply.text,
                    "prompt_tokens": len(prompt.ids),
                    "output_tokens": reply.tokens,
                    "finish_reason": reply.finish_reason,
                    "prompt_truncated": prompt.truncated,
                    "meta": _meta(loaded, prompt, batch_size),
                }
            )
        yield typed(pd.DataFrame.from_records(records), RESPONSES)


def _decoded(
    loaded: LoadedModel,
    prompts: list[tuple[tuple[str, str], Rendered]],
    max_new_tokens: int,
    batch_size: int,
    tokens: int | None,
) -> Iterator[list[tuple[int, list[int]]]]:
    """Yield what `decode` does, with a smaller batch for what is unfinished each time that memory runs out."""
    ends, pad = end_tokens(loaded), loaded.tokenizer.pad_token_id
    waiting = dict.fromkeys(range(len(prompts)))
    while waiting:
        places = list(waiting)
        asked = [prompts[place][1].ids for place in places]
        longest = len(asked[0]) + max_new_tokens
        if tokens is not None and longest > tokens:
            named = " ".join(prompts[places[0]][0])
            raise InputError(f"{named}: {longest} tokens of prompt and response do not fit into memory")
        decoding = decode(loaded.model, asked, max_new_tokens, ends, pad, batch_size, tokens)
        while finished := within_memory(partial(next, decoding, [])):
            yield [(places[place], new) for place, new in finished]
            for place, _ in finished:
                del waiting[places[place]]
        if finished is None:
            longest = len(prompts[next(iter(waiting))][1].ids) + max_new_tokens
            rows = min(batch_size, len(waiting), (tokens or batch_size * longest) // longest)
            tokens = rows * longest // 2


def _prompt_limit(loaded: LoadedModel, settings: GenerationSettings) -> int:
    """Return how many tokens a prompt may have, after checking that the settings fit the loaded model."""
    if settings.dtype != loaded.dtype:
        raise InputError(f"settings have dtype {settings.dtype}, the model was loaded in {loaded.dtype}")
    limit = loaded.context_length - settings.max_new_tokens
    if limit < 1:
        raise InputError(
            f"max_new_tokens {settings.max_new_tokens} leaves no room for a prompt in a window of {loaded.context_length}"
        )
    return limit


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
