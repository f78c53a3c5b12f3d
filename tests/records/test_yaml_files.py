"""YAML as people write it is read; what explodes, nests without end or means two things is one line, and at once."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slmsafety.errors import InputError
from slmsafety.records.yaml_files import BYTES, read_yaml


def _read(folder: Path, content: str | bytes) -> Any:
    path = folder / "x.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_yaml(path)


def test_plain_yaml_is_read_as_ever(tmp_path: Path) -> None:
    text = """
    study: &study {name: a, seed: 1_000, share: .5, on: true, no: ~, day: 2026-11-01}
    again: *study
    merged: {<<: *study, name: b}
    scores: {0: harmful, 0.5: ambiguous, true: safe}
    """
    assert _read(tmp_path, text) == yaml.safe_load(text)
    assert _read(tmp_path, "\ufeffa: 1") == {"a": 1}
    assert _read(tmp_path, "") is None


BILLION = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join(['*' + before] * 10)}]\n"
    for before, after in zip("abcdefghi", "bcdefghij", strict=True)
)
MERGED = "a: &a {k: v}\n" + "".join(
    f"{after}: &{after} {{<<: [{', '.join(['*' + before] * 10)}]}}\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
BAD = {
    "bomb": (BILLION, "line 5: has more than 50000 values, aliases counted"),
    "merged bomb": (MERGED, "values, aliases counted"),
    "alias within": ("a: &a [1, *a]", "line 1: an alias stands within what it names"),
    "deep": ("[" * 100_000, "line 1: nests more than 40 deep"),
    "deep mappings": ("{a: " * 100_000, "nests more than 40 deep"),
    "deep blocks": ("- " * 100_000 + "x", "nests more than 40 deep"),
    "deep keys": ("? " * 100_000 + "x", "nests more than 40 deep"),
    "large": ("x" * (BYTES + 1), f"has more than {BYTES} bytes"),
    "many": ("- 1\n" * 60_000, "has more than 50000 values"),
    "long number": (f"a: {'9' * 500}", "line 1: a number of 500 digits"),
    "long hexadecimal": (f"a: 0x{'f' * 5000}", "a number of 5002 digits"),
    "twice": ("a: 1\nb: 2\na: 3", "line 3: key 'a' stands twice"),
    "twice as numbers": ("{1: a, true: b}", "key 'True' stands twice"),
    "twice below": ("x:\n- {a: 1, a: 2}", "line 2: key 'a' stands twice"),
    "a list as key": ("? [a]\n: 1", "line 1: a key is a list or a mapping"),
    "a mapping as key": ("{a: 1}: 1", "a key is a list or a mapping"),
    "nothing as key": ("~: 1", "a key is nothing or a date"),
    "a date as key": ("2026-11-01: 1", "a key is nothing or a date"),
    "no date": ("a: 2026-13-45", "month must be in 1..12"),
    "python": ("a: !!python/object/apply:os.system [x]", "could not determine a constructor"),
    "two documents": ("a: 1\n---\nb: 2", "line 2: "),
    "undefined alias": ("a: *b", "found undefined alias"),
    "half": ("a: [", "line 1: "),
    "tab": ("a:\n\t- b", "line 2: found character '\\t' that cannot start any token"),
    "latin 1": ("a: Grün".encode("latin-1"), "codec can't decode byte 0xfc"),
    "control": (b"a: \x00", "special characters are not allowed"),
}


@pytest.mark.parametrize(("content", "problem"), BAD.values(), ids=BAD)
def test_what_is_refused_is_one_line_at_once_and_in_little_memory(
    content: str | bytes, problem: str, tmp_path: Path
) -> None:
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(InputError) as caught:
        _read(tmp_path, content)
    assert time.process_time() - started < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'x.yaml'}: ")
    assert problem in message


@pytest.mark.parametrize("text", ["a: [sk-secret", "sk-secret: 1\n  x: 2", "a: &b sk-secret\nc: *d", "a: 'sk-secret"])
def test_a_message_holds_nothing_of_the_file(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        _read(tmp_path, text)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone.yaml", tmp_path / ("n" * 300)):
        with pytest.raises(InputError, match="not readable as YAML"):
            read_yaml(path)


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_PLAIN)
def test_what_yaml_writes_is_read(tmp_path: Path, content: Any) -> None:
    assert _read(tmp_path, yaml.safe_dump(content)) == content


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text("ab:-[]{}&*!?|>'\"# \n\t<~1.0", max_size=30))
def test_any_text_is_what_yaml_reads_or_one_line(tmp_path: Path, text: str) -> None:
    try:
        found = _read(tmp_path, text)
    except InputError:
        return
    assert found == yaml.safe_load(text)


def test_a_secret_that_stands_twice_as_a_key_is_not_shown(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text("study:\n  sk-aB3dE5gH7jK9: 1\n  sk-aB3dE5gH7jK9: 2\n", "utf-8")
    with pytest.raises(InputError, match=r"line 3: a key stands twice") as caught:
        read_yaml(path)
    assert "aB3dE5" not in str(caught.value)
