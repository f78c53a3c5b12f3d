from __future__ import annotations

from pathlib import Path

import pytest

from slmsafety.paths import cache_folder


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"SLMSAFETY_CACHE": "own", "XDG_CACHE_HOME": "xdg"}, "own"),
        ({"XDG_CACHE_HOME": "xdg"}, "xdg/slmsafety"),
        ({}, "home/.cache/slmsafety"),
    ],
)
def test_the_cache_folder_is_the_nearest_that_is_named(
    variables: dict[str, str], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLMSAFETY_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    assert cache_folder() == tmp_path / folder
