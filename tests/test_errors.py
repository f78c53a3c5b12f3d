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


@pytest.mark.parametrize(
    "mark", ["\n", "\r", "\r\n", "\u2028", "\x0b", "\x1b[2J", "\u202e", "\u200b", "\ud800", "\x7f"]
)
def test_a_message_is_one_line_in_which_all_can_be_seen(mark: str) -> None:
    error = unknown("model", f"a{mark}b", ["c"])
    shown = mark.encode("unicode_escape", "surrogatepass").decode("ascii")
    assert str(error) == f"unknown model 'a{shown}b'; valid: c"
    assert isinstance(error, ValueError)


def test_a_message_keeps_its_words_and_what_it_has_shown_once() -> None:
    assert str(InputError("Größe 'ü' → 中\\n")) == "Größe 'ü' → 中\\n"
    assert str(InputError(str(InputError("a\nb")))) == "a\\nb"


def test_a_long_message_loses_its_middle_and_a_long_name_its_end() -> None:
    message = str(InputError(f"start '{'x' * 100_000}'; valid: end"))
    assert len(message) < 1300
    assert message.startswith("start 'xxx")
    assert message.endswith("xxx'; valid: end")
    assert str(unknown("key", "y" * 5000, ["b"])) == f"unknown key '{'y' * 100}...'; valid: b"


@pytest.mark.parametrize(
    ("name", "valid"),
    [("bbq", ["xstest"]), ("xstest", ["bbq", "sst"]), ("generate", ["import"]), ("no", ["ok"]), ("raw", ["auto"])],
)
def test_what_is_not_near_is_not_suggested(name: str, valid: list[str]) -> None:
    assert str(unknown("suite", name, valid)) == f"unknown suite '{name}'; valid: {', '.join(valid)}"


@pytest.mark.parametrize(
    ("name", "valid", "near"),
    [
        ("xtest", ["sst", "xstest"], "xstest"),
        ("HARMFUL", ["safe", "harmful"], "harmful"),
        ("Instance Id", ["instance_id", "suite"], "instance_id"),
        ("gpt2", ["gpt2-small", "opt-125m"], "gpt2-small"),
        ("okay", ["error", "ok"], "ok"),
    ],
)
def test_near_misses_are_suggested(name: str, valid: list[str], near: str) -> None:
    assert str(unknown("name", name, valid)).endswith(f"; did you mean '{near}'?")


def test_a_long_list_of_names_is_cut() -> None:
    message = str(unknown("model", "zzz", [f"name-{number:03d}" for number in range(500)]))
    assert message.startswith("unknown model 'zzz'; valid: name-000, name-001, ")
    assert message.endswith(", ... (500 in all)")
    assert len(message) < 500
