"""What suites and models are called in figures and tables, and how large the suites are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from slmsafety import published
from slmsafety.models.cards import load_cards
from slmsafety.params.entries import ModelParams
from slmsafety.suites.catalogue import MULTIPLE_CHOICE, SUITES, title

_SIZES = ["suite", "suite_title", "prompts", "controls", "choices", "categories", "revision"]

_ARCHITECTURE = ["model", "model_name", "card", "year", "params_m", "context", "base_or_tuned", "layers", "heads"]
_ARCHITECTURE += ["kv_heads", "hidden", "ffn", "vocab", "norm", "position", "attention", "activation", "note"]


def suite_titles(prompts: pd.DataFrame) -> dict[str, str]:
    """Return the title of each suite; one whose `prompts` (suite, meta) are a part of it says so (HarmBench-80).

    Two suites of one title have their names beside it."""
    titles = {name: suite.title for name, suite in SUITES.items()}
    for name, rows in prompts.groupby("suite") if len(prompts) else ():
        titles[str(name)] = title(str(name), rows)
    shared = [heading for heading in titles.values() if list(titles.values()).count(heading) > 1]
    return {name: f"{heading} ({name})" if heading in shared else heading for name, heading in titles.items()}


def suite_sizes(prompts: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return suite, suite_title, prompts (to refuse), controls, choices (multiple choice), categories and revision."""
    choice = prompts["suite"].isin(MULTIPLE_CHOICE)
    harm = prompts["expected"].eq("refuse") & ~choice
    rows = prompts.assign(prompts=harm, choices=choice, controls=~harm & ~choice)
    rows["category"] = rows["category"].where(~rows["controls"])
    named = {"categories": ("category", "nunique"), "revision": ("suite_revision", "first")}
    sums = {name: (name, "sum") for name in ("prompts", "controls", "choices")}
    frame = rows.groupby("suite", sort=True).agg(**sums, **named).reset_index()
    return frame.assign(suite_title=[titles.get(name, name) for name in frame["suite"]])[_SIZES]


def printed_sizes(titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the same of the paper's suites, of which it prints the prompts."""
    counts = [(name, titles[name], n, 0, 0, None, None) for name, n in published.PROMPTS.items()]
    return pd.DataFrame(counts, columns=_SIZES)


def named_cards(models: Iterable[ModelParams] = ()) -> pd.DataFrame:
    """Return the cards indexed by model id, with what a study's own models say of themselves.

    A model that names a card has the card's row, under its own id as name where it gives none. A model without card has
    only what it says, and its id as name and family where it does not say them. Models of one name have their
    ids beside it.
    """
    models = list(models)
    cards = load_cards().set_index("id")
    cards["card"] = cards.index.to_series()
    for model in models:
        if model.card is not None and model.id != model.card:
            cards.loc[model.id] = cards.loc[model.card]
            cards.loc[model.id, ["name", "card"]] = model.id, model.card
        elif model.id not in cards.index:
            cards.loc[model.id, ["name", "family", "card"]] = model.id
        for key in ("name", "family", "year", "params_m", "base_or_tuned"):
            if getattr(model, key) is not None:
                cards.loc[model.id, key] = getattr(model, key)
    own = cards.loc[list(dict.fromkeys(model.id for model in models)), "name"]
    alike = own[own.duplicated(keep=False)]
    cards.loc[alike.index, "name"] = [f"{name} ({model})" for model, name in alike.items()]
    return cards


def model_cards(ids: Iterable[str], models: Iterable[ModelParams] = ()) -> pd.DataFrame:
    """Return the architecture of the models, a row each by model id: model, model_name, card and the cards' columns."""
    cards = named_cards(models).reindex(sorted(ids)).rename_axis("model").reset_index()
    for column, source in (("card", "card"), ("model_name", "name")):  # a model without a card is one of its own
        cards[column] = cards[source].fillna(cards["model"])
    return cards[_ARCHITECTURE]


def printed_models() -> pd.DataFrame:
    """Return Table A2 as the paper prints it, with model and model_name in place of the printed name."""
    table = published.printed("table_a2_models")
    ids = published.with_ids(table)["model"]
    return table.rename(columns={"model": "model_name"}).assign(model=ids)[["model", "model_name", *table.columns[1:]]]


def with_names(frame: pd.DataFrame, titles: dict[str, str], cards: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with display names: suite_title of a suite; model_name, family, card and params_m of a model.

    `cards` come from `named_cards`. A suite without title and a model without card keep their ids as names; params_m
    (millions) is nan then. `card` is the id of whose model a system's is: systems with one card are one model.
    """
    result = frame.copy()
    if "suite" in frame:
        result["suite_title"] = [titles.get(suite, suite) for suite in frame["suite"]]
    if "model" in frame:
        cards = cards.reindex(frame["model"])
        models = frame["model"].to_numpy()
        result["model_name"] = cards["name"].where(cards["name"].notna(), models).to_numpy()
        result["family"] = cards["family"].where(cards["family"].notna(), models).to_numpy()
        result["card"] = cards["card"].where(cards["card"].notna(), models).to_numpy()
        result["params_m"] = cards["params_m"].to_numpy(float)
    return result
