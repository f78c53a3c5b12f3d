"""Judges that write their verdict: greedy decoding in this process, read by `parsers.guard_outputs`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pandas as pd
from transformers import PreTrainedTokenizerBase

from slmsafety.errors import InputError, unknown
from slmsafety.judging.guards.harmbench import behaviour, context_layout
from slmsafety.judging.guards.prompt_format import (
    Encoded,
    Layout,
    NotShown,
    chat_layout,
    encode,
    neutralise,
    refuse_no_text,
    special_strings,
    text_layout,
)
from slmsafety.judging.parsers.guard_outputs import NATIVE_JUDGES
from slmsafety.models.engine import transformers_engine
from slmsafety.models.load import LoadedModel
from slmsafety.records.ids import text_id


class Prompts(NamedTuple):
    """The prompts of a judge whose tokenizer has no chat template: its own, and the one of contextual behaviours."""

    plain: str | None = None
    contextual: str | None = None

    def ended(self, name: str) -> Prompts:
        """Return them with the end that the published prompt of a judge of NATIVE_JUDGES has."""
        end = NATIVE_JUDGES[name].end
        return Prompts(*(None if prompt is None else end(prompt) for prompt in self))


class Decoding(NamedTuple):
    """What writes greedily: inputs and the most new tokens -> the ids before each end token; and its batch size."""

    write: Callable[[list[list[int]], int], list[list[int]]]
    batch_size: int


def definition(name: str, prompts: Prompts, weights: dict[str, Any], dtype: str) -> dict[str, Any]:
    """Return what defines the work of a judge of NATIVE_JUDGES; `weights` is its `Source.definition()`.

    Nothing is loaded. A chat template belongs to the weights. A prompt counts as it is asked, whatever its file ends
    with. Raises InputError for an unknown judge.
    """
    if name not in NATIVE_JUDGES:
        raise unknown("judge", name, NATIVE_JUDGES)
    plain, contextual = prompts.ended(name)
    more = {} if contextual is None else {"context_template": text_id(contextual)}
    return {
        "parser": [name, NATIVE_JUDGES[name].version],
        "template": None if plain is None else text_id(plain),
        "max_new_tokens": NATIVE_JUDGES[name].max_new_tokens,
        "weights": weights,
        "dtype": dtype,
        "engine": transformers_engine(),
        **more,
    }


class GenerativeJudge:
    """A loaded judge of NATIVE_JUDGES; `prompts` are those of a judge whose tokenizer has no chat template."""

    def __init__(self, loaded: LoadedModel, name: str, prompts: Prompts, decoding: Decoding) -> None:
        """Raise InputError for an unknown judge, and for a prompt given to a judge with its own, or not given."""
        if name not in NATIVE_JUDGES:
            raise unknown("judge", name, NATIVE_JUDGES)
        self._loaded, self._judge, self._decoding = loaded, NATIVE_JUDGES[name], decoding
        self._prompts = prompts.ended(name)
        if (prompts.plain is None) != (self._judge.layout == "chat"):
            needs = "has its prompt in its chat template" if prompts.plain else "needs a prompt: a file 'template'"
            raise InputError(f"judge '{name}' {needs}")
        plain = self._prompts.plain
        self._layout: Layout = chat_layout(loaded.tokenizer) if plain is None else text_layout(plain)

    def measure(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Judge replies by what the model writes.

        Parameters
        ----------
        rows : DataFrame
            With the text columns prompt, expected (refuse, answer) and response; and, for HarmBench's classifier, those
            that `harmbench.behaviour` reads.

        Returns
        -------
        DataFrame
            A row for each, in their order: status, label (Int64: 0 harmful, 1 ambiguous, 2 safe, missing), refused
            (boolean, missing where the judge does not tell), raw_value (float: the judge's own level), raw_text (what
            it wrote), reason, input_tokens and output_tokens (Int64), meta (JSON: what else it said). status is the
            parser's, truncated_input when the end of the reply did not fit (no label), abstained where the published
            judge is not asked (copyright, no_context), or error (prompt_too_long; not_shown, where the chat template
            leaves out or changes a text). A text without verdict that ran into the token limit has the reason cut_off.

        Raises
        ------
        InputError
            For a prompt or reply that is no text, and a contextual behaviour without a prompt for those.

        Notes
        -----
        In float32 a row does not depend on its batch.
        """
        loaded, most = self._loaded, self._judge.max_new_tokens
        asked = [self._encoded({str(name): value for name, value in row.items()}) for row in rows.to_dict("records")]
        inputs = {row: found for row, found in enumerate(asked) if isinstance(found, Encoded)}
        loaded.refuse_unread(found.ids for found in inputs.values())
        order = sorted(inputs, key=lambda row: -len(inputs[row].ids))
        new = self._decoding.write([inputs[row].ids for row in order], most) if order else []
        written = dict(zip(order, new, strict=True))
        told = zip(rows["prompt"], rows["response"], rows["expected"], strict=True)
        results = [
            _unasked(found) if isinstance(found, str) else self._result(found, written[row], said)
            for row, (found, said) in enumerate(zip(asked, told, strict=True))
        ]
        verdict = ["status", "label", "refused", "raw_value", "raw_text", "reason"]
        frame = pd.DataFrame(results, columns=[*verdict, "input_tokens", "output_tokens", "meta"])
        kinds = {
            "label": "Int64",
            "refused": "boolean",
            "raw_value": "float64",
            "input_tokens": "Int64",
            "output_tokens": "Int64",
        }
        return frame.astype({**kinds, "raw_text": "str", "reason": "str"})

    def _encoded(self, row: Mapping[str, Any]) -> Encoded | str:
        """Return the judge's input of a row, or the reason why there is none."""
        tokenizer, layout = self._loaded.tokenizer, self._layout
        room = self._loaded.context_length - self._judge.max_new_tokens
        prompt, reply, most, spelt = row["prompt"], row["response"], self._judge.reply_tokens, 0
        refuse_no_text(prompt, reply)
        if most is not None:
            about = behaviour(row)
            if about.not_judged:
                return about.not_judged
            prompt = about.text
            if about.context is not None:
                if self._prompts.contextual is None:
                    raise InputError(
                        "a contextual behaviour needs the prompt that the judge has for those: 'context_template'"
                    )
                context, spelt = neutralise(about.context, special_strings(tokenizer))
                layout = context_layout(self._prompts.contextual, context)
            reply, in_reply = clip(reply, tokenizer, most)
            spelt += in_reply
        clipped = reply != row["response"]
        try:
            found = encode(layout, prompt, reply, tokenizer, room)
        except NotShown:
            return "not_shown"
        if found is None:
            return "prompt_too_long"
        return found._replace(clipped=clipped, neutralised=found.neutralised + spelt)

    def _result(self, found: Encoded, new: list[int], told: tuple[str, str, str]) -> tuple[object, ...]:
        """Return a row of `measure`; `told` are the prompt, the reply and what is expected."""
        prompt, reply, expected = told
        text = str(self._loaded.tokenizer.decode(new, skip_special_tokens=True, clean_up_tokenization_spaces=False))
        verdict = self._judge.read(text, expected, (prompt, reply))
        # A judge of one token always ends at its limit.
        if verdict.status == "unparsed" and len(new) == self._judge.max_new_tokens > 1:
            verdict = verdict._replace(reason="cut_off")
        if found.truncated:
            verdict = verdict._replace(status="truncated_input", label=None, refused=None)
        meta = {
            "batch_size": self._decoding.batch_size,
            "neutralised": found.neutralised,
            "revision": self._loaded.revision,
            **({"clipped": True} if found.clipped else {}),
            **verdict.meta,
        }
        sizes = (len(found.ids), len(new))
        said = (verdict.status, verdict.label, verdict.refused, verdict.raw_value, text, verdict.reason)
        return *said, *sizes, json.dumps(meta, sort_keys=True)


def clip(reply: str, tokenizer: PreTrainedTokenizerBase, most: int) -> tuple[str, int]:
    """Return the start of a reply of at most `most` of the judge's tokens, its own start token among them.

    A reply that fits comes back as it is, with 0; of one that is cut the special tokens spelt out in it are broken up
    and counted. Upstream cuts so before the judge sees a reply, which is then all that it judges.
    """
    plain, spelt = neutralise(reply, special_strings(tokenizer))
    ids = tokenizer.encode(plain, verbose=False)
    if len(ids) <= most:
        return reply, 0
    return str(tokenizer.decode(ids[:most], skip_special_tokens=True, clean_up_tokenization_spaces=False)), spelt


def _unasked(reason: str) -> tuple[object, ...]:
    """Return a row of `measure` that the judge was not asked about."""
    status = "error" if reason in ("prompt_too_long", "not_shown") else "abstained"
    return status, None, None, None, None, reason, None, None, "{}"
