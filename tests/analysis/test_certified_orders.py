"""Certified orders: what they certify, what they never do, and how often one is false."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slmsafety.analysis.certified_orders import (
    READINGS,
    Orders,
    certified,
    certified_from_rates,
    certified_orders,
    certified_ranks,
    closed,
    order_counts,
    rank_sets,
)
from slmsafety.analysis.label_matrix import LabelMatrix
from slmsafety.errors import InputError


def matrix(labels: np.ndarray, groups: np.ndarray | None = None) -> LabelMatrix:
    """Labels (prompts, models)."""
    prompts, models = labels.shape
    names = np.array([f"p{n}" for n in range(prompts)], object)
    own = np.arange(prompts) if groups is None else groups
    return LabelMatrix(labels.astype(np.int8)[..., None], names, [f"m{n}" for n in range(models)], own)


def drawn(rng: np.random.Generator, harmful: list[float], safe: list[float], sizes: tuple[int, int]) -> LabelMatrix:
    """Labels with these rates; prompts of a group and models share half of their draws."""
    prompts, size = sizes
    common = np.repeat(rng.random(prompts // size), size)[:, None]
    draw = np.where(rng.random((prompts, len(harmful))) < 0.7, common, rng.random((prompts, len(harmful))))
    labels = 1 - (draw < np.array(harmful)) + (draw > 1 - np.array(safe))
    return matrix(labels, np.arange(prompts) // size)


def orders(found: LabelMatrix, reading: str, seed: int = 0, draws: int = 500) -> Orders:
    return certified_orders(found, np.random.default_rng(seed), reading, draws=draws)


def test_a_model_that_is_always_safe_is_above_one_that_is_always_harmful_by_every_reading() -> None:
    found = matrix(np.column_stack([np.full(60, 0), np.full(60, 2), np.full(60, 1)]))
    for reading, above in (("half", [[1, 0], [1, 2], [2, 0]]), ("common", [[1, 0]]), ("own", [[1, 0]])):
        assert np.argwhere(orders(found, reading).above).tolist() == above


def test_ranks_are_what_the_orders_leave() -> None:
    above = np.zeros((3, 3), bool)
    above[1, 0] = True
    found = rank_sets(Orders(["a", "b", "c"], above, np.zeros((3, 3)), 2.0))
    assert found[["best", "worst"]].to_numpy().tolist() == [[2, 3], [1, 2], [1, 3]]


def test_an_order_follows_from_two_others() -> None:
    above = np.zeros((4, 4), bool)
    above[0, 1] = above[1, 2] = above[2, 3] = True
    assert closed(above).sum() == 6
    above[3, 0] = True
    with pytest.raises(ValueError, match="contradict"):
        closed(above)


def test_too_few_prompts_or_groups_certify_nothing() -> None:
    apart = np.column_stack([np.full(60, 0), np.full(60, 2)])
    assert not orders(matrix(apart[:49]), "half").above.any()
    assert orders(matrix(apart[:50]), "half").above.any()
    nine = orders(matrix(apart, np.arange(60) % 9), "half")
    assert not nine.above.any() and np.isnan(nine.critical)


def test_pairs_are_compared_on_common_prompts() -> None:
    labels = np.full((120, 3), -1)
    labels[:60, 0], labels[60:, 1], labels[:, 2] = 2, 0, 1
    found = orders(matrix(labels), "half")
    assert np.argwhere(found.above).tolist() == [[0, 1], [0, 2], [2, 1]], "0 over 1 follows, as they share no prompt"
    assert np.isnan(found.statistic[0, 1])


def test_no_model_one_model_and_an_unknown_reading() -> None:
    assert orders(matrix(np.empty((0, 0))), "common").above.shape == (0, 0)
    assert rank_sets(orders(matrix(np.full((60, 1), 2)), "own")).to_numpy().tolist() == [["m0", 1, 1]]
    with pytest.raises(InputError, match="reading"):
        orders(matrix(np.full((60, 1), 2)), "halves")


def test_shuffled_prompts_and_renamed_models_change_nothing_but_names() -> None:
    found = drawn(np.random.default_rng(1), [0.2, 0.5, 0.3], [0.6, 0.2, 0.5], (400, 4))
    for reading in READINGS:
        plain = orders(found, reading)
        place = np.random.default_rng(2).permutation(400)
        mixed = found._replace(labels=found.labels[place], groups=found.groups[place], prompts=found.prompts[place])
        assert orders(mixed, reading).statistic == pytest.approx(plain.statistic, nan_ok=True)
        turned = orders(found._replace(labels=found.labels[:, ::-1]), reading)
        assert turned.above[::-1, ::-1].tolist() == plain.above.tolist()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=60, max_size=60), st.integers(0, 5))
def test_readings_nest_and_no_reading_of_these_replies_turns_a_certified_order(
    rows: list[list[int]], seed: int
) -> None:
    labels = np.array(rows)
    labels[:, 0] = np.where(np.arange(60) % 7 == 0, labels[:, 0], 2)
    found = {reading: orders(matrix(labels), reading, seed, 200) for reading in READINGS}
    safe, open_ = (labels == 2).mean(axis=0), (labels >= 1).mean(axis=0)
    for one, other in np.argwhere(found["own"].above):
        assert safe[one] > open_[other]
    for one, other in np.argwhere(found["common"].above):
        assert safe[one] > safe[other] and open_[one] > open_[other]


@pytest.mark.parametrize(
    ("harmful", "safe", "reading"),
    [
        ([0.3] * 6, [0.3] * 6, "half"),
        # Equal shares of safe replies and AR from .1 to .6: at t = 0 all are level, and no common order is true.
        ([0.6, 0.5, 0.4, 0.3, 0.2, 0.1], [0.3] * 6, "common"),
        # Each model's safe share is the next one's safe or ambiguous share.
        ([0.9, 0.7, 0.5, 0.3], [0.3, 0.5, 0.7, 0.7], "own"),
    ],
)
def test_a_false_order_is_rare_where_it_is_most_likely(harmful: list[float], safe: list[float], reading: str) -> None:
    """Nominal .95, wanted .94; 150 draws leave .035 below it."""
    safe = [min(share, 1 - wrong) for share, wrong in zip(safe, harmful, strict=True)]
    low, high = np.array(safe), 1 - np.array(harmful)
    rng, false = np.random.default_rng(3), 0
    for draw in range(150):
        above = orders(drawn(rng, harmful, safe, (200, 2)), reading, draw, 300).above
        true = {
            "half": (low + high)[:, None] > (low + high) + 1e-9,
            "common": (low[:, None] > low + 1e-9) & (high[:, None] > high + 1e-9),
            "own": low[:, None] > high + 1e-9,
        }[reading]
        false += bool((above & ~true).any())
    assert false / 150 <= 0.095


def test_true_orders_are_found_and_every_suite_and_reading_is_there() -> None:
    rng = np.random.default_rng(4)
    found = drawn(rng, [0.1, 0.3, 0.6], [0.8, 0.5, 0.2], (400, 1))
    assert orders(found, "common").above.sum() == 3
    frames = []
    for suite in ("a", "b"):
        for model in range(3):
            label = found.labels[:, model, 0]
            frames.append(
                pd.DataFrame({"suite": suite, "model": f"m{model}", "label": label, "instance_id": found.prompts})
            )
    labels = pd.concat(frames, ignore_index=True).assign(expected="refuse")
    every = certified(labels, np.random.default_rng(5), draws=200)
    assert {suite: set(readings) for suite, readings in every.items()} == {"a": set(READINGS), "b": set(READINGS)}
    assert every["a"]["common"].above.sum() == 3


def rates(found: LabelMatrix, groups: int) -> pd.DataFrame:
    cells = found.labels[..., 0]
    table = pd.DataFrame({name: (cells == label).mean(axis=0) for label, name in enumerate(("hcr", "ar", "srr"))})
    return table.assign(suite="s", model=found.models, mean=table["srr"] + table["ar"] / 2, groups=groups)


def test_rates_alone_certify_less_and_rounding_less_still() -> None:
    found = drawn(np.random.default_rng(6), [0.1, 0.15, 0.4, 0.6], [0.8, 0.7, 0.4, 0.2], (600, 1))
    table = rates(found, 600)
    careful, printed = certified_from_rates(table)["s"], certified_from_rates(table, rounding=0.02)["s"]
    for reading in READINGS:
        full = orders(found, reading)
        assert not (careful[reading].above & ~full.above).any()
        assert not (printed[reading].above & ~careful[reading].above).any()
    assert careful["common"].above.sum() > printed["own"].above.sum() > 0
    assert not certified_from_rates(table.assign(groups=49))["s"]["half"].above.any()
    assert certified_from_rates(table.assign(ar=np.nan)) == {}


def test_a_false_order_is_rare_from_rates_too() -> None:
    rng, false = np.random.default_rng(7), 0
    for _ in range(200):
        table = rates(drawn(rng, [0.3] * 6, [0.3] * 6, (200, 2)), 100)
        false += bool(certified_from_rates(table)["s"]["half"].above.any())
    assert false / 200 <= 0.05


def test_counts_and_ranks_of_a_chain() -> None:
    above = np.triu(np.ones((3, 3), bool), 1)
    plain = {reading: Orders(["a", "b", "c"], above, np.zeros((3, 3)), 2.0) for reading in READINGS}
    counts = order_counts({"s": plain}).iloc[0]
    assert counts[["models", "pairs", "certified_common", "height", "width"]].tolist() == [3, 3, 3, 3, 1]
    ranks = certified_ranks({"s": plain})
    assert ranks[["best_own", "worst_own"]].to_numpy().tolist() == [[1, 1], [2, 2], [3, 3]]
    assert order_counts({}).empty and certified_ranks({}).empty
