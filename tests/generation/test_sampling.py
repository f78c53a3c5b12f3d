"""Drawn tokens: the right distribution, top_p by hand, and real models whose replies depend on their name alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import chisquare
from test_architectures import FAMILIES, TEXTS, write_tiny

from slmsafety.generation.decoding import BatchLimits
from slmsafety.generation.sampling import draw
from slmsafety.generation.settings import GenerationJob, GenerationSettings
from slmsafety.generation.streams import stream, uniforms
from slmsafety.generation.transformers_engine import generate
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.source import Source

LOGITS = torch.tensor([1.5, -0.5, 0.0, 2.0, 0.7, -3.0, 1.5])


def kept_by_hand(probabilities: np.ndarray, top_p: float) -> np.ndarray:
    """The fewest of the likeliest tokens that reach top_p, the lower ids first, with what they share put to 1."""
    order = sorted(range(len(probabilities)), key=lambda token: (-probabilities[token], token))
    kept, total = np.zeros(len(probabilities)), 0.0
    for token in order:
        kept[token] = probabilities[token]
        total += probabilities[token]
        if total >= top_p:
            break
    return kept / kept.sum()


def spread(logits: torch.Tensor, many: int, temperature: float, top_p: float) -> np.ndarray:
    """How often each token is drawn by evenly spaced numbers: its share to within one of `many`."""
    numbers = (torch.arange(many, dtype=torch.float64) + 0.5) / many
    drawn = draw(logits.expand(many, -1), numbers, temperature, top_p)
    return np.bincount(drawn.numpy(), minlength=len(logits)) / many


@pytest.mark.parametrize("temperature", [0.01, 0.5, 1.0, 1.7, 100.0])
@pytest.mark.parametrize("top_p", [1.0, 0.95, 0.6, 0.3, 1e-9])
def test_shares_are_those_of_the_softmax_within_top_p(temperature: float, top_p: float) -> None:
    probabilities = torch.softmax(LOGITS.double() / temperature, 0).numpy()
    expected = kept_by_hand(probabilities, top_p) if top_p < 1 else probabilities
    assert np.abs(spread(LOGITS, 10_000, temperature, top_p) - expected).max() < 2e-4


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.6, 1.0), (1.3, 0.8)])
def test_many_samples_of_one_prompt_follow_the_distribution(temperature: float, top_p: float) -> None:
    names = [stream(7, "suite", "prompt", sample) for sample in range(5000)]
    for place in (0, 40):
        numbers = torch.tensor([uniforms(name, place, place + 1)[0] for name in names])
        drawn = draw(LOGITS.expand(len(names), -1), numbers, temperature, top_p).numpy()
        shares = kept_by_hand(torch.softmax(LOGITS.double() / temperature, 0).numpy(), top_p)
        counts = np.bincount(drawn, minlength=len(LOGITS))
        assert not counts[shares == 0].any()
        assert chisquare(counts[shares > 0], shares[shares > 0] * len(names)).pvalue > 0.001


def test_a_tiny_top_p_is_the_argmax_and_ties_go_by_id() -> None:
    tied = torch.tensor([[0.0, 3.0, 1.0, 3.0, 3.0]]).expand(64, -1)
    numbers = torch.arange(64, dtype=torch.float64) / 64
    assert set(draw(tied, numbers, 1.0, 1e-12).tolist()) == {1} == set(tied.argmax(dim=1).tolist())
    # One of the three has a share of 0.31, two have 0.62.
    assert set(draw(tied, numbers, 1.0, 0.5).tolist()) == {1, 3}
    assert set(draw(tied, numbers, 1.0, 0.9).tolist()) == {1, 3, 4}
    equal = torch.zeros(64, 8)
    assert set(draw(equal, numbers, 1.0, 0.5).tolist()) == {0, 1, 2, 3}
    assert set(draw(equal, numbers, 1.0, 0.51).tolist()) == {0, 1, 2, 3, 4}


def test_what_cannot_be_is_never_drawn_not_even_at_the_ends() -> None:
    barred = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -200.0, -torch.inf]])
    ends = torch.tensor([0.0, 0.5 - 2**-52, 0.5, 1 - 2**-52], dtype=torch.float64)
    for top_p in (1.0, 0.999999):
        assert draw(barred.expand(4, -1), ends, 1.0, top_p).tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize("top_p", [1.0, 0.999, 0.9, 0.5, 1e-6])
@pytest.mark.parametrize("scale", [0.0, 1.0, 6.0])
def test_a_large_vocabulary_in_parts_draws_what_a_plain_sort_draws(top_p: float, scale: float) -> None:
    """Flat and steep rows in one batch, wider than one part and than the first look at the likeliest tokens."""
    logits = torch.randn((12, 50_000), generator=torch.Generator().manual_seed(1)) * scale
    logits[::3] *= 3
    numbers = torch.rand(12, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    expected = []
    for row, number in zip(logits.numpy().astype(np.float64), numbers.tolist(), strict=True):
        weights = np.exp((row - row.max()) / 0.8).astype(np.float32).astype(np.float64)
        order = np.argsort(-weights, kind="stable")
        many = int((weights[order].cumsum() < top_p * weights.sum()).sum()) + 1
        kept = np.zeros_like(weights)
        kept[order[:many]] = weights[order[:many]]
        expected.append(int(np.searchsorted(kept.cumsum(), number * kept.sum(), side="right")))
    assert draw(logits, numbers, 0.8, top_p).tolist() == expected


def asked(texts: list[str], samples: int) -> pd.DataFrame:
    rows = [("demo", f"q{row}", sample, text) for row, text in enumerate(texts) for sample in range(samples)]
    return pd.DataFrame(rows, columns=["suite", "instance_id", "sample", "prompt"])


def replies(loaded: LoadedModel, frame: pd.DataFrame, settings: GenerationSettings, rows: int) -> pd.DataFrame:
    found = pd.concat(generate(loaded, frame, GenerationJob(settings, "m", "0123456789ab"), BatchLimits(rows)))
    return found.sort_values(["instance_id", "sample"], ignore_index=True).drop(columns="meta")


@pytest.fixture(scope="module", params=["GPT-2", "Llama", "Gemma 3", "Zamba2"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    kind, shape = FAMILIES[request.param]
    return load_causal_lm(Source(folder=write_tiny(tmp_path_factory.mktemp("model"), kind, shape)))


DRAWN: dict[str, Any] = {"temperature": 0.8, "top_p": 0.9, "max_new_tokens": 12}


def test_a_sampled_reply_depends_on_its_name_alone(tiny: LoadedModel) -> None:
    """Not on the batch, the order, the other prompts and samples, or what was done before."""
    settings = GenerationSettings(**DRAWN)
    whole = replies(tiny, asked(TEXTS, 3), settings, 16)
    assert len(whole) == 3 * len(TEXTS) and whole["response"].nunique() > len(TEXTS)
    for rows in (1, 3):
        shuffled = asked(TEXTS, 3).sample(frac=1, random_state=rows)
        assert replies(tiny, shuffled, settings, rows).equals(whole)
    part = replies(tiny, asked(TEXTS, 3).iloc[4::2], settings, 5)
    keys = ["instance_id", "sample"]
    assert part.equals(whole.merge(part[keys], on=keys)[list(part)])


def test_replies_are_those_of_a_plain_loop(tiny: LoadedModel) -> None:
    """One prompt, one token after the other, no cache and no padding; each token by the rule in words."""
    settings, text = GenerationSettings(**DRAWN), TEXTS[2]
    found = replies(tiny, asked(TEXTS, 2), settings, 16)
    for sample in (0, 1):
        ids, new = tiny.tokenizer.encode(text), []
        numbers = uniforms(stream(settings.seed, "demo", "q2", sample), 0, 12)
        for number in numbers:
            with torch.inference_mode():
                logits = tiny.model(torch.tensor([ids + new])).logits[0, -1].double()
            shares = kept_by_hand(torch.softmax(logits / 0.8, 0).numpy(), 0.9)
            token = int(np.searchsorted(shares.cumsum(), number * shares.sum(), side="right"))
            if token == tiny.tokenizer.eos_token_id:
                break
            new.append(token)
        row = found[(found["instance_id"] == "q2") & (found["sample"] == sample)]
        assert row["response"].item() == tiny.tokenizer.decode(new)


def test_another_seed_or_sample_gives_another_reply_and_a_low_temperature_the_greedy_one(tiny: LoadedModel) -> None:
    frame = asked(TEXTS, 1)
    first, second = (replies(tiny, frame, GenerationSettings(**DRAWN, seed=seed), 4) for seed in (1, 2))
    assert (first["response"] != second["response"]).sum() >= len(TEXTS) // 2
    greedy = replies(tiny, frame.drop(columns="sample"), GenerationSettings(max_new_tokens=12), 4)
    assert not greedy["sample"].any()
    narrow = GenerationSettings(max_new_tokens=12, temperature=1, top_p=1e-9)
    assert replies(tiny, frame, narrow, 4).equals(greedy)


def test_the_models_own_sampling_settings_do_not_leak(tiny: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = GenerationSettings(**{**DRAWN, "top_p": 1.0})
    before = replies(tiny, asked(TEXTS, 1), settings, 4)
    own = {"do_sample": True, "temperature": 0.1, "top_k": 2, "top_p": 0.2, "min_p": 0.5, "typical_p": 0.3}
    for name, value in own.items():
        monkeypatch.setattr(tiny.model.generation_config, name, value)
    assert replies(tiny, asked(TEXTS, 1), settings, 4).equals(before)


def test_the_first_tokens_of_many_samples_follow_the_model(tmp_path: Path) -> None:
    """The engine whole: 600 replies of one token against the softmax of the model's own logits."""
    loaded = load_causal_lm(Source(folder=write_tiny(tmp_path, *FAMILIES["Llama"])))
    settings = GenerationSettings(max_new_tokens=1, temperature=2.5)
    found = replies(loaded, asked(["so it is"], 600), settings, 100)
    with torch.inference_mode():
        logits = loaded.model(torch.tensor([loaded.tokenizer.encode("so it is")])).logits[0, -1].double()
    shares = torch.softmax(logits / 2.5, 0).numpy()
    counts = dict.fromkeys(range(len(shares)), 0)
    for text in found["response"]:
        counts[loaded.tokenizer.encode(text)[0] if text else loaded.tokenizer.eos_token_id] += 1
    assert (shares * len(found) >= 5).all()
    assert chisquare(list(counts.values()), shares * len(found)).pvalue > 0.001


def test_a_model_that_is_decoded_one_prompt_at_a_time_draws_too(tmp_path: Path) -> None:
    """Purely recurrent models have a way of their own through the decoder: it must not fall back to greedy replies."""
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
    loaded = load_causal_lm(Source(folder=write_tiny(tmp_path, "mamba", shape)))
    found = replies(loaded, asked(TEXTS[:3], 5), GenerationSettings(max_new_tokens=6, temperature=1.5), 1)
    assert found.groupby("instance_id")["response"].nunique().min() > 2
