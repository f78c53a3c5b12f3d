"""The command line: exit codes, one line for bad input, and nothing left behind by it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from slmsafety.cli import main


def test_models_and_suites_print_tables(capsys):
    assert main(["models"]) == 0
    assert "gpt2-small" in capsys.readouterr().out
    assert main(["suites"]) == 0
    assert "HarmBench" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["collect", "demmo"], "unknown study 'demmo' in params/; did you mean 'demo'?"),
        (["collect", "demo", "--stage", "jugde"], "unknown stage 'jugde'; did you mean 'judge'?"),
        (["status", "none.yaml"], "params file 'none.yaml' does not exist"),
        (["figures", "published", "publshed"], "unknown study 'publshed' in params/; did you mean 'published'?"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(capsys, arguments, says):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert err == f"slmsafety: {says}\n"
    assert out == ""


@pytest.mark.parametrize(
    ("arguments", "says"), [(["colect", "demo"], "invalid choice: 'colect'"), (["collect"], "required: STUDY")]
)
def test_a_wrong_call_is_one_line_and_exit_2(capsys, arguments, says):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1


def test_a_misspelt_key_stops_collect_before_anything_is_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "mine.yaml").write_text("study: {name: mine, kind: run, modles: [gpt2-small]}\n")
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    assert main(["collect", "mine"]) == 2
    assert "unknown key 'modles'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["params"]


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "slmsafety", "status", "published"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "it has no stages to run" in done.stdout


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m slmsafety models | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
