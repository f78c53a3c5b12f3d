"""Generation in this process, in left-padded batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import NamedTuple

import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from slmsafety.errors import InputError
from slmsafety.generation.cache_check import Decoder
from slmsafety.generation.decoding import BatchLimits, DecodeConfig, decode
from slmsafety.generation.memory import within_memory
from slmsafety.generation.render import Rendered, check_asking, render
from slmsafety.generation.sampling import sampling_of
from slmsafety.generation.settings import GenerationJob, GenerationSettings
from slmsafety.models.load import LoadedModel
from slmsafety.models.tokens import eos_token_ids
from slmsafety.records.schema import RESPONSES, typed, with_sample
from slmsafety.replies.language import reply_languages
from slmsafety.replies.parts import answer_of_pieces
from slmsafety.replies.reasoning import opened_by

# So many tokens hold the longest mark of reasoning that a prompt may end with.
_TAIL = 24


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
        Rows of the prompts table still to be done: suite, instance_id and prompt (str); and `sample` (int), the number
        of the reply among those to its prompt, which may be left out where it is 0.
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
        on the other prompts and samples.

    Raises
    ------
    InputError
        When the settings do not fit the loaded model, its logits are nan or infinite, a prompt holds a token that it
        has no embedding of, or one prompt alone does not fit into memory.
    """
    settings, limit = job.settings, _prompt_limit(loaded, job.settings)
    try:
        check_asking(loaded.tokenizer, settings)
        rendered = [render(prompt, loaded.tokenizer, settings, limit) for prompt in prompts["prompt"]]
    except InputError as error:
        raise InputError(f"model '{job.model_id}': {error}") from error
    loaded.refuse_unread(prompt.ids for prompt in rendered)
    # Prompts of one length make batches with little padding; the longest come first, so that memory runs out early.
    # Ties keep no trace of the caller's order: a resumed run walks through the rest as the first one would have.
    named = with_sample(prompts)
    keys = list(zip(named["suite"], named["instance_id"], named["sample"].astype(int), strict=True))
    order = sorted(range(len(keys)), key=lambda row: (-len(rendered[row].ids), keys[row]))
    texts = dict(zip(keys, prompts["prompt"], strict=True))
    prompts_in_order = [(keys[row], rendered[row]) for row in order]
    for finished in _decoded(loaded, prompts_in_order, settings, limits, decoder):
        records = []
        for index, new in finished:
            (suite, instance, sample), prompt = prompts_in_order[index]
            reply = _reply(loaded, new, settings.max_new_tokens)
            answer = _answer(loaded, new, reply.text, prompt.ids, texts[suite, instance, sample])
            records.append(
                {
                    "suite": suite,
                    "instance_id": instance,
                    "model": job.model_id,
                    "generation_id": job.generation_id,
                    "sample": sample,
                    "response": reply.text,
                    **answer,
                    "prompt_tokens": len(prompt.ids),
                    "output_tokens": reply.tokens,
                    "finish_reason": reply.finish_reason,
                    "prompt_truncated": prompt.truncated,
                    "meta": _meta(loaded, prompt, limits.batch_size),
                }
            )
        made = pd.DataFrame.from_records(records)
        yield typed(made.assign(language=reply_languages(made)), RESPONSES)


def _decoded(
    loaded: LoadedModel,
    prompts: list[tuple[tuple[str, str, int], Rendered]],
    settings: GenerationSettings,
    limits: BatchLimits,
    decoder: Decoder,
) -> Iterator[list[tuple[int, list[int]]]]:
    """Yield what `decode` yields; each time that memory runs out, go on with a smaller batch of the unfinished rows."""
    eos, pad = eos_token_ids(loaded.model, loaded.tokenizer), loaded.pad_id
    max_new_tokens = settings.max_new_tokens
    waiting = dict.fromkeys(range(len(prompts)))
    while waiting:
        indices = list(waiting)
        asked = [prompts[index][1].ids for index in indices]
        drawn = sampling_of(settings, [prompts[index][0] for index in indices])
        longest = len(asked[0]) + max_new_tokens
        if limits.max_batch_tokens is not None and longest > limits.max_batch_tokens:
            named = " ".join(prompts[indices[0]][0][:2])
            raise InputError(f"{named}: {longest} tokens of prompt and response do not fit into memory")
        decoding = decoder(loaded.model, asked, DecodeConfig(max_new_tokens, eos, pad, drawn), limits)
        try:
            while finished := within_memory(partial(next, decoding, [])):
                yield [(indices[index], new) for index, new in finished]
                for index, _ in finished:
                    del waiting[indices[index]]
        except InputError as error:
            raise InputError(f"{loaded.name}: {error}") from error
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
    ended = "stop" if len(new) < max_new_tokens else "length"
    # Blanks up to the limit are cut like any other text: "empty" says that the model ended a blank reply itself.
    return Reply(text, len(new), ended if text.strip() or ended == "length" else "empty")


def _answer(loaded: LoadedModel, new: list[int], text: str, asked: list[int], prompt: str) -> dict[str, int]:
    """Return where the answer stands in a reply's text, as columns; none where it is all of it.

    Special tokens, which the text leaves out, may mark reasoning, and what was asked may end in such a mark.
    """
    special = _left_out(loaded.tokenizer)
    pieces = [(_decoded_text(loaded, list(ids)), marks) for marks, ids in groupby(new, key=special.__contains__)]
    if "".join(piece for piece, marks in pieces if not marks) != text:  # pieces that are decoded alone read otherwise
        pieces = [(text, False)]
    opened = opened_by(_decoded_text(loaded, asked[-_TAIL:]))
    found = answer_of_pieces([(opened, True), *pieces], prompt)
    return {} if found is None else {"answer_start": found[0], "answer_end": found[1]}


def _left_out(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Return the ids that a text leaves out as special tokens: most marks of channels have no role among the named."""
    added = tokenizer.added_tokens_decoder.items()
    return {*tokenizer.all_special_ids, *(index for index, token in added if token.special)}


def _decoded_text(loaded: LoadedModel, ids: list[int]) -> str:
    return str(loaded.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


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
