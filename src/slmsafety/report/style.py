"""One look for every figure: the LNCS page, and one colour-blind-safe palette for harmful, ambiguous and safe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib.style

TEXT_WIDTH = 122 / 25.4
TEXT_HEIGHT = 7.5
"""The LNCS text width, and the greatest height that leaves room for a caption, in inches."""

# Vermillion and bluish green are Okabe and Ito's. In grey both are mid-tones, so vermillion carries a hatch, and the
# light grey between them stays lighter than either.
PALETTE = {"harmful": "#D55E00", "ambiguous": "#D9D9D9", "safe": "#009E73"}
HATCHES = {"harmful": "//////", "ambiguous": "", "safe": ""}

# The rest of Okabe and Ito's colours, for series that are not labels.
SERIES = ("#0072B2", "#E69F00", "#CC79A7", "#56B4E9", "#000000", "#8C6D1F", "#7A5195", "#5B8E00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
INK, MUTED, FAINT, RULE = "#222222", "#6B6B6B", "#C4C4C4", "#E6E6E6"
SMALL = 6.0
"""The smallest type, in points: numbers printed inside a panel."""


def figsize(fraction: float = 1.0, aspect: float = 0.618) -> tuple[float, float]:
    """Return (width, height) in inches: a fraction of the LNCS text width, and height over width."""
    width = TEXT_WIDTH * fraction
    return width, width * aspect


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the project's style whatever the user's own matplotlibrc says; it works as a decorator too."""
    with matplotlib.style.context(["default", Path(__file__).with_name("lncs.mplstyle")]):
        yield
