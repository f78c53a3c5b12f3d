"""Numbers of a model that mean nothing: nan and infinite ones, as after an overflow in float16."""

from __future__ import annotations

import torch

from slmsafety.errors import InputError


def refuse_endless(numbers: torch.Tensor, what: str, dtype: str) -> None:
    """Refuse numbers of a model that are nan or infinite.

    Parameters
    ----------
    numbers : Tensor
        Of logits those that are chosen (the largest of each row): a model may ban a token by minus infinity.
    what : str
        What they are, for the message.
    dtype : str
        The number format of the model.

    Raises
    ------
    InputError
        Where one of them is nan or infinite.
    """
    if not torch.isfinite(numbers).all():
        raise InputError(
            f"{what} are nan or infinite in {dtype}, and mean nothing; use another dtype (float32) or other weights"
        )
