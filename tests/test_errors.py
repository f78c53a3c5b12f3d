from __future__ import annotations

import pytest

from slmsafety.errors import InputError, unknown


def test_unknown_names_the_nearest_valid_name() -> None:
    error = unknown("suite", "harmbnch", ["sst", "harmbench"])
    assert isinstance(error, InputError)
    assert str(error) == "unknown suite 'harmbnch'; did you mean 'harmbench'?"


def test_unknown_lists_all_names_when_none_is_near() -> None:
    assert str(unknown("key", "zzz", ["b", "a"], "x.yaml")) == "unknown key 'zzz' in x.yaml; valid: a, b"


def test_unknown_takes_a_name_that_is_no_text() -> None:
    assert str(unknown("status", None, iter(["ok"]))).startswith("unknown status 'None'; valid: ok")


@pytest.mark.parametrize("mark", ["\n", "\r\n", "\u2028", "\x0b"])
def test_a_message_is_one_line_whatever_a_name_holds(mark: str) -> None:
    error = unknown("model", f"a{mark}b", ["c"])
    assert str(error) == "unknown model 'a b'; valid: c"
    assert isinstance(error, ValueError)
