"""Names of groups of prompts."""

from __future__ import annotations

import pytest

from slmsafety.errors import InputError
from slmsafety.records.groups import check_groups


def test_a_group_with_the_id_of_a_prompt_without_group_is_refused() -> None:
    rows = [("a", "1", ""), ("a", "2", "1"), ("a", "3", "1")]
    with pytest.raises(InputError, match=r"file\.csv: prompt '1' of suite 'a' has no group, and others are in a group"):
        check_groups(rows, "file.csv")


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [("a", "1", ""), ("a", "2", "x"), ("a", "3", "x")],
        [("a", "1", "1"), ("a", "2", "1")],  # a prompt may name its group by its own id
        [("a", "1", ""), ("b", "2", "1")],  # of another suite
    ],
)
def test_other_names_are_fine(rows: list[tuple[str, str, str]]) -> None:
    check_groups(rows, "file.csv")
