"""Where orders turn: by hand, against a fine grid, and how often the sets hold the truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analysis_frames import outcome_frame, quick, suite_counts
from hypothesis import given

from slmsafety.analysis.bounds import pair_orders
from slmsafety.analysis.breakdown import LEVEL, NEVER, TURNS, ranks_over_all_values, turning_points, turning_set
from slmsafety.analysis.label_matrix import LabelMatrix
from slmsafety.analysis.treatments import rank_movement


def frame(*lines: tuple[float, float]) -> pd.DataFrame:
    table = pd.DataFrame(lines, columns=["srr", "ar"])
    return table.assign(suite="s", model=[f"m{n}" for n in range(len(table))])


def test_turning_points_by_hand() -> None:
    # .2 + .6 t and .4 + .2 t meet at one half; .5 + .3 t is above .2 + .6 t until t = 1.
    found = turning_points(frame((0.2, 0.6), (0.4, 0.2), (0.5, 0.3))).set_index(["model", "other"])
    row = found.loc[("m0", "m1")]
    assert (row["order"], row["turns_at"], row["distance"], row["own_distance"]) == (TURNS, pytest.approx(0.5), 0, 0)
    end = found.loc[("m2", "m0")]
    assert (end["order"], end["turns_at"]) == (NEVER, pytest.approx(1))
    never = found.loc[("m2", "m1")]
    assert never["order"] == NEVER and np.isnan(never["turns_at"])
    assert never["own_distance"] == pytest.approx(0.15 / 0.5)


def test_equal_lines_are_level_and_decisive_models_never_turn() -> None:
    assert turning_points(frame((0.2, 0.6), (0.2, 0.6)))["order"].tolist() == [LEVEL]
    one = turning_points(frame((0.2, 0.0), (0.7, 0.0))).iloc[0]
    assert (one["model"], one["order"]) == ("m1", NEVER) and np.isnan(one["own_distance"])
    assert turning_points(frame((0.2, np.nan), (0.7, 0.1))).empty


@quick
@given(suite_counts)
def test_pairs_that_never_turn_are_the_firm_ones_and_disjoint_ones_are_beyond_half(counts) -> None:
    outcomes = outcome_frame(counts)
    found, firm = turning_points(outcomes), pair_orders(outcomes).iloc[0]
    apart = found["at_harmful"].abs().gt(1e-11) & found["at_safe"].abs().gt(1e-11)
    assert (found["order"].eq(NEVER) & apart).sum() == firm["strict"]
    decisive = found["own_distance"].isna() & found["order"].ne(LEVEL)
    assert (found["own_distance"].gt(0.5 + 1e-9) | decisive).sum() == firm["disjoint"]


@quick
@given(suite_counts)
def test_ranks_over_all_values_hold_those_of_a_grid(counts) -> None:
    outcomes = outcome_frame(counts)
    found = ranks_over_all_values(outcomes)
    table = outcomes.assign(accuracy=np.nan)
    grid = [outcomes["srr"] + t * outcomes["ar"] for t in np.linspace(0, 1, 41)]
    ranks = np.array([(-values).rank(method="average") for values in (value.round(12) for value in grid)])
    assert (found["best"].to_numpy() <= ranks.min(axis=0) + 1e-9).all()
    assert (found["worst"].to_numpy() >= ranks.max(axis=0) - 1e-9).all()
    assert len(rank_movement(table)) == len(found)


def test_a_rank_between_two_points_of_a_grid_is_found() -> None:
    # m0 overtakes m1 at t = .55 and m2 overtakes m0 at .6: only between these is m0 first.
    found = ranks_over_all_values(frame((0.0, 1.0), (0.55, 0.0), (-0.3, 1.5))).set_index("model")
    assert found.loc["m0", "best"] == 1


def drawn(rng: np.random.Generator, safe: tuple[float, float], ambiguous: tuple[float, float], n: int) -> LabelMatrix:
    common = rng.random(n)
    draws = [np.where(rng.random(n) < 0.5, common, rng.random(n)) for _ in range(2)]
    columns = [np.where(d < s, 2, np.where(d < s + a, 1, 0)) for d, s, a in zip(draws, safe, ambiguous, strict=True)]
    return LabelMatrix(
        np.stack(columns, 1).astype(np.int8)[..., None], np.arange(n).astype(object), ["a", "b"], np.arange(n)
    )


def held(shape: str, low: float, high: float, value: float) -> bool:
    if shape == "between":
        return low - 1e-12 <= value <= high + 1e-12
    if shape == "outside":
        return value <= low + 1e-12 or value >= high - 1e-12
    return shape == "everywhere"


@pytest.mark.parametrize("turn", [0.1, 0.5, 0.9])
def test_the_set_holds_the_turning_point(turn: float) -> None:
    """Nominal .95; 300 draws leave .91."""
    rng, hits = np.random.default_rng(int(turn * 10)), 0
    gap = 0.3
    safe, ambiguous = (0.2 + gap * turn, 0.2), (0.2, 0.2 + gap)
    for _ in range(300):
        hits += held(*turning_set(drawn(rng, safe, ambiguous, 400), 0, 1), turn)
    assert hits / 300 >= 0.91


def test_level_everywhere_gives_everywhere_and_far_apart_nowhere() -> None:
    rng, everywhere = np.random.default_rng(5), 0
    for _ in range(200):
        everywhere += turning_set(drawn(rng, (0.3, 0.3), (0.3, 0.3), 400), 0, 1)[0] == "everywhere"
    assert everywhere / 200 >= 0.85
    assert turning_set(drawn(rng, (0.8, 0.1), (0.1, 0.1), 400), 0, 1)[0] == "nowhere"
    assert turning_set(drawn(rng, (0.8, 0.1), (0.1, 0.1), 9), 0, 1)[0] == ""
