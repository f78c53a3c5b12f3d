"""The tokens that end a model's text, and whether a tokenizer is the model's."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from slmsafety.errors import InputError


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
    return end_ids(model.generation_config, tokenizer)


def end_ids(config: Any, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return what `eos_token_ids` does, of a generation config (None: there is none) instead of a model."""
    own = getattr(config, "eos_token_id", None)
    listed = own if isinstance(own, list) else [own]
    return sorted({int(token) for token in (*listed, tokenizer.eos_token_id) if token is not None})


def window(config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the most tokens that prompt and response may have together, by a model's config and its tokenizer.

    It is the smaller of the two: either may be unset or larger than the other. MPT and DBRX have a name of their own.
    """
    own = config.get_text_config()
    positions = getattr(own, "max_position_embeddings", None) or getattr(own, "max_seq_len", None)
    return int(tokenizer.model_max_length if positions is None else min(tokenizer.model_max_length, positions))


def refuse_other_vocabulary(source: str, tokenizer: PreTrainedTokenizerBase, embeddings: int) -> None:
    """Refuse a tokenizer whose vocabulary goes beyond the model's embeddings: it is another model's.

    Parameters
    ----------
    source : str
        How the message names the model.
    tokenizer : PreTrainedTokenizerBase
        The tokenizer that came with it. Added tokens are left out: some models have one more than they can read, which
        only a text that spells it out would meet.
    embeddings : int
        The number of tokens that the model has an embedding of.

    Raises
    ------
    InputError
        Naming the tokenizer's highest token.
    """
    added = tokenizer.added_tokens_decoder
    token, highest = max(
        ((token, index) for token, index in tokenizer.get_vocab().items() if index not in added),
        key=lambda entry: entry[1],
        default=("", -1),
    )
    if highest >= embeddings:
        raise InputError(
            f"{source}: its tokenizer is another model's: it has tokens up to {highest} ('{token}'), and the model "
            f"reads {embeddings} tokens"
        )
