"""Reply-prompt similarity: cosine of sentence embeddings (paper section 3.3; Reimers and Gurevych 2019)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def cosine(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Return the cosine (-1..1) of each row of `first` with the same row of `second`; nan for a zero vector."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.divide((a * b).sum(axis=1), norms, out=np.full(len(a), np.nan), where=norms > 0)
