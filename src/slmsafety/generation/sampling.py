"""Drawn tokens: which one a row takes follows from its own random numbers and its logits, and from no other row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import LogitsProcessor

from slmsafety.generation.settings import GenerationSettings
from slmsafety.generation.streams import stream, uniforms

# The most numbers of rows x vocabulary that are worked on at once: on a CPU so few that they stay in its cache.
_ON_CPU, _ON_GPU = 2**18, 2**24
# A first look at so many of the likeliest tokens; where top_p needs more of them, at eight times as many.
_LIKELIEST, _MORE = 512, 8


class Sampling(NamedTuple):
    """How tokens are drawn: the temperature (above 0), top_p (above 0, up to 1), and each prompt's stream by index."""

    temperature: float
    top_p: float
    streams: Sequence[bytes]


def sampling_of(settings: GenerationSettings, keys: Sequence[tuple[str, str, int]]) -> Sampling | None:
    """Return how the replies (suite, instance_id, sample) are drawn; None where the settings are greedy."""
    if settings.temperature == 0:
        return None
    streams = [stream(settings.seed, *key) for key in keys]
    return Sampling(settings.temperature, settings.top_p, streams)


def draw(logits: torch.Tensor, numbers: torch.Tensor, temperature: float, top_p: float) -> torch.Tensor:
    """Return the token that each row's number stands for, where tokens share 0 to 1 by their probability.

    Parameters
    ----------
    logits : Tensor
        Rows x vocabulary, of any float dtype; finite, or minus infinity for tokens that cannot be.
    numbers : Tensor
        One number a row, float64, 0 to below 1.
    temperature : float
        What divides the logits, above 0.
    top_p : float
        Only the likeliest tokens count that have this probability together, at least one; 1 is all. Of tokens that are
        equally likely those with the lower ids come first.

    Returns
    -------
    Tensor
        The ids, one a row, int64.
    """
    rows = max(1, (_ON_CPU if logits.device.type == "cpu" else _ON_GPU) // logits.shape[1])
    parts = zip(torch.split(logits, rows), torch.split(numbers, rows), strict=True)
    return torch.cat([_drawn(part, number, temperature, top_p) for part, number in parts])


def _drawn(logits: torch.Tensor, numbers: torch.Tensor, temperature: float, top_p: float) -> torch.Tensor:
    """Return the tokens of some rows.

    Tokens lie in the order of the vocabulary: in the order of their probability two that are nearly as likely would
    change places with the last digit of a logit, which another batch can change.
    """
    known = logits.float()
    weights = (known - known.amax(dim=1, keepdim=True)).div_(temperature).exp_()
    if top_p < 1:
        _keep(weights, top_p)
    sums = weights.cumsum(dim=1, dtype=torch.float64)
    return torch.searchsorted(sums, numbers[:, None] * sums[:, -1:], right=True)[:, 0]


def _keep(weights: torch.Tensor, top_p: float) -> None:
    """Set the weights to 0 but those of the fewest of the likeliest tokens that have the share `top_p` together."""
    wanted = top_p * weights.sum(dim=1, keepdim=True, dtype=torch.float64)
    top, sums = _likeliest(weights, wanted)
    place = (sums < wanted).sum(dim=1, keepdim=True).clamp(max=top.shape[1] - 1)  # of the last one that stays
    last = top.gather(1, place)
    more = place - (top > last).sum(dim=1, keepdim=True)  # how many stay beside one of those that tie with the last
    ties = weights == last
    weights.masked_fill_(weights < last, 0)
    for row in (ties.sum(dim=1, keepdim=True) > more + 1).nonzero()[:, 0].tolist():
        weights[row, ties[row].nonzero()[:, 0][int(more[row]) + 1 :]] = 0


def _likeliest(weights: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row's largest weights and their sums from the first on; as many as reach `wanted` in every row."""
    some, every = _LIKELIEST, weights.shape[1]
    while True:
        some = min(some, every)
        if weights.device.type == "cpu":  # numpy's selection is several times as fast as torch's
            rows = weights.numpy()
            highest = np.partition(rows, every - some, axis=1)[:, every - some :] if some < every else rows
            top = torch.from_numpy(np.sort(highest, axis=1)[:, ::-1].copy())
        else:
            top = weights.topk(some).values
        sums = top.cumsum(dim=1, dtype=torch.float64)
        if some == every or bool((sums[:, -1:] >= wanted).all()):
            return top, sums
        some *= _MORE


class Drawn(LogitsProcessor):
    """Makes the drawn token of each row the likeliest one, so that whoever decodes greedily takes it.

    `indices` are the rows' places in `sampling.streams`, `ages` their numbers of new tokens, `width` the columns that
    are there before the first token is drawn, and `steps` the most tokens to be drawn.
    """

    def __init__(self, sampling: Sampling, rows: Sequence[tuple[int, int]], width: int, steps: int) -> None:
        self._sampling, self._width = sampling, width
        streams = [uniforms(sampling.streams[index], age, age + steps) for index, age in rows]
        self._numbers = torch.from_numpy(np.stack(streams))

    def __call__(self, input_ids: torch.Tensor, scores: Any) -> Any:
        """Return the logits with the drawn tokens' at infinity."""
        numbers = self._numbers[:, input_ids.shape[1] - self._width].to(scores.device)
        ids = draw(scores, numbers, self._sampling.temperature, self._sampling.top_p)
        return scores.scatter(1, ids[:, None], torch.inf)
