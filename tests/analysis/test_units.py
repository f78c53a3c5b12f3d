import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.analysis.units import FEWEST_KINDS, groups, kinds


def frame(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_rows_of_one_group_have_one_number_and_a_prompt_without_group_its_own():
    rows = frame(suite=["a"] * 5, instance_id=["1", "2", "3", "4", "4"], group=["x", "x", None, None, None])
    assert groups(rows).tolist() == [0, 0, 1, 2, 2]


def test_a_prompt_without_group_is_not_in_the_group_that_has_its_id_as_a_name():
    rows = frame(suite=["a"] * 3, instance_id=["1", "2", "3"], group=[None, "1", None])
    assert len(set(groups(rows))) == 3


def test_groups_of_one_name_in_two_suites_are_two():
    assert groups(frame(suite=["a", "b"], instance_id=["1", "1"], group=["x", "x"])).tolist() == [0, 1]


def test_without_the_columns_each_prompt_is_a_group():
    assert groups(frame(instance_id=["1", "2", "1"])).tolist() == [0, 1, 0]
    assert kinds(frame(instance_id=["1", "2", "1"])).tolist() == [0, 1, 0]


def test_a_suite_with_enough_finest_categories_takes_them_and_another_suite_groups():
    many = [
        {"suite": "a", "instance_id": f"{c}-{i}", "category": "all", "subcategory": f"{c}"}
        for c in range(FEWEST_KINDS)
        for i in range(3)
    ]
    few = [{"suite": "b", "instance_id": str(i), "category": "all", "subcategory": f"{i % 4}"} for i in range(8)]
    found = kinds(pd.DataFrame(many + few))
    assert found[:60].tolist() == [c for c in range(FEWEST_KINDS) for _ in range(3)]
    assert len(set(found[60:])) == 8
    assert not set(found[:60]) & set(found[60:])


def test_one_category_less_takes_groups():
    rows = pd.DataFrame({"instance_id": map(str, range(100)), "category": [i % (FEWEST_KINDS - 1) for i in range(100)]})
    assert len(set(kinds(rows))) == 100


def test_missing_categories_are_one_category():
    rows = pd.DataFrame({"instance_id": map(str, range(42)), "category": [f"{i % 20}" for i in range(40)] + [None] * 2})
    assert len(set(kinds(rows))) == 21


def test_a_group_over_two_categories_is_not_parted():
    rows = pd.DataFrame({"instance_id": map(str, range(60)), "category": [f"{i % 30}" for i in range(60)]})
    rows["group"] = [str(i // 2) for i in range(60)]
    found = kinds(rows)
    assert (found[::2] == found[1::2]).all()


def test_no_row_has_no_number():
    empty = frame(suite=[], instance_id=[], group=[], category=[])
    assert len(groups(empty)) == len(kinds(empty)) == 0


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.none() | st.sampled_from("xyz")), max_size=40))
def test_a_kind_holds_whole_groups_and_a_group_whole_prompts(cells):
    rows = pd.DataFrame(cells, columns=["suite", "instance_id", "group"]).astype({"instance_id": "str"})
    rows["group"] = rows.groupby(["suite", "instance_id"])["group"].transform("first")
    for narrow, wide in ((rows.groupby(["suite", "instance_id"]).ngroup(), groups(rows)), (groups(rows), kinds(rows))):
        assert (
            pd.DataFrame({"narrow": narrow, "wide": np.asarray(wide)}).groupby("narrow")["wide"].nunique().le(1).all()
        )
