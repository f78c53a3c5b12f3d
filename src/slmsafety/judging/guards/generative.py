"""Judges that write their verdict: greedy decoding in this process, read by `parsers.guard_outputs`."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import torch

from slmsafety.errors import InputError, unknown
from slmsafety.judging.guards.prompt_format import Encoded, Layout, chat_layout, encode, text_layout
from slmsafety.judging.parsers.guard_outputs import NATIVE_JUDGES
from slmsafety.models.engine import transformers_engine
from slmsafety.models.finite import refuse_endless
from slmsafety.models.load import LoadedModel
from slmsafety.models.tokens import eos_token_ids
from slmsafety.records.ids import text_id


def definition(name: str, template: str | None, weights: dict[str, Any], dtype: str) -> dict[str, Any]:
    """Return what defines the work of a judge of NATIVE_JUDGES; `weights` is its `Source.definition()`.

    Nothing is loaded. A chat template belongs to the weights. Raises InputError for an unknown judge.
    """
    if name not in NATIVE_JUDGES:
        raise unknown("judge", name, NATIVE_JUDGES)
    return {
        "parser": [name, NATIVE_JUDGES[name].version],
        "template": None if template is None else text_id(template),
        "max_new_tokens": NATIVE_JUDGES[name].max_new_tokens,
        "weights": weights,
        "dtype": dtype,
        "engine": transformers_engine(),
    }


class GenerativeJudge:
    """A loaded judge of NATIVE_JUDGES; `template` is the prompt of a judge whose tokenizer has no chat template."""

    def __init__(self, loaded: LoadedModel, name: str, template: str | None, batch_size: int) -> None:
        """Raise InputError for an unknown judge, and for a prompt given to a judge with its own, or not given."""
        if name not in NATIVE_JUDGES:
            raise unknown("judge", name, NATIVE_JUDGES)
        self._loaded, self._judge, self._batch_size = loaded, NATIVE_JUDGES[name], batch_size
        if (template is None) != (self._judge.layout == "chat"):
            needs = "has its prompt in its chat template" if template else "needs a prompt: a file 'template'"
            raise InputError(f"judge '{name}' {needs}")
        self._layout: Layout = chat_layout(loaded.tokenizer) if template is None else text_layout(template)

    def measure(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Judge replies by what the model writes.

        Parameters
        ----------
        rows : DataFrame
            With the text columns prompt, expected (refuse, answer) and response.

        Returns
        -------
        DataFrame
            A row for each, in their order: status, label (Int64: 0 harmful, 1 ambiguous, 2 safe, missing), refused
            (boolean, missing where the judge does not tell), raw_value (float: the judge's own level), raw_text (what
            it wrote), reason, input_tokens and output_tokens (Int64), meta (JSON: what else it said). status is the
            parser's, truncated_input when the end of the reply did not fit (no label), or error (prompt_too_long). A
            text without verdict that ran into the token limit has the reason cut_off.

        Raises
        ------
        InputError
            For a prompt or reply that is no text.

        Notes
        -----
        In float32 a row does not depend on its batch.
        """
        loaded, most = self._loaded, self._judge.max_new_tokens
        texts = zip(rows["prompt"], rows["response"], strict=True)
        inputs = [encode(self._layout, *text, loaded.tokenizer, loaded.context_length - most) for text in texts]
        loaded.refuse_unread(map(_ids, inputs))
        fitting = sorted(
            (row for row, found in enumerate(inputs) if found is not None), key=lambda row: -len(_ids(inputs[row]))
        )
        written: dict[int, list[int]] = {}
        for start in range(0, len(fitting), self._batch_size):
            batch = fitting[start : start + self._batch_size]
            written |= dict(zip(batch, decode(loaded, [_ids(inputs[row]) for row in batch], most), strict=True))
        expected = rows["expected"].tolist()
        results = [self._result(inputs[row], written.get(row, []), expected[row]) for row in range(len(inputs))]
        said = ["status", "label", "refused", "raw_value", "raw_text", "reason"]
        frame = pd.DataFrame(results, columns=[*said, "input_tokens", "output_tokens", "meta"])
        kinds = {
            "label": "Int64",
            "refused": "boolean",
            "raw_value": "float64",
            "input_tokens": "Int64",
            "output_tokens": "Int64",
        }
        return frame.astype({**kinds, "raw_text": "str", "reason": "str"})

    def _result(self, found: Encoded | None, new: list[int], expected: str) -> tuple[object, ...]:
        """Return a row of `measure`."""
        if found is None:
            return "error", None, None, None, None, "prompt_too_long", None, None, "{}"
        text = str(self._loaded.tokenizer.decode(new, skip_special_tokens=True, clean_up_tokenization_spaces=False))
        verdict = self._judge.read(text, expected)
        # A judge of one token always ends at its limit.
        if verdict.status == "unparsed" and len(new) == self._judge.max_new_tokens > 1:
            verdict = verdict._replace(reason="cut_off")
        if found.truncated:
            verdict = verdict._replace(status="truncated_input", label=None, refused=None)
        meta = {
            "batch_size": self._batch_size,
            "neutralised": found.neutralised,
            "revision": self._loaded.revision,
            **verdict.meta,
        }
        sizes = (len(found.ids), len(new))
        said = (verdict.status, verdict.label, verdict.refused, verdict.raw_value, text, verdict.reason)
        return *said, *sizes, json.dumps(meta, sort_keys=True)


def decode(loaded: LoadedModel, inputs: list[list[int]], max_new_tokens: int) -> list[list[int]]:
    """Return the ids that the model writes greedily after each input, without its end token.

    Plain argmax: no penalty or ban of the model's own generation config acts. Padded on the left with positions that
    leave the padding out.
    """
    model, width = loaded.model, max(map(len, inputs))
    pad = loaded.pad_id
    ends = torch.tensor(eos_token_ids(model, loaded.tokenizer), dtype=torch.long)
    step = torch.tensor([[pad] * (width - len(ids)) + ids for ids in inputs], device=model.device)
    mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in inputs], device=model.device)
    positions, cache = (mask.cumsum(1) - 1).clamp(min=0), None
    new: list[torch.Tensor] = []
    ended = torch.zeros(len(inputs), dtype=torch.bool, device=model.device)
    with torch.inference_mode():
        while len(new) < max_new_tokens and not ended.all():
            output: Any = model(
                step,
                attention_mask=mask,
                position_ids=positions,
                cache=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            logits = output.logits[:, -1].float()
            refuse_endless(logits.amax(dim=-1), f"{loaded.name}: the logits of the judge", loaded.dtype)
            chosen = logits.argmax(-1)
            ended |= torch.isin(chosen, ends.to(model.device))
            new.append(chosen)
            step, cache, positions = chosen[:, None], output.cache, positions[:, -1:] + 1
            mask = torch.cat([mask, mask.new_ones(len(inputs), 1)], dim=1)
    rows = torch.stack(new, dim=1).tolist()
    stop = set(ends.tolist())
    return [row[: next((index for index, token in enumerate(row) if token in stop), len(row))] for row in rows]


def _ids(found: Encoded | None) -> list[int]:
    return [] if found is None else found.ids
