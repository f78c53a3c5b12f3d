"""The array types of this package."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]
"""Row numbers, or a whole number for each row."""
