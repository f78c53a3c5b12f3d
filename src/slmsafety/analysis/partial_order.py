"""The shape of a partial order of models: its edges, its height and its width.

References
----------
Dilworth, R. P. (1950). A decomposition theorem for partially ordered sets. Annals of Mathematics 51, 161-166.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from slmsafety.analysis.arrays import Flags


def edges(above: Flags) -> Flags:
    """Return the pairs with no model between them (the transitive reduction: a Hasse diagram's lines).

    `above` (K, K) says whether the row's model is above the column's; it is transitive and holds no cycle.
    """
    between = (above.astype(np.int64) @ above.astype(np.int64)) > 0
    return np.asarray(above & ~between)


def height(above: Flags) -> int:
    """Return the number of models in the longest chain, each above the next; 0 without models."""
    longest = np.ones(len(above), int)
    for place in np.argsort(above.sum(axis=1)):  # a model's lower ones have fewer below them
        below = np.flatnonzero(above[place])
        longest[place] = 1 + longest[below].max(initial=0)
    return int(longest.max(initial=0))


def width(above: Flags) -> int:
    """Return the size of the largest set of models of which none is above another (Dilworth); 0 without models.

    That many chains, and no fewer, hold all models: as many as models without a partner in the largest matching of
    each model with one below it.
    """
    if not len(above):
        return 0
    partners = maximum_bipartite_matching(csr_matrix(above), perm_type="column")
    return int(len(above) - (partners >= 0).sum())
