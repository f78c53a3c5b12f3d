"""What the system refuses is one line and exit code 2 at every verb, nothing is lost, and the same command goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slmsafety.cli import main
from slmsafety.study import Study

ROWS = 3000
OWN = {
    "name": "own",
    "kind": "run",
    "suites": ["demo_direct"],
    "models": ["smollm2-135m-it-q4"],
    "judges": ["refusal_rules"],
}
VERBS = ("collect", "status", "noise", "judge-card")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an own study and one of a file of many short replies."""
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    _write(tmp_path, "old")
    mine = {"name": "mine", "kind": "imported", "judged_csv": "judged.csv", "scores": {"higher": "safe"}}
    for study in (OWN, mine):
        (tmp_path / "params" / f"{study['name']}.yaml").write_text(json.dumps({"study": study}))
    return tmp_path


def _write(root: Path, text: str) -> None:
    rows = "".join(f"planes,{n},tiny,rater,{n % 2},{text} {n}\n" for n in range(ROWS))
    (root / "judged.csv").write_text(f"suite,instance_id,model,judge,score,response\n{rows}")


def _texts() -> set[str]:
    return {text.split()[0] for text in Study.load("mine").table("responses", ["response"])["response"]}


def _child(lines: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a verb in a process that is limited first, when all that it is made of is imported."""
    limited = (
        "import resource, sys\nimport slmsafety.study, slmsafety.pipeline.status\nfrom slmsafety.cli import main\n"
    )
    command = [sys.executable, "-c", f"{limited}{lines}\nsys.exit(main({list(arguments)}))"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def _is_one_line(done: subprocess.CompletedProcess[str], *says: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("slmsafety: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert all(word in done.stderr for word in says), done.stderr


def test_a_disk_that_takes_no_more_keeps_the_old_import_and_the_same_command_goes_on(root: Path) -> None:
    assert main(["collect", "mine"]) == 0
    _write(root, "new")
    done = _child("resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))", "collect", "mine")
    _is_one_line(done, "File too large", ".parquet", "the same command goes on")
    assert _texts() == {"old"}
    assert sorted(path.name for path in (root / "runs/mine/imports").iterdir()) == [".lock", "1"]
    assert main(["collect", "mine"]) == 0
    assert _texts() == {"new"}


def test_too_many_open_files_are_one_line_and_nothing_is_called_torn(root: Path) -> None:
    assert main(["collect", "mine"]) == 0
    done = _child("resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))", "status", "mine")
    _is_one_line(done, "Too many open files")
    assert "torn" not in done.stderr
    assert main(["status", "mine"]) == 0


def test_output_that_cannot_be_written_is_one_line(root: Path) -> None:
    command = f"{sys.executable} -m slmsafety suites > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    _is_one_line(done, "No space left on device")


@pytest.mark.parametrize("study", ["mine", "own"])
def test_a_file_in_the_place_of_the_folder_of_runs(study: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "runs").touch()
    assert main(["collect", study]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"slmsafety: {root / 'runs' / study}") and "Not a directory" in err and err.count("\n") == 1
    (root / "runs").unlink()
    assert main(["collect", study, *(["--stage", "prompts"] if study == "own" else [])]) == 0


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_in_the_place_of_a_file_is_not_called_torn(
    verb: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("prompts/demo_direct", "responses/demo_direct/smollm2-135m-it-q4"):
        (root / "runs/own" / f"{name}.parquet").mkdir(parents=True)
    (root / "runs/own/judgments/demo_direct/refusal_rules/smollm2-135m-it-q4.parquet").mkdir(parents=True)
    assert main([verb, "own"]) == 2
    err = capsys.readouterr().err
    assert ".parquet: Is a directory" in err and "torn" not in err and err.count("\n") == 1


FILES = {
    "dangling": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to(path.name),
    "folder": lambda path: path.mkdir(),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "pipe": lambda path: os.mkfifo(path),
    "bytes": lambda path: path.write_bytes(bytes(range(256))),
    "zeros": lambda path: path.write_bytes(bytes(1000)),
}


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
@pytest.mark.parametrize(
    "study",
    [
        {"name": "mine", "kind": "imported", "judged_csv": "odd.csv"},
        {**OWN, "suites": [{"name": "planes", "path": "odd.csv"}]},
        {**OWN, "human_labels": "odd.csv"},
        {**OWN, "judges": [{"name": "own", "module": "odd.py"}]},
        {**OWN, "suites": [{"name": "demo_direct", "rubric": "odd.yaml"}]},
    ],
    ids=["judged_csv", "suite", "human_labels", "module", "rubric"],
)
def test_a_strange_file_is_one_line_and_leaves_nothing(
    make: object, study: dict[str, object], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(make)
    for ending in ("csv", "py", "yaml"):
        make(root / f"odd.{ending}")
    (root / "params/odd.yaml").write_text(json.dumps({"study": study}))
    assert main(["collect", "odd"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("slmsafety: ") and "odd." in err and err.count("\n") == 1
    assert not (root / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["collect", "a\x1b[2J"], r"unknown study 'a\x1b[2J' in params/"),
        (["status", "x" * 5000], "cannot be looked up (File name too long)"),
        (["status", "y/" * 3000 + "z.yaml"], "cannot be looked up (File name too long)"),
        (["suites", "a\x00b"], r"unknown study 'a\x00b' in params/"),
        (["suites", "a\x00b.yaml"], r"params file 'a\x00b.yaml' does not exist"),
        (["figures", "\udcff"], r"unknown study '\udcff' in params/"),
    ],
)
def test_strange_names_are_one_visible_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1 and len(err) < 1500
    assert err.removesuffix("\n").isprintable()


def test_a_wrong_word_on_the_command_line_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["col\u202elect\x1b"])
    assert caught.value.code == 2
    assert r"'col\u202elect\x1b'" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("slmsafety ")
