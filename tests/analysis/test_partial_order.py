"""The shape of a partial order, against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.analysis.certified_orders import closed
from slmsafety.analysis.partial_order import edges, height, width


def order(pairs: list[tuple[int, int]], size: int) -> np.ndarray:
    above = np.zeros((size, size), bool)
    for one, other in pairs:
        if one != other:
            above[min(one, other), max(one, other)] = True
    return closed(above)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12), st.integers(1, 6))
def test_height_width_and_edges_are_those_of_brute_force(pairs: list[tuple[int, int]], size: int) -> None:
    above = order([(a, b) for a, b in pairs if max(a, b) < size], size)
    subsets = [list(part) for n in range(size + 1) for part in combinations(range(size), n)]
    alone = [part for part in subsets if not above[np.ix_(part, part)].any()]
    chains = [part for part in subsets if all(above[a, b] for a, b in combinations(part, 2))]
    assert width(above) == max(map(len, alone))
    assert height(above) == max(map(len, chains))
    assert (closed(edges(above)) == above).all()
    for one, other in np.argwhere(edges(above)):
        assert not any(above[one, middle] and above[middle, other] for middle in range(size))


def test_no_model_and_a_chain() -> None:
    assert (height(np.empty((0, 0), bool)), width(np.empty((0, 0), bool))) == (0, 0)
    chain = order([(0, 1), (1, 2), (2, 3)], 4)
    assert (height(chain), width(chain), int(edges(chain).sum())) == (4, 1, 3)
