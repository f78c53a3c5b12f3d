"""The command line that the benchmarks share."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("sizes", Path(__file__).parents[2] / "benchmarks" / "sizes.py")
assert _SPEC is not None and _SPEC.loader is not None
sizes = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sizes)


@pytest.mark.parametrize(
    ("arguments", "prompts", "new_tokens"),
    [
        ([], 32, 64),
        (["--new-tokens", "8"], 32, 8),
        (["--smallest"], 2, 4),
        (["--smallest", "--new-tokens", "8"], 2, 8),
    ],
)
def test_smallest_sets_every_count_that_no_later_option_sets(arguments, prompts, new_tokens):
    options = sizes.size_parser("A benchmark.", {"prompts": (32, 2), "new_tokens": (64, 4)}).parse_args(arguments)
    assert (options.prompts, options.new_tokens) == (prompts, new_tokens)


def test_missing_data_skip_the_script_with_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SLMSAFETY_DATA", str(tmp_path))
    (tmp_path / "there.csv").touch()
    assert sizes.data_files(["there.csv"]) == [tmp_path / "there.csv"]
    with pytest.raises(SystemExit) as ended:
        sizes.data_files(["there.csv", "gone.csv"])
    assert ended.value.code == 0
    monkeypatch.delenv("SLMSAFETY_DATA")
    with pytest.raises(SystemExit):
        sizes.data_files(["there.csv"])
    gone, unset = capsys.readouterr().out.splitlines()
    assert gone.startswith(f"skipped: '{tmp_path / 'gone.csv'}' does not exist")
    assert unset.startswith("skipped: SLMSAFETY_DATA is not set")
