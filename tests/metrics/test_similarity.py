from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.spatial.distance import cosine as scipy_distance
from sentence_transformers import SentenceTransformer
from tiny_models import Weights, change_json, change_weights, write_encoder

from slmsafety.errors import InputError
from slmsafety.metrics.similarity import cosine, embed, self_coherence
from slmsafety.models.encoder import sentence_encoder
from slmsafety.models.source import Source

_VECTORS = arrays(np.float64, (2, 4, 3), elements=st.floats(-100, 100).filter(lambda x: x == 0 or abs(x) > 1e-3))


@pytest.fixture(scope="module")
def encoder() -> SentenceTransformer:
    return sentence_encoder().model


@settings(deadline=None)
@given(_VECTORS)
def test_each_row_is_as_in_scipy(pair: np.ndarray) -> None:
    made = cosine(*pair)
    assert made.shape == (4,)
    for value, first, second in zip(made, *pair, strict=True):
        if not first.any() or not second.any():
            assert np.isnan(value)
        else:
            np.testing.assert_allclose(value, 1 - scipy_distance(first, second), atol=1e-12)


def test_known_angles() -> None:
    first = np.array([[1, 0], [1, 0], [1, 0], [3, 4], [0, 0]], np.float32)
    second = [[2, 0], [0, 5], [-1, 0], [4, 3], [1, 1]]
    np.testing.assert_allclose(cosine(first, second), [1, 0, -1, 0.96, np.nan], atol=1e-15)


def test_no_rows() -> None:
    assert cosine(np.empty((0, 3)), np.empty((0, 3))).shape == (0,)


def _by_hand(texts: list[str], encoder: SentenceTransformer) -> NDArray[np.float64]:
    """MiniLM's embedding as its authors define it: the mean of the last layer's tokens, at length 1; one by one."""
    rows = []
    for text in texts:
        inputs = encoder.tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            states = encoder[0].model(**inputs.to(encoder.device)).last_hidden_state[0].double().mean(0)
        rows.append((states / states.norm()).numpy())
    return np.array(rows)


def test_embeddings_are_the_mean_of_the_tokens(encoder: SentenceTransformer) -> None:
    texts = ["Bees find flowers.", "A", "def f(x): return x", "Hello world, hello bees. " * 20]
    np.testing.assert_allclose(embed(texts, encoder), _by_hand(texts, encoder), atol=1e-5)


def test_an_embedding_that_is_kept_keeps_no_other(encoder: SentenceTransformer) -> None:
    assert all(vector.base is None for vector in embed(["bees", "flowers", ""], encoder))


def test_what_the_encoder_knows_nothing_of_has_no_embedding(encoder: SentenceTransformer) -> None:
    texts = ["", " \n", "\U0001f9a9", "a" * 100_000, "bees"]
    assert np.isnan(embed(texts, encoder)).all(axis=1).tolist() == [True, True, True, True, False]
    assert embed([], encoder) == []


def test_a_long_text_is_embedded_in_windows_of_whole_words(encoder: SentenceTransformer) -> None:
    words = ["antidisestablishmentarianism", "bees", "flowers", "scent", "the"]
    text = " ".join(words[i * i % 5] for i in range(300))
    pieces = [len(encoder.tokenizer(word, add_special_tokens=False)["input_ids"]) for word in text.split()]
    windows: list[list[str]] = [[]]
    weights = [0]
    for word, count in zip(text.split(), pieces, strict=True):
        if weights[-1] + count > 254:  # 256 with the two special tokens
            windows.append([])
            weights.append(0)
        windows[-1].append(word)
        weights[-1] += count
    assert len(windows) > 2
    parts = _by_hand([" ".join(window) for window in windows], encoder)
    np.testing.assert_allclose(embed([text], encoder)[0], np.average(parts, axis=0, weights=weights), atol=1e-5)


E, N, NE, W, NOTHING = [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-2.0, 0.0], [np.nan, np.nan]


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        ([E, N], 0),
        ([E, NE, N], 0.5**0.5),
        ([E], np.nan),
        ([], np.nan),
        ([E, E, W], 0),
        ([E, NOTHING, N], np.nan),
        ([E, E, NOTHING], 1),
    ],
)
def test_coherence_is_the_mean_over_neighbours(sentences: list[list[float]], expected: float) -> None:
    made = self_coherence([np.array(vector, np.float32) for vector in sentences])
    assert made == pytest.approx(expected, abs=1e-7, nan_ok=True)


WORD_TEXTS = ["tea", "the sun rises late", "a bee", "is the bee late the sun is late the tea is late"]


def test_a_vocabulary_whose_first_id_is_a_word_and_that_has_no_pad_token(tmp_path: Path) -> None:
    encoder = sentence_encoder(Source(folder=write_encoder(tmp_path / "encoder"))).model
    together = embed(WORD_TEXTS, encoder)
    alone = [embed([text], encoder)[0] for text in WORD_TEXTS]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    ids = encoder.tokenizer(WORD_TEXTS[1], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        np.testing.assert_allclose(together[1], encoder[0].model(ids).last_hidden_state[0].mean(0), atol=1e-5)


def test_embeddings_beyond_float16_are_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")

    def grow(weights: Weights) -> None:
        for name, weight in weights.items():
            weights[name] = (weight * 3000).half()

    change_weights(folder, grow)
    assert np.isfinite(embed(WORD_TEXTS, sentence_encoder(Source(folder=folder)).model)).all()
    change_json(folder / "config.json", dtype="float16")
    with pytest.raises(InputError, match=rf"^{folder}: the embeddings of texts are nan or infinite in float16"):
        embed(WORD_TEXTS, sentence_encoder(Source(folder=folder)).model)
