"""Reply-prompt similarity and self-coherence by sentence embeddings (paper section 3.3; Reimers and Gurevych 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sentence_transformers import SentenceTransformer

from slmsafety.models.finite import refuse_endless

Vector = NDArray[np.float32]


def cosine(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return the cosine of each row of `first` with the same row of `second`.

    Parameters
    ----------
    first, second : array_like of float, shape (n, dimensions)
        The vectors; n may be 0.

    Returns
    -------
    ndarray of float64, shape (n,)
        From -1 (opposite) over 0 (orthogonal) to 1 (the same direction); nan for a zero or nan vector.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if not len(a):
        return np.empty(0)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines = np.full(len(a), np.nan)
    np.divide((a * b).sum(axis=1), norms, out=cosines, where=norms > 0)
    return cosines


def self_coherence(sentence_vectors: Sequence[Vector]) -> float:
    """Return the mean cosine (-1 to 1) of adjacent sentences of a text, given their embeddings in order.

    nan with less than two sentences. A pair with a sentence that the encoder cannot read (a nan vector) is left out;
    nan where every pair is. Foltz, Kintsch and Landauer 1998, with sentence embeddings for their vectors.
    """
    pairs = cosine(sentence_vectors[:-1], sentence_vectors[1:])
    known = pairs[~np.isnan(pairs)]
    return float(known.mean()) if known.size else float("nan")


def embed(texts: list[str], encoder: SentenceTransformer) -> list[Vector]:
    """Return the embedding of each text, whole: no text is cut.

    Parameters
    ----------
    texts : list of str
        Texts of any length.
    encoder : SentenceTransformer
        The sentence encoder.

    Returns
    -------
    list of ndarray of float32, shape (dimensions,)
        In the order of `texts`. A text that is longer than the encoder's maximum (256 word pieces for MiniLM) is
        embedded in windows of whole words and gets their mean, weighted by their word pieces. nan where the encoder
        has no word piece of the text (an empty text, or another script).

    Raises
    ------
    InputError
        For embeddings that are nan or infinite.
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
        dtype = str(encoder.dtype).removeprefix("torch.")
        name = getattr(getattr(encoder[0], "auto_model", None), "name_or_path", "the sentence encoder")
        refuse_endless(torch.as_tensor(made), f"{name}: the embeddings of texts", dtype)
        vectors = dict(zip(unique, made, strict=True))
        for row, window, weight in parts:
            sums[row] += weight * vectors[window]
            weights[row] += weight
    means = np.divide(sums, weights, out=np.full_like(sums, np.nan), where=weights > 0)
    return [mean.copy() for mean in means]  # one that is kept must not keep the others


def _windows(
    text: str, offsets: list[tuple[int, int]], words: list[int | None], limit: int
) -> Iterator[tuple[str, int]]:
    """Yield windows of at most `limit` word pieces, without splitting a word, and how many pieces each has."""
    start = 0
    while start < len(offsets):
        end = min(start + limit, len(offsets))
        while end < len(offsets) and end > start + 1 and words[end] == words[end - 1]:
            end -= 1
        yield text[offsets[start][0] : offsets[end - 1][1]], end - start
        start = end
