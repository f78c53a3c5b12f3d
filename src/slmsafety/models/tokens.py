"""The tokens that end a model's text."""

from __future__ import annotations

from transformers import PreTrainedModel, PreTrainedTokenizerBase


def eos_token_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the ids that end a text, sorted: those of the generation config (it may list several) and the tokenizer's.

    Parameters
    ----------
    model : PreTrainedModel
        A causal language model with its generation config.
    tokenizer : PreTrainedTokenizerBase
        The model's tokenizer.

    Returns
    -------
    list of int
        Each id once; empty where neither names one.
    """
    own = getattr(model.generation_config, "eos_token_id", None)
    listed = own if isinstance(own, list) else [own]
    return sorted({int(token) for token in (*listed, tokenizer.eos_token_id) if token is not None})
