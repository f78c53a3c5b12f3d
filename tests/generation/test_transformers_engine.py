from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import torch
from tiny_models import change_weights, overflow, word_tokenizer, write_model

from slmsafety.errors import InputError
from slmsafety.generation.decoding import BatchLimits
from slmsafety.generation.settings import GenerationJob, GenerationSettings
from slmsafety.generation.transformers_engine import generate
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.source import Source
from slmsafety.records.schema import RESPONSES, check

QUESTIONS = [
    "Hi",
    "Name three colours.",
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "How many days has a week? Answer with a number and a short reason.",
    "List two fruits and two vegetables, then say in one sentence which of them you would put into a soup.",
    "Explain to a child why the sky is blue.",
    "Count from 1 to 5.\n\n1.",
]
SHORT = GenerationSettings(max_new_tokens=16)


def prompts(texts: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"suite": "demo", "instance_id": [f"q{i}" for i in range(len(texts))], "prompt": texts})


def run(loaded: LoadedModel, frame: pd.DataFrame, settings: GenerationSettings, batch_size: int) -> pd.DataFrame:
    batches = list(
        generate(loaded, frame, GenerationJob(settings, "some-model", "0123456789ab"), BatchLimits(batch_size))
    )
    assert all(0 < len(batch) <= batch_size for batch in batches)
    return pd.concat(batches).sort_values("instance_id", ignore_index=True)


@pytest.fixture(scope="module")
def in_eights(smollm2: LoadedModel) -> pd.DataFrame:
    return run(smollm2, prompts(QUESTIONS), SHORT, 8)


def test_rows_of_the_responses_table(smollm2: LoadedModel, in_eights: pd.DataFrame) -> None:
    rows = check(in_eights, RESPONSES, "test")
    assert list(rows.columns) == list(RESPONSES.columns)
    assert rows["instance_id"].tolist() == [f"q{i}" for i in range(len(QUESTIONS))]
    assert set(rows["model"]) == {"some-model"} and set(rows["generation_id"]) == {"0123456789ab"}
    assert rows.loc[0, "prompt_tokens"] == 31 and not rows["prompt_truncated"].any()
    assert "Paris" in rows.loc[2, "response"]
    assert json.loads(rows.loc[0, "meta"]) == {
        "attention": "sdpa",
        "batch_size": 8,
        "bos_count": 1,
        "device": "cpu",
        "dtype": "float32",
        "end_tokens": [2],
        "revision": smollm2.revision,
        "template_used": "chat",
    }


def test_tokens_and_reasons_belong_to_the_text(smollm2: LoadedModel, in_eights: pd.DataFrame) -> None:
    assert set(in_eights["finish_reason"]) == {"stop", "length"}
    assert (in_eights.loc[in_eights["finish_reason"] == "length", "output_tokens"] == 16).all()
    assert (in_eights.loc[in_eights["finish_reason"] == "stop", "output_tokens"] < 16).all()
    counted = [len(smollm2.tokenizer.encode(text)) for text in in_eights["response"]]
    assert counted == in_eights["output_tokens"].tolist()
    assert not in_eights["response"].str.contains("<|", regex=False).any()


def test_batch_and_order_do_not_change_a_response(smollm2: LoadedModel, in_eights: pd.DataFrame) -> None:
    alone = run(smollm2, prompts(QUESTIONS), SHORT, 1)
    shuffled = run(smollm2, prompts(QUESTIONS).sample(frac=1, random_state=1), SHORT, 3)
    for other in (alone, shuffled):
        assert other.drop(columns="meta").equals(in_eights.drop(columns="meta"))


def test_unbatched_generation_by_hand_gives_the_same_text(smollm2: LoadedModel, in_eights: pd.DataFrame) -> None:
    """The reference: the argmax of a plain forward pass, one token after the other, no cache, no padding."""
    turn = [{"role": "user", "content": QUESTIONS[2]}]
    text = smollm2.tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    ids, new = smollm2.tokenizer.encode(text), []
    with torch.inference_mode():
        while len(new) < 16 and (token := int(smollm2.model(torch.tensor([ids + new])).logits[0, -1].argmax())) != 2:
            new.append(token)
    assert smollm2.tokenizer.decode(new) == in_eights.loc[2, "response"]


