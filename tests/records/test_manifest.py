from __future__ import annotations

import json
import subprocess
from datetime import datetime
from importlib import metadata
from pathlib import Path

from slmsafety.records.manifest import git_state, start_manifest, write_manifest


def _git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _repository(folder: Path) -> Path:
    folder.mkdir()
    _git(folder, "init", "-q")
    (folder / "file").write_text("one")
    _git(folder, "add", "file")
    _git(folder, "commit", "-qm", "first")
    return folder


def test_git_state_tells_commit_and_changes(tmp_path: Path) -> None:
    folder = _repository(tmp_path / "repository")
    commit = _git(folder, "rev-parse", "HEAD")
    assert len(commit) == 40
    assert git_state(folder) == (commit, False)
    (folder / "untracked").write_text("")
    assert git_state(folder) == (commit, False)
    (folder / "file").write_text("two")
    assert git_state(folder) == (commit, True)


def test_git_state_without_a_repository(tmp_path: Path) -> None:
    assert git_state(tmp_path) == (None, None)
    assert git_state(tmp_path / "absent") == (None, None)


def test_a_manifest_holds_what_made_the_tables(tmp_path: Path) -> None:
    manifest = start_manifest(_repository(tmp_path / "repository"), "demo", {"name": "demo", "path": Path("a/b")})
    early = write_manifest(tmp_path / "run", manifest, ended=False)
    assert json.loads(early.read_text())["end"] is None
    path = write_manifest(tmp_path / "run", manifest)
    assert path == early
    assert [file.name for file in (tmp_path / "run" / "manifests").iterdir()] == [path.name]
    assert ":" not in path.name
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert kept["given"] == "demo"
    assert kept["resolved"] == {"name": "demo", "path": "a/b"}
    assert kept["dirty"] is False
    assert len(kept["commit"]) == 40
    for name in ("torch", "pandas", "slmsafety"):
        assert kept["packages"][name] == metadata.version(name)
    start, end = (datetime.fromisoformat(kept[name]) for name in ("start", "end"))
    assert start.utcoffset() is not None
    assert 0 <= (end - start).total_seconds() + 1 < 60  # the end counts whole seconds


def test_two_quick_runs_of_one_process_keep_both_manifests(tmp_path: Path) -> None:
    paths = {write_manifest(tmp_path, start_manifest(tmp_path, "x", {})) for _ in range(3)}
    assert len(paths) == len(list((tmp_path / "manifests").iterdir())) == 3
