"""Reply-prompt similarity and self-coherence by sentence embeddings (paper section 3.3; Reimers and Gurevych 2019)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sentence_transformers import SentenceTransformer

Vectors = NDArray[np.float32]


def cosine(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return the cosine (-1..1) of each row of `first` with the same row of `second`; nan for a zero or nan vector."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.divide((a * b).sum(axis=1), norms, out=np.full(len(a), np.nan), where=norms > 0)


def self_coherence(sentences: Sequence[Sequence[str]], embed: Callable[[list[str]], Sequence[Vectors]]) -> list[float]:
    """Return the mean cosine (-1..1) of adjacent sentences of each text, given as its sentences.

    nan with less than two sentences, and where the encoder reads none of two adjacent ones; such a pair is left out.
    Foltz, Kintsch and Landauer 1998, with sentence embeddings for their vectors.
    """
    flat = [sentence for text in sentences if len(text) > 1 for sentence in text]
    vectors = iter(embed(flat))
    result = []
    for text in sentences:
        own = [next(vectors) for _ in text] if len(text) > 1 else []
        pairs = cosine(own[:-1], own[1:]) if own else np.empty(0)
        known = pairs[~np.isnan(pairs)]
        result.append(float(known.mean()) if known.size else float("nan"))
    return result


def embed(texts: list[str], encoder: SentenceTransformer) -> list[Vectors]:
    """Return the embedding of each text; nan where the encoder knows none of it (empty, or a script it does not have).

    A text beyond the encoder's window is not cut: it is embedded in windows, and has their mean, weighted by their
    pieces of words.
    """
    if not texts:
        return []
    tokenizer = encoder.tokenizer
    read = tokenizer(
        texts, add_special_tokens=False, truncation=False, padding=False, return_offsets_mapping=True, verbose=False
    )
    limit = int(encoder.max_seq_length or tokenizer.model_max_length) - tokenizer.num_special_tokens_to_add()
    parts: list[tuple[int, str, int]] = []
    for row, text in enumerate(texts):
        if any(piece != tokenizer.unk_token_id for piece in read["input_ids"][row]):
            windows = _windows(text, read["offset_mapping"][row], read.word_ids(row), limit)
            parts += [(row, window, weight) for window, weight in windows]
    size = int(encoder.get_embedding_dimension() or 0)
    sums, weights = np.zeros((len(texts), size), np.float32), np.zeros((len(texts), 1), np.float32)
    if parts:
        unique = list(dict.fromkeys(window for _, window, _ in parts))
        # On a CPU padding costs more than a larger batch gains.
        batch_size = 4 if encoder.device.type == "cpu" else 128
        made = encoder.encode(unique, batch_size=batch_size, show_progress_bar=False)
        vectors = dict(zip(unique, made, strict=True))
        for row, window, weight in parts:
            sums[row] += weight * vectors[window]
            weights[row] += weight
    means = np.divide(sums, weights, out=np.full_like(sums, np.nan), where=weights > 0)
    return [mean.copy() for mean in means]  # one that is kept must not keep the others


def _windows(
    text: str, offsets: list[tuple[int, int]], words: list[int | None], limit: int
) -> Iterator[tuple[str, int]]:
    """Parts of a text of at most `limit` pieces, and how many each has; no word is parted."""
    start = 0
    while start < len(offsets):
        end = min(start + limit, len(offsets))
        while end < len(offsets) and end > start + 1 and words[end] == words[end - 1]:
            end -= 1
        yield text[offsets[start][0] : offsets[end - 1][1]], end - start
        start = end