def test_the_models_own_generation_config_does_not_leak(
    smollm2: LoadedModel, in_eights: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = smollm2.model.generation_config
    settings = {
        "repetition_penalty": 1.8,
        "no_repeat_ngram_size": 2,
        "suppress_tokens": [260, 28],
        "min_new_tokens": 16,
    }
    for name, value in {**settings, "do_sample": True, "temperature": 2.0}.items():
        monkeypatch.setattr(own, name, value)
    assert run(smollm2, prompts(QUESTIONS), SHORT, 8).equals(in_eights)
    assert smollm2.model.generation_config is own and own.repetition_penalty == 1.8


def test_end_tokens_of_the_model_are_kept(
    smollm2: LoadedModel, in_eights: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    paris = smollm2.tokenizer.encode(" Paris")
    monkeypatch.setattr(smollm2.model.generation_config, "eos_token_id", [*paris, 2])
    row = run(smollm2, prompts(QUESTIONS[2:3]), SHORT, 1).loc[0]
    assert row["response"] == in_eights.loc[2, "response"].split(" Paris")[0]
    assert row["finish_reason"] == "stop"


def test_a_response_without_text_is_empty(smollm2: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2.model.generation_config, "eos_token_id", [2, *smollm2.tokenizer.encode("The")])
    row = run(smollm2, prompts(QUESTIONS[2:3]), SHORT, 1).loc[0]
    assert (row["response"], row["output_tokens"], row["finish_reason"]) == ("", 0, "empty")


def test_base_model_gets_raw_prompts(gemma_base: LoadedModel) -> None:
    texts = ["The capital of France is", "One, two, three,"]
    rows = run(gemma_base, prompts(texts), GenerationSettings(max_new_tokens=4), 2)
    meta = [json.loads(text) for text in rows["meta"]]
    assert [(m["template_used"], m["bos_count"], m["end_tokens"]) for m in meta] == [("raw", 1, [1])] * 2
    assert rows["prompt_tokens"].tolist() == [6, 7]
    assert rows.loc[1, "response"].strip().startswith("four")


def test_a_prompt_longer_than_the_window_is_cut_and_flagged(
    smollm2: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2.tokenizer, "model_max_length", 80)
    rows = run(smollm2, prompts(["word " * 200, "Hi"]), SHORT, 2)
    assert rows["prompt_truncated"].tolist() == [True, False]
    assert rows["prompt_tokens"].tolist() == [64, 31]


def test_longest_prompts_come_first(smollm2: LoadedModel) -> None:
    job = GenerationJob(GenerationSettings(max_new_tokens=1), "m", "id")
    batches = list(generate(smollm2, prompts(QUESTIONS), job, BatchLimits(2)))
    assert [len(batch) for batch in batches] == [2, 2, 2, 2]
    lengths = [count for batch in batches for count in batch["prompt_tokens"]]
    assert lengths == sorted(lengths, reverse=True) and len(set(lengths)) > 4


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (GenerationSettings(dtype="bfloat16"), "settings have dtype bfloat16, the model was loaded in float32"),
        (
            GenerationSettings(max_new_tokens=8192),
            "max_new_tokens 8192 leaves no room for a prompt in a window of 8192",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(smollm2: LoadedModel, settings: GenerationSettings, says: str) -> None:
    with pytest.raises(InputError, match=says):
        next(generate(smollm2, prompts(["Hi"]), GenerationJob(settings, "m", "id"), BatchLimits(1)))


def test_nothing_asked_gives_nothing(smollm2: LoadedModel) -> None:
    assert list(generate(smollm2, prompts([]), GenerationJob(SHORT, "m", "id"), BatchLimits(1))) == []


WORD_TEXTS = ["tea", "the sun rises", "is the bee late", "a bee", "the sun is late the bee is late the tea is late"]


def words_of(folder: Path, batch_size: int) -> list[str]:
    found = run(load_causal_lm(Source(folder=folder)), prompts(WORD_TEXTS), SHORT, batch_size)
    return found["response"].tolist()


@pytest.mark.parametrize("end", [None, "end"])
def test_any_vocabulary_gives_the_same_replies_alone_and_in_a_batch(end: str | None, tmp_path: Path) -> None:
    """Id 0 is a word, and there is no pad token; with or without an end token."""
    tokenizer = word_tokenizer(**({"eos_token": end} if end else {}))
    folder = write_model(tmp_path / "words", scale=0.8, tokenizer=tokenizer)
    loaded = load_causal_lm(Source(folder=folder))
    assert tokenizer.decode([0]) == "tea" and loaded.pad_id == (15 if end else 0)
    alone = words_of(folder, 1)
    assert words_of(folder, 3) == alone == words_of(folder, 16) and len(set(alone)) > 3
    # The reference: no cache and no padding.
    for text, reply in zip(WORD_TEXTS, alone, strict=True):
        ids = tokenizer.encode(text)
        start = len(ids)
        with torch.inference_mode():
            for _ in range(16):
                ids.append(int(loaded.model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
        new = ids[start:]
        ends = [place for place, token in enumerate(new) if end and token == 15]
        assert reply == tokenizer.decode(new[: min(ends, default=16)])


def test_logits_beyond_float16_stop_before_a_row(tmp_path: Path) -> None:
    """One line with the model and the dtype; in float32 the same weights generate."""
    folder = change_weights(write_model(tmp_path / "words"), overflow)
    for dtype in ("float32", "bfloat16"):
        loaded = load_causal_lm(Source(folder=folder), dtype=dtype)
        assert len(run(loaded, prompts(WORD_TEXTS), SHORT.model_copy(update={"dtype": dtype}), 3)) == len(WORD_TEXTS)
    half = load_causal_lm(Source(folder=folder), dtype="float16")
    rows = generate(
        half,
        prompts(WORD_TEXTS),
        GenerationJob(SHORT.model_copy(update={"dtype": "float16"}), "m", "id"),
        BatchLimits(3),
    )
    with pytest.raises(InputError, match=rf"^folder {folder}: the logits of replies are nan or infinite in float16"):
        next(rows)


def test_a_prompt_with_a_token_that_the_model_cannot_read_is_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "words", tokenizer=word_tokenizer(pad_token="[PAD]"))
    with pytest.raises(InputError, match=rf"^folder {folder}: a text holds the token '\[PAD\]' \(16\)"):
        run(load_causal_lm(Source(folder=folder)), prompts(["tea", "the [PAD] sun"]), SHORT, 2)
