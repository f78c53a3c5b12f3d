"""Whether a batch fits into memory, found by trying."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")
# What torch says on GPUs, on CPUs and from cuBLAS; only the first has an error class of its own.
_FULL = ("out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")


def within_memory(work: Callable[[], T]) -> T | None:
    """Return what the work gives, or None where memory did not suffice for it; every other error is raised.

    Memory that Linux grants and then cannot back ends the process instead: no error to catch.
    """
    try:
        return work()
    except RuntimeError as error:
        if not any(text in str(error) for text in _FULL):
            raise
    # Only out here has the error let go of the tensors in its traceback.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None
