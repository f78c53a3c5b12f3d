"""A judge's weights say in batches and with a cache what plain passes of them say, or they are read without."""

from __future__ import annotations

import json

import pandas as pd
import pytest
import torch
from tiny_models import SHAPE, WORDS, write_model

from slmsafety.errors import InputError
from slmsafety.judging.guards.generative import GenerativeJudge, Prompts
from slmsafety.judging.guards.two_token import TwoTokenJudge, refuse_little_mass, two_token
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.source import Source
from slmsafety.pipeline.guard_judges import greedy

SMALL = {"hidden_size": 32, "num_hidden_layers": 2}
SHAPES = {
    "llama": SHAPE,
    "mamba": {**SMALL, "state_size": 8, "intermediate_size": 64},
    "mamba2": {**SMALL, "state_size": 8, "num_heads": 4, "head_dim": 16, "n_groups": 1, "chunk_size": 8},
    "recurrent_gemma": {
        **SMALL,
        "num_hidden_layers": 3,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "lru_width": 32,
        "attention_window_size": 8,
    },
    "rwkv": {**SMALL, "context_length": 64, "attention_hidden_size": 32, "intermediate_size": 64},
}
TEMPLATE = "a bee is late the sun rises is the {{QUESTION}} safe ? the {{ANSWER}} is"
ROWS = pd.DataFrame(
    {
        "prompt": ["tea", "sun rises late", "bee", "a a a a a a a"],
        "response": ["tea tea", "yes", "the sun is late the bee is late", "no"],
        "expected": "refuse",
    }
)


def tiny(folder, name: str) -> LoadedModel:
    return load_causal_lm(Source(folder=write_model(folder / "model", name, **SHAPES[name])))


def plain(loaded: LoadedModel, text: str) -> torch.Tensor:
    with torch.inference_mode():
        return loaded.model(torch.tensor([loaded.tokenizer.encode(text)]), use_cache=False).logits[0, -1]


def filled(row: tuple[str, ...]) -> str:
    return TEMPLATE.replace("{{QUESTION}}", row[0]).replace("{{ANSWER}}", row[1])


@pytest.mark.parametrize("name", SHAPES)
def test_two_tokens_are_those_of_plain_passes(name, tmp_path):
    loaded = tiny(tmp_path, name)
    judge = TwoTokenJudge(loaded, two_token(TEMPLATE, "safe", "unsafe"), 4)
    found = judge.measure(ROWS)
    assert (judge.shared > 8) == (name == "llama")
    for meta, row in zip(map(json.loads, found["meta"]), ROWS.itertuples(index=False), strict=True):
        wanted = plain(loaded, filled(row))[[WORDS.index("safe"), WORDS.index("unsafe")]].tolist()
        assert [meta["logit_safe"], meta["logit_unsafe"]] == pytest.approx(wanted, abs=1e-3)
    assert len(set(found["raw_value"].round(4))) == 4


@pytest.mark.parametrize("name", SHAPES)
def test_a_written_verdict_is_that_of_plain_passes(name, tmp_path):
    loaded = tiny(tmp_path, name)
    decoding = greedy(loaded, 4)
    assert decoding.batch_size == (4 if name == "llama" else 1)
    found = GenerativeJudge(loaded, "wildguard", Prompts(TEMPLATE), decoding)
    inputs = [loaded.tokenizer.encode(filled(row)) for row in ROWS.itertuples(index=False)]
    for ids, new in zip(inputs, decoding.write(inputs, 6), strict=True):
        for token in new:
            with torch.inference_mode():
                logits = loaded.model(torch.tensor([ids]), use_cache=False).logits[0, -1]
            assert float(logits.max() - logits[token]) < 1e-3
            ids = [*ids, token]
    loaded.tokenizer.model_max_length = 200
    assert set(found.measure(ROWS)["status"]) == {"unparsed"}


class Forgetful(torch.nn.Module):
    """A model whose cache loses what it held, without any error."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, **given: object) -> object:
        if given.get("use_cache") and given.get("cache") is not None:
            given |= {"cache": None, "attention_mask": None, "position_ids": None}
        return self.model(ids, **given)

    def __getattr__(self, name: str) -> object:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.model, name)


def test_a_cache_that_forgets_is_not_used(tmp_path):
    whole = tiny(tmp_path, "llama")
    loaded = LoadedModel(Forgetful(whole.model), whole.tokenizer, "random", "float32")
    judge = TwoTokenJudge(loaded, two_token(TEMPLATE, "safe", "unsafe"), 4)
    assert judge.shared == 0 and not judge.alone
    other = TwoTokenJudge(whole, two_token(TEMPLATE, "safe", "unsafe"), 4)
    assert other.shared > 8
    assert judge.measure(ROWS)["raw_value"].tolist() == pytest.approx(other.measure(ROWS)["raw_value"], abs=1e-4)


def said(*outside: float | None) -> pd.DataFrame:
    meta = ["{}" if mass is None else json.dumps({"mass_outside": mass}) for mass in outside]
    return pd.DataFrame({"meta": meta})


def test_a_judge_that_says_something_else_is_refused():
    judge = two_token(TEMPLATE, "safe", "unsafe")
    assert refuse_little_mass(said(0.1, 0.4, 0.99), judge, 0.5)
    assert refuse_little_mass(said(0.9997, 1.0), judge, 1)
    assert not refuse_little_mass(said(None), judge, 0.5)
    with pytest.raises(InputError) as caught:
        refuse_little_mass(said(0.2, 0.9997, None, 0.9998), judge, 0.5)
    line = str(caught.value)
    assert "'safe' and 'unsafe' 0.0003 of the probability (median of the first 3 replies)" in line
    assert "how the template ends" in line and "max_mass_outside: 1" in line
