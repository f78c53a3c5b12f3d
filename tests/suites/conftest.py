from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def public_data() -> Path:
    """The folder of public benchmark files."""
    folder = os.environ.get("SLMSAFETY_DATA")
    if not folder:
        pytest.skip("SLMSAFETY_DATA names no folder of public data")
    return Path(folder)
