"""The cards of the models: one row of cards.csv each, the paper's 26 SLMs first, then the stand-ins of study demo.

Names, vendors, years, sizes and contexts are as the paper's Table A2 prints them (arXiv 2608.17183); the architecture
is the released models' own, which Table A2 leaves out or misprints in places. `revision` is empty where no commit is
pinned.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pandas as pd

from slmsafety.errors import unknown
from slmsafety.models.source import Source

_COUNTS = ("year", "params_m", "context", "layers", "heads", "kv_heads", "hidden", "ffn", "vocab")
_FLAGS = ("gated", "in_paper")


@dataclass(frozen=True)
class Card:
    """One model: what it is called, where its weights come from, how it is built. `params_m` is in millions."""

    id: str
    name: str
    family: str
    vendor: str
    year: int
    params_m: int
    context: int | None
    hub_id: str
    revision: str
    licence: str
    gated: bool
    base_or_tuned: str
    layers: int
    heads: int
    kv_heads: int
    hidden: int
    ffn: int
    vocab: int
    norm: str
    position: str
    attention: str
    activation: str
    in_paper: bool
    source: Source
    note: str


def load_cards() -> pd.DataFrame:
    """Return the cards of all models.

    Returns
    -------
    DataFrame
        One row a model, the paper's 26 first and by size, with the columns of cards.csv: id, name, family and other
        texts (str, empty where unknown), year, params_m (millions), context (tokens), layers, heads, kv_heads, hidden,
        ffn, vocab (Int64), gated and in_paper (boolean).
    """
    cards = pd.read_csv(io.BytesIO(cards_bytes()), dtype="str", keep_default_na=False)
    counts = {column: pd.to_numeric(cards[column].replace("", None)).astype("Int64") for column in _COUNTS}
    flags = {column: cards[column].map({"0": False, "1": True}).astype("boolean") for column in _FLAGS}
    return cards.assign(**counts, **flags)


def cards_bytes() -> bytes:
    """Return the bytes of cards.csv, for the record of what a figure was made from."""
    return files("slmsafety.models").joinpath("cards.csv").read_bytes()


def is_card(model_id: str) -> bool:
    """Return whether a model id has a card."""
    return bool((load_cards()["id"] == model_id).any())


def card(model_id: str) -> Card:
    """Return the card of a model id, or raise InputError with the nearest id."""
    cards = load_cards()
    row = cards[cards["id"] == model_id]
    if row.empty:
        raise unknown("model", model_id, cards["id"])
    values: dict[str, Any] = {
        str(column): None if value is pd.NA else value for column, value in row.astype(object).iloc[0].items()
    }
    package, hub, weights = values.pop("package"), values["hub_id"], values.pop("weights")
    packaged = values["source"] == "package"
    from_hub = {"hub": hub, "revision": values["revision"] or None, "weights": weights}
    values["source"] = Source(package=package) if packaged else Source(**from_hub)
    return Card(**values)


def features(cards: pd.DataFrame) -> pd.DataFrame:
    """Return the numeric features of models.

    Parameters
    ----------
    cards : DataFrame
        The columns of `load_cards`, indexed by model id; rows of other models may be among them.

    Returns
    -------
    DataFrame
        Indexed by `model`, all float64, nan where a card is silent. Flags (1 yes, 0 no) of the released architecture:
        Tuned, RoPE (partial RoPE included), SwiGLU, RMSNorm, GQA. Sizes: Params (millions), Context (tokens, as in the
        paper's Table A2), Layers, Heads, KV heads, Hidden size, FFN, Vocab, Year.
    """
    cards = cards.rename_axis("model")
    told = {
        "Tuned": ("base_or_tuned", {"tuned"}),
        "RoPE": ("position", {"RoPE", "partial RoPE"}),
        "SwiGLU": ("activation", {"SwiGLU"}),
        "RMSNorm": ("norm", {"RMSNorm"}),
        "GQA": ("attention", {"GQA"}),
    }
    sizes = {"Params": "params_m", "Context": "context", "Layers": "layers", "Heads": "heads", "KV heads": "kv_heads"}
    sizes |= {"Hidden size": "hidden", "FFN": "ffn", "Vocab": "vocab", "Year": "year"}
    columns = {
        name: cards[column].isin(values).astype("float64").where(cards[column].fillna("").ne(""))
        for name, (column, values) in told.items()
    }
    return pd.DataFrame(columns | {name: cards[column].astype("float64") for name, column in sizes.items()})
