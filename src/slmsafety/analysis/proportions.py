"""The interval of a share of independent rows."""

from __future__ import annotations

import numpy as np
from statsmodels.stats.proportion import proportion_confint


def wilson_interval(count: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's limits (0..1) of the share count / n; nan when n is 0.

    The rows count as independent draws; `count` may be a sum of shares, which vary less than the draws themselves.

    References
    ----------
    Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference. JASA 22, 209-212.
    """
    if not n:
        return np.nan, np.nan
    low, high = proportion_confint(count, n, alpha=1 - confidence, method="wilson")
    # Without float noise the limits at none and at all are exactly 0 and 1.
    return 0.0 if count == 0 else float(low), 1.0 if count == n else float(high)
