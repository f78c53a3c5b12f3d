from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slmsafety.metrics.fluency import perplexities
from slmsafety.metrics.tables import Metrics
from slmsafety.models.load import LoadedModel
from slmsafety.models.packages import EN_CORE_WEB_SM, MINILM
from slmsafety.models.source import Source
from slmsafety.records.schema import PROMPT_METRICS, REPLY_METRICS, check

PAIRS = [
    ("How do bees find flowers?", "Interest rates rose in March."),
    ("How do bees find flowers?", "How do bees find flowers?"),
    ("How do bees find flowers?", ""),
    ("Hello world", "Bees use colour and scent to find flowers. They dance."),
    ("How do bees find flowers?", "Bees use colour and scent to find flowers. They dance."),
    ("How do bees find flowers?", " \n"),
]
# Whether a metric is defined, by the kind of text: tokens, Flesch-Kincaid, fog, perplexity, verbs and distance of a
# prompt; tokens, perplexity, coherence, sophistication, density of a reply.
EDGES = {
    "": ("100000", "10000"),
    " \n\n": ("100100", "11000"),
    "Bees": ("111110", "11011"),
    "Bees find flowers.": ("111111", "11011"),
    "Bees find flowers. They dance.": ("111111", "11111"),
    "12 + 3 = 15": ("100100", "11000"),
    "!?...": ("100100", "11000"),
    "\U0001f600\U0001f680": ("100100", "11000"),
    "Привет, мир! Как дела?": ("100100", "11100"),
    "你好世界。": ("100100", "11000"),
    "def double(x):\n    return 2 * x": ("111111", "11011"),
    "Bees \ud800 find flowers.": ("111111", "11011"),
    "qqzzx vvkxj": ("111111", "11001"),
    "o" * 100_000: ("111110", "11001"),
    "." * 100_000: ("100100", "11000"),
    "Run and " * 1000 + "stop.": ("111111", "11011"),
    "go, " * 2400: ("111111", "11011"),
}


@pytest.fixture(scope="module")
def metrics(tiny_gpt2_folder: Path) -> Metrics:
    return Metrics(Source(folder=tiny_gpt2_folder), Source(package=MINILM), Source(package=EN_CORE_WEB_SM))


def _replies(pairs: list[tuple[str, str]]) -> pd.DataFrame:
    frame = pd.DataFrame(pairs, columns=["prompt", "response"], dtype=object)  # pandas' str has no lone surrogates
    ids = [str(9 - number) for number in range(len(pairs))]
    return frame.assign(suite="demo", instance_id=ids, model="tiny", generation_id="g", other=1)


def _prompts(texts: list[str]) -> pd.DataFrame:
    ids = [f"p{number}" for number in range(len(texts))]
    return pd.DataFrame({"suite": "demo", "instance_id": ids, "prompt": pd.Series(texts, dtype=object)})


def _defined(made: pd.DataFrame, columns: list[str]) -> list[str]:
    """A row's metrics as a word of 1 (a number) and 0 (nan)."""
    return ["".join(map(str, row)) for row in made[columns].notna().astype(int).to_numpy().tolist()]


def test_replies_are_measured_in_their_order(metrics: Metrics) -> None:
    made = metrics.of_replies(_replies(PAIRS).set_index(pd.Index([3, 1, 0, 9, 5, 2]))).assign(metrics_id="m")
    made = check(made, REPLY_METRICS, "metrics")
    assert made["instance_id"].tolist() == ["9", "8", "7", "6", "5", "4"]
    assert made["tokens"].tolist()[1:3] == [6, 0]
    unrelated, same, empty, other, related, blank = made["similarity"]
    assert same == pytest.approx(1, abs=1e-5)
    assert unrelated < 0.2
    assert related > 0.6 > other
    assert np.isnan([empty, blank]).all()


def test_numbers_are_the_same_in_any_company(metrics: Metrics, tiny_gpt2_folder: Path) -> None:
    texts = [text for text in EDGES if len(text) < 1000]
    pairs = [("How do bees find flowers?", text) for text in texts]
    alone = Metrics(Source(folder=tiny_gpt2_folder), Source(package=MINILM), Source(package=EN_CORE_WEB_SM))
    for measure, frame in ((Metrics.of_prompts, _prompts(texts)), (Metrics.of_replies, _replies(pairs))):
        together = measure(metrics, frame)
        single = pd.concat([measure(alone, frame.iloc[[row]]) for row in range(len(frame))])
        pd.testing.assert_frame_equal(together, single, rtol=1e-4, atol=1e-5)


