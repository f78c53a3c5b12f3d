from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from analysis_frames import quick
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.analysis.judges.crossed_rubrics import EFFECTS, crossed_rubrics, effects
from slmsafety.errors import InputError

H, S = ("harmbench", "strict"), ("sst", "mild")


def rows(suite: str, rubric: str, labels: list[int | None], model: str = "m") -> pd.DataFrame:
    frame = pd.DataFrame({"label": pd.array(labels, dtype="Int64")})
    return frame.assign(suite=suite, rubric=rubric, model=model, instance_id=[f"p{k}" for k in range(len(labels))])


def four(hh: list[int | None], hs: list[int | None], sh: list[int | None], ss: list[int | None]) -> pd.DataFrame:
    cells = ((H[0], H[1], hh), (H[0], S[1], hs), (S[0], H[1], sh), (S[0], S[1], ss))
    return pd.concat([rows(*cell) for cell in cells], ignore_index=True)


def test_a_difference_that_is_all_rubric():
    """The strict rubric finds three of four ambiguous on both suites, the mild one none: prompts play no part."""
    many, none = [1, 1, 1, 0], [0, 0, 2, 0]
    found = crossed_rubrics(four(many, none, many, none), H, S, resamples=200)
    assert found.cells[["suite", "rubric", "prompts", "groups", "n", "ar"]].to_numpy().tolist() == [
        ["harmbench", "strict", 4, 4, 4, 0.75],
        ["harmbench", "mild", 4, 4, 4, 0.0],
        ["sst", "strict", 4, 4, 4, 0.75],
        ["sst", "mild", 4, 4, 4, 0.0],
    ]
    assert found.effects["effect"].tolist() == list(EFFECTS)
    assert found.effects["value"].tolist() == [0.75, 0.0, 0.75, 0.0, 1.0]


def test_a_difference_that_is_all_prompts_and_one_that_is_half_half():
    hard, easy = [1, 1, 1, 0], [1, 0, 0, 0]
    prompts = crossed_rubrics(four(hard, hard, easy, easy), H, S, resamples=50).effects.set_index("effect")["value"]
    assert prompts.tolist() == [0.5, 0.5, 0.0, 0.0, 0.0]
    # AR .75 .5 / .5 .25: each of prompts and rubric moves a quarter.
    mixed = crossed_rubrics(four(hard, [1, 1, 0, 0], [1, 1, 0, 0], easy), H, S, resamples=50)
    assert mixed.effects["value"].tolist() == [0.5, 0.25, 0.25, 0.0, 0.5]


@quick
@given(st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_the_parts_sum_to_the_difference(rates):
    found = effects(np.reshape(rates, (2, 2)))
    assert found["prompts"] + found["rubric"] == pytest.approx(rates[0] - rates[3], abs=1e-12)
    assert found["difference"] == pytest.approx(rates[0] - rates[3], abs=1e-12)
    assert found["interaction"] == pytest.approx(rates[0] - rates[1] - rates[2] + rates[3], abs=1e-12)


def test_no_difference_has_no_share():
    same = [1, 0, 2, 0]
    found = crossed_rubrics(four(same, same, same, same), H, S, resamples=20).effects.set_index("effect")
    assert found.loc["difference", "value"] == 0
    assert np.isnan(found.loc["rubric_share", "value"])


def test_a_reply_without_a_label_under_one_rubric_counts_under_neither():
    found = crossed_rubrics(four([1, 1, None, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]), H, S, resamples=20).cells
    assert found.loc[0, ["prompts", "n", "ar"]].tolist() == [3, 3, 2 / 3]
    assert found.loc[1, ["prompts", "n", "ar"]].tolist() == [3, 3, 1 / 3]


def test_limits_draw_whole_prompts_with_all_their_models():
    rng = np.random.default_rng(5)
    cells = [[int(value) for value in rng.integers(0, 2, 60)] for _ in range(4)]
    one = four(*cells)
    found = crossed_rubrics(one, H, S)
    # A share of n independent prompts: +- 1.96 sqrt(p (1 - p) / n).
    ar = found.cells.loc[0, "ar"]
    half = 1.96 * np.sqrt(ar * (1 - ar) / 60)
    assert found.cells.loc[0, ["ar_low", "ar_high"]].tolist() == pytest.approx([ar - half, ar + half], abs=0.03)
    copies = pd.concat([one.assign(model=f"m{k}") for k in range(9)], ignore_index=True)
    again = crossed_rubrics(copies, H, S)
    assert again.cells.loc[0, "n"] == 540 and again.cells.loc[0, "prompts"] == 60
    pd.testing.assert_frame_equal(again.effects, found.effects)


def test_groups_of_prompts_are_drawn_and_below_ten_there_are_no_limits():
    rng = np.random.default_rng(5)
    one = four(*[[int(value) for value in rng.integers(0, 2, 60)] for _ in range(4)])
    place = one["instance_id"].str[1:].astype(int)
    few, some = (one.assign(group=[f"g{k % count}" for k in place]) for count in (9, 10))
    found = crossed_rubrics(few, H, S, resamples=50)
    assert found.cells[["prompts", "groups"]].to_numpy().tolist() == [[60, 9]] * 4
    assert found.cells[["ar_low", "ar_high"]].isna().all(axis=None) and found.effects[
        ["value_low", "value_high"]
    ].isna().all(axis=None)
    assert crossed_rubrics(some, H, S, resamples=50).effects.notna().all(axis=None)
    # Of one suite only, its cells alone have none; effects are of both.
    half = crossed_rubrics(few.assign(group=few["group"].where(few["suite"] == "sst")), H, S, resamples=50)
    assert half.cells["ar_low"].isna().tolist() == [False, False, True, True] and half.effects["value_low"].isna().all()


def test_prompts_of_a_group_that_are_alike_tell_no_more_than_one():
    rng = np.random.default_rng(5)
    cells = [[int(value) for value in rng.integers(0, 2, 60)] for _ in range(4)]
    single = crossed_rubrics(four(*cells), H, S)
    thrice = four(*([label for label in cell for _ in range(3)] for cell in cells))
    grouped = thrice.assign(group=[f"g{int(name[1:]) // 3}" for name in thrice["instance_id"]])
    found, expected = (each.effects.iloc[:4, 1:].to_numpy(float) for each in (crossed_rubrics(grouped, H, S), single))
    assert found == pytest.approx(expected, abs=0.02), "the draws are in another order"
    assert found[:, 0] == pytest.approx(expected[:, 0])
    apart = crossed_rubrics(thrice, H, S).effects
    assert (apart["value_high"] - apart["value_low"])[0] < 0.7 * (
        single.effects["value_high"] - single.effects["value_low"]
    )[0]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda r: r[r["rubric"] != "mild"], "suite 'harmbench' has no label under rubric 'mild'"),
        (lambda r: pd.concat([r, r.head(1)]), "is judged twice"),
        (
            lambda r: r.assign(label=r["label"].where((r["instance_id"] == "p0") == (r["rubric"] == "mild"))),
            "no reply of suite 'harmbench' has a label under both",
        ),
    ],
)
def test_wrong_rows_are_named(change, problem):
    with pytest.raises(InputError, match=problem):
        crossed_rubrics(change(four([1, 0], [1, 0], [1, 0], [1, 0])), H, S)
