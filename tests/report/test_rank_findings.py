"""Sentences about ranks and orders of models."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slmsafety.report import rank_findings as told


def test_the_models_whose_rank_moves_most_are_told():
    ranges = pd.DataFrame({"suite_title": list("aaabbc"), "model_name": list("xyzxyx"), "range": [2.0, 2, 0, 0, 0, 0]})
    assert told.rank_ranges(ranges) == [
        "a: a model's rank moves by 1.3 places on average, and by 2.0 at most (x and 1 other).",
        "b: no model's rank moves.",
    ]


def test_firm_pairs_are_counted():
    orders = pd.DataFrame({"suite_title": ["a"], "pairs": [3], "strict": [2], "disjoint": [1]})
    said, limit = told.pair_orders(orders)
    assert "has: 2 of 3;" in said and said.endswith("own way: 1.") and "sampling error" in limit
    assert told.pair_orders(orders.head(0)) == []


def test_what_printed_decimals_leave_open_is_a_range():
    room = pd.DataFrame({"suite_title": ["A", "B"], "pairs": [6, 3], "fewest": [2, 0], "most": [4, 3]})
    assert told.strict_pair_range(room) == [
        "Two printed decimals leave a range of pairs that keep their order: A 2 to 4 of 6, B 0 to 3 of 3;"
        " models with the same print can stand either way."
    ]
    assert told.strict_pair_range(room.head(0)) == []


def test_what_must_be_so_is_not_told():
    sets = pd.DataFrame(
        {"suite_title": list("aab"), "lower": 0.25, "upper": 0.5, "best_rank": 1, "worst_rank": [2, 2, 1]}
    )
    assert told.rank_sets(sets) == ["a: the interval is 0.25 wide on average and leaves 2.0 of 2 ranks open."]
    moves = pd.DataFrame({"suite_title": list("aaaabbb"), "rank_change": [3.0, -3, 1, -1, 0, 0, 0]})
    assert told.far_moves(moves) == ["a: models that move 3 ranks or more when the mean is discounted: 2 of 4."]


def test_neighbours_that_differ_are_counted_where_there_is_an_interval() -> None:
    apart = pd.DataFrame(
        {"suite_title": ["a", "a", "b"], "difference_low": [0.1, -0.1, np.nan], "difference_high": [0.3, 0.2, np.nan]}
    )
    (sentence,) = told.neighbours(apart)
    assert sentence == "a: of 2 pairs of neighbours in the ranking, 1 differ beyond the draw of prompts."
    assert told.neighbours(apart.tail(1)) == []
    turned = apart.assign(difference_low=-0.5, difference_high=[-0.1, 0.2, np.nan])
    assert told.neighbours(turned)[0].endswith(
        "0 differ beyond the draw of prompts; 1 more differ the other way on the prompts that both answered."
    )


def test_certified_orders_are_told_by_reading_and_not_without_a_test() -> None:
    row = {
        "suite_title": "a",
        "pairs": 15,
        "tested": 15,
        "certified_half": 5,
        "certified_common": 3,
        "certified_own": 1,
    }
    (said,) = told.certified(
        pd.DataFrame([row | {"height": 2, "width": 4}, row | {"pairs": 0, "height": 1, "width": 1}])
    )
    assert (
        "a: of 15 pairs of models 5 have an order" in said and "3 whatever it is worth" in said and "1 however" in said
    )
    (none,) = told.certified(pd.DataFrame([row | {"tested": 0, "height": 1, "width": 6}]))
    assert none == "a: no order is certified, as no pair has 50 prompts in ten groups."


def test_turning_pairs_and_open_ranks_are_counted() -> None:
    points = pd.DataFrame(
        {"suite_title": "a", "order": ["turns", "turns", "never turns"], "distance": [0.1, 0.4, np.nan]}
    )
    (said,) = told.turning(points)
    assert "reply: 2 of 3 on these prompts" in said and said.endswith("between 1/4 and 3/4: 1.")
    sets = pd.DataFrame(
        {"suite_title": "a", "best_half": [1, 2], "worst_half": [1, 2], "best_common": 1, "worst_common": 2}
    )
    (said,) = told.certified_ranks(sets)
    assert "1.0 of 2 ranks open" in said and "2.0 where it may" in said
    assert told.certified_ranks(sets.head(1)) == []
