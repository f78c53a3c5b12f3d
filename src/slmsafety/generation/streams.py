"""Random numbers that follow from what they are for.

Each reply has a stream that its name gives (the seed, the prompt and the sample), one number for each of its tokens. So
a reply is the same in every batch and order, after a stop, and whatever other replies are made.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np


def stream(seed: int, suite: str, instance_id: str, sample: int) -> bytes:
    """Return the name of the stream of random numbers of one reply."""
    return json.dumps([seed, suite, instance_id, sample]).encode()


def request_seed(name: bytes) -> int:
    """Return a seed for a server's own random numbers, 0 to 2**31 - 1, of a stream's name."""
    return int.from_bytes(hashlib.sha256(name).digest()[:4], "big") >> 1


def uniforms(name: bytes, start: int, stop: int) -> np.ndarray:
    """Return the numbers of a stream for a reply's tokens from `start` to before `stop`: float64, 0 to below 1.

    The first 52 of each 64 bits of SHAKE-256 of the name, so that no library's version changes them.
    """
    drawn = np.frombuffer(hashlib.shake_256(name).digest(8 * stop), dtype=">u8")[start:]
    return (drawn >> np.uint64(12)).astype(np.float64) / 2.0**52
