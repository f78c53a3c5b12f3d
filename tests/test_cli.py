"""The command line: exit codes, one line for bad input, and nothing left behind by it."""

from __future__ import annotations

import runpy
import subprocess
import sys

import pytest
import yaml

from slmsafety.cli import main
from slmsafety.study.listing import list_suites


def test_models_and_suites_print_tables(capsys):
    assert main(["models"]) == 0
    assert "gpt2-small" in capsys.readouterr().out
    assert main(["suites"]) == 0
    out = capsys.readouterr().out
    assert "harmbench\n  title     HarmBench\n  prompts   400\n  licence   MIT\n" in out
    assert max(map(len, out.splitlines())) <= 100
    assert out.count("\n  present   ") == len(list_suites())


def test_suites_of_a_study_show_what_loads_and_what_does_not(tmp_path, monkeypatch, capsys):
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    monkeypatch.setenv("SLMSAFETY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("urllib.request.urlopen", None)  # nothing may be downloaded
    file = tmp_path / "part.csv"
    file.write_text("id,harm_area,counter,category,prompts_final\nsst_1,Colours,1,Advice,Is red warm?\n")
    wrong = {"name": "harmbench", "path": "part.csv"}
    suites = ["demo_direct", {"name": "sst", "path": "part.csv"}, "xstest"]
    study = {"name": "mine", "kind": "run", "models": ["smollm2-135m-it-q4"], "judges": ["refusal_rules"]}

    def shown(*listed):
        (tmp_path / "params/mine.yaml").write_text(yaml.safe_dump({"study": {**study, "suites": list(listed)}}))
        code = main(["suites", "mine"])
        out, err = capsys.readouterr()
        assert err == ""
        return code, out.split("\n\n")

    code, (demo, part, absent) = shown(*suites)
    assert code == 0
    assert "  present   yes\n  title     Demo direct\n  prompts   52 of 52\n" in demo
    assert f"  path      {file}\n  title     Simple Safety Tests-1\n  prompts   1 of 100\n" in part
    assert absent == "xstest\n  present   no: downloaded on first use, or `path:` with upstream's file\n"
    code, (_, problem) = shown("demo_direct", wrong)
    assert code == 1
    assert f"problem '{file}' has no column 'Behavior'; expected columns: Behavior," in " ".join(problem.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["params", "part.csv"]


def test_suites_of_a_study_whose_file_is_gone_or_that_loads_none(tmp_path, monkeypatch, capsys):
    assert main(["suites", "published"]) == 0
    assert "study published is of kind 'published': it loads no suite" in capsys.readouterr().out
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    study = {"name": "mine", "kind": "run", "models": ["smollm2-135m-it-q4"], "judges": ["refusal_rules"]}
    suites = [{"name": "sst", "path": "gone.csv"}]
    (tmp_path / "params/mine.yaml").write_text(yaml.safe_dump({"study": {**study, "suites": suites}}))
    assert main(["suites", "mine"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "path 'gone.csv' does not exist" in err
    assert err.count("\n") == 1


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


def test_the_module_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["slmsafety", "status", "published"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("slmsafety", run_name="__main__")
    assert ended.value.code == 0
    assert "it has no stages to run" in capsys.readouterr().out


def test_a_closed_pipe_is_no_error():
    """Closed before anything is written to it."""
    command = f"{sys.executable} -m slmsafety models | true"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
