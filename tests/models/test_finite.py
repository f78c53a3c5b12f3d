from __future__ import annotations

import pytest
import torch

from slmsafety.errors import InputError
from slmsafety.models.finite import refuse_endless


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_mean_nothing_are_refused(value: float) -> None:
    with pytest.raises(InputError, match="the logits are nan or infinite in float16, and mean nothing"):
        refuse_endless(torch.tensor([1.0, value]), "the logits", "float16")


def test_numbers_pass() -> None:
    refuse_endless(torch.tensor([[-1e30, 0.0], [1.0, 2.0]]), "the logits", "float32")