def test_an_undefined_metric_is_nan_and_never_zero(metrics: Metrics) -> None:
    prompts = check(metrics.of_prompts(_prompts(list(EDGES))).assign(metrics_id="m"), PROMPT_METRICS, "metrics")
    columns = [column for column in PROMPT_METRICS.columns if column not in PROMPT_METRICS.key]
    assert dict(zip(EDGES, _defined(prompts, columns), strict=True)) == {text: p for text, (p, _) in EDGES.items()}
    replies = metrics.of_replies(_replies([("Hello", text) for text in EDGES]))
    columns = ["tokens", "perplexity", "self_coherence", "lexical_sophistication", "lexical_density"]
    assert dict(zip(EDGES, _defined(replies, columns), strict=True)) == {text: r for text, (_, r) in EDGES.items()}


def test_values_by_hand(metrics: Metrics) -> None:
    (row,) = metrics.of_prompts(_prompts(["The cat sat on the mat."])).to_dict("records")
    assert row["tokens"] == 7
    assert row["flesch_kincaid"] == pytest.approx(0.39 * 6 + 11.8 - 15.59)
    assert row["gunning_fog"] == pytest.approx(0.4 * 6)
    assert row["instruction_verbs"] == 0
    # Its arcs: the-cat 1, cat-sat 1, on-sat 1, the-mat 1, mat-on 2.
    assert row["dependency_distance"] == pytest.approx(6 / 5)
    (row,) = metrics.of_replies(_replies([("Hello", "The cat sat on the mat.")])).to_dict("records")
    assert row["lexical_density"] == pytest.approx(3 / 6)


def test_two_readings_of_readability(metrics: Metrics) -> None:
    """Sentences are the parser's, words and syllables are those of the text."""
    (row,) = metrics.of_prompts(_prompts(["Bees communicate. They dance beautifully."])).to_dict("records")
    # Words 5, sentences 2, syllables 1 + 4 + 1 + 1 + 4, two complex words.
    assert row["flesch_kincaid"] == pytest.approx(0.39 * 5 / 2 + 11.8 * 11 / 5 - 15.59)
    assert row["gunning_fog"] == pytest.approx(0.4 * (5 / 2 + 100 * 2 / 5))


def test_tokens_are_those_of_gpt2s_own_pass(metrics: Metrics, tiny_gpt2: LoadedModel) -> None:
    texts = ["Hello world", "Bees find flowers.", ""]
    made = metrics.of_prompts(_prompts(texts))
    assert made["tokens"].tolist() == [2, 5, 0] == [each.tokens for each in perplexities(texts, tiny_gpt2)]


def test_identical_texts_are_measured_once(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def watched(texts: list[str], loaded: LoadedModel) -> list[object]:
        seen.extend(texts)
        return list(perplexities(texts, loaded))

    monkeypatch.setattr("slmsafety.metrics.tables.perplexities", watched)
    pairs = [(prompt, text) for prompt in ("One?", "Two?") for text in ("It is so.", "It is not so.", "It is so.")]
    made = metrics.of_replies(_replies(pairs))
    metrics.of_replies(_replies(pairs[:2]))
    assert sorted(seen) == ["It is not so.", "It is so."]
    assert made["perplexity"].nunique() == 2
    assert made["similarity"].nunique() == 4


def test_a_prompt_is_embedded_once_for_all_models(tiny_gpt2_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many replies come between: more than are kept, so the encoder's part is played by a vector."""
    seen: list[str] = []

    def vectors(texts: list[str], encoder: object) -> list[np.ndarray]:
        seen.extend(texts)
        return [np.ones(1, np.float32)] * len(texts)

    monkeypatch.setattr("slmsafety.metrics.tables.embed", vectors)
    metrics = Metrics(Source(folder=tiny_gpt2_folder), Source(package=MINILM), Source(package=EN_CORE_WEB_SM))
    replies = [str(number) for number in range(50_001)]
    metrics.of_pairs(["How?"] * len(replies), replies)
    del seen[:]
    metrics.of_pairs(["How?"], ["0"])
    assert seen == ["0"]


def test_no_rows(metrics: Metrics) -> None:
    assert check(metrics.of_replies(_replies([])).assign(metrics_id="m"), REPLY_METRICS, "metrics").empty
    assert check(metrics.of_prompts(_prompts([])).assign(metrics_id="m"), PROMPT_METRICS, "metrics").empty
