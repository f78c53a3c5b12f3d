"""The notebooks as users run them: by the CLI, by bare papermill, from any folder, on printed and on live studies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import yaml
from bbq_files import write_bbq

from slmsafety.paths import project_root
from slmsafety.study.notebooks import execute

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[1]
NOTEBOOKS = sorted(path.name for path in (REPOSITORY / "notebooks").glob("*.ipynb"))
TINY = {
    "name": "tiny",
    "kind": "run",
    "suites": [
        {"name": "demo_direct", "limit": 8},
        {"name": "demo_framed", "limit": 6},
        {"name": "bbq", "path": "bbq", "limit": 8, "max_new_tokens": 1},
    ],
    "models": ["smollm2-135m-it-q4"],
    "generation": {"max_new_tokens": 8},
    "judges": ["refusal_rules", "bbq_letter"],
    "on_demand": True,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A copy of what a project root needs, so that the repository's own artifacts stay as committed."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("notebooks", "params"):
        shutil.copytree(REPOSITORY / name, folder / name)
    write_bbq(folder / "bbq", "Religion")
    (folder / "params" / "tiny.yaml").write_text(yaml.safe_dump({"study": TINY}))
    return folder


def papermill(root: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run papermill as a user does, in some other folder."""
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", *arguments]
    environment = {**os.environ, "SLMSAFETY_ROOT": str(root)}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if "Kernel didn't respond" in done.stderr:
        # Jupyter picks its TCP ports before the kernel binds them, and now and then another process is faster.
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    return done


@pytest.fixture(scope="module")
def published(root):
    """The root after every notebook has run on the study `published`."""
    command = [sys.executable, "-m", "slmsafety", "figures", "published"]
    environment = {**os.environ, "SLMSAFETY_ROOT": str(root)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return root


@pytest.mark.parametrize("folder", ["paper/tables/published", "paper"])
def test_the_committed_tables_and_numbers_come_out_byte_by_byte(published, folder):
    made = {path.name: path.read_bytes() for path in (published / folder).glob("*.*")}
    committed = {path.name: path.read_bytes() for path in (REPOSITORY / folder).glob("*.*")}
    assert sorted(made) == sorted(committed)
    assert [name for name in made if made[name] != committed[name]] == []
    assert made


def test_the_committed_figures_are_the_ones_that_come_out(published):
    for folder in ("figures/published", "paper/figures/published"):
        names = sorted(path.name for path in (published / folder).iterdir())
        assert names == sorted(path.name for path in (REPOSITORY / folder).iterdir())
        sidecars = [name for name in names if name.endswith(".json")]
        assert sidecars
        for name in sidecars:
            assert (published / folder / name).read_bytes() == (REPOSITORY / folder / name).read_bytes()


def test_executed_notebooks_say_why_something_is_left_out(published):
    text = (published / "build/published/04_ambiguity_drivers.ipynb").read_text()
    assert "**fig5_associations** is left out for study published: it has no labels of single replies" in text


def test_papermill_runs_a_notebook_with_a_params_file_from_any_folder(root, tmp_path):
    notebook, params = root / "notebooks/03_rank_sensitivity.ipynb", root / "params/published.yaml"
    done = papermill(root, tmp_path, str(notebook), "out.ipynb", "-f", str(params))
    assert done.returncode == 0, done.stderr
    assert "03_rank_sensitivity, study published" in (tmp_path / "out.ipynb").read_text()


def test_papermill_runs_a_notebook_with_nothing(root, tmp_path):
    done = papermill(root, tmp_path, str(root / "notebooks/01_rankings.ipynb"), "out.ipynb")
    assert done.returncode == 0, done.stderr
    assert "01_rankings, study published" in (tmp_path / "out.ipynb").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-p", "study", "demmo"], "InputError: unknown study 'demmo' in params/; did you mean 'demo'?"),
        (["-p", "stduy", "demo"], "InputError: unknown parameter 'stduy' in this notebook; did you mean 'study'?"),
        (["-y", "study: {name: x, kind: run, suits: []}"], "InputError: parameter study: unknown key 'suits'"),
    ],
)
def test_bare_papermill_stops_at_the_first_cell_with_the_same_line(root, tmp_path, arguments, says):
    done = papermill(root, tmp_path, str(root / "notebooks/02_decision_usefulness.ipynb"), "out.ipynb", *arguments)
    assert done.returncode == 1
    assert says.removeprefix("InputError: ").split(";")[0].removeprefix("parameter study: ") in done.stderr
    cells = [cell for cell in nbformat.read(tmp_path / "out.ipynb", 4).cells if cell.cell_type == "code"]
    ran = [cell for cell in cells if cell.execution_count]
    # The parameters, what papermill injected, and the first cell of the notebook's own.
    assert len(ran) == 3


def test_a_live_study_runs_through_every_notebook_on_demand(root, monkeypatch, capsys):
    """Notebook 03 alone, by papermill, makes the rows that it lacks; the CLI then runs all six on them."""
    done = papermill(root, root, "notebooks/03_rank_sensitivity.ipynb", "out.ipynb", "-p", "study", "tiny")
    assert done.returncode == 0, done.stderr
    assert len(list((root / "runs/tiny/responses").rglob("*.parquet"))) == 3
    monkeypatch.setenv("SLMSAFETY_ROOT", str(root))
    assert project_root() == root.resolve()
    assert execute(["tiny"]) == 0
    assert sorted(path.name for path in (root / "build/tiny").glob("*.ipynb")) == NOTEBOOKS
    assert {"fig1_rankings.png", "fig2_proportions.png", "fig5_associations.png"} <= {
        path.name for path in (root / "figures/tiny").iterdir()
    }
    tables = root / "paper/tables/tiny"
    (accuracy, bias) = (pd.read_csv(tables / f"{name}.csv") for name in ("bbq_accuracy", "bbq_bias"))
    assert accuracy[["suite_title", "reading", "n"]].to_numpy().tolist() == [
        ["BBQ-1 (8 items)", "exact", 8],
        ["BBQ-1 (8 items)", "tolerant", 8],
    ]
    assert bias["formula"].tolist() == ["HELM", "Parrish"] * 2
    assert set(pd.read_csv(tables / "rankings.csv")["suite_title"]) >= {"BBQ-1 (8 items)", "Demo direct-8"}
    assert "BBQ-1 (8 items)" not in set(pd.read_csv(tables / "table_a1_outcomes.csv")["suite_title"])
    assert not (root / "paper/numbers.tex").exists() or "slmTiny" not in (root / "paper/numbers.tex").read_text()


def test_a_kernel_that_is_killed_is_named_and_the_others_go_on(root, tmp_path, monkeypatch, capsys):
    killed = tmp_path / "killed"
    shutil.copytree(root / "params", killed / "params")
    (killed / "notebooks").mkdir()
    for name, source in (("00_killed", "import os; os.kill(os.getpid(), 9)"), ("01_whole", "1")):
        cells = [nbformat.v4.new_code_cell(source)]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
        nbformat.write(notebook, killed / f"notebooks/{name}.ipynb")
    monkeypatch.setenv("SLMSAFETY_ROOT", str(killed))
    assert execute(["published"]) == 1
    said = capsys.readouterr()
    assert "00_killed.ipynb on published: its kernel ended: " in said.err and "1 notebook(s) failed" in said.err
    assert "build/published/01_whole.ipynb" in said.out


def test_a_failing_notebook_is_named_and_exits_1(root, tmp_path, monkeypatch, capsys):
    broken = tmp_path / "broken"
    shutil.copytree(root / "params", broken / "params")
    (broken / "notebooks").mkdir()
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("1 / 0")],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    nbformat.write(notebook, broken / "notebooks/00_broken.ipynb")
    notebook.cells[0].source = "from pathlib import Path; assert not [*Path().glob('*ipc*')], 'sockets lie here'"
    nbformat.write(notebook, broken / "notebooks/01_sound.ipynb")
    monkeypatch.setenv("SLMSAFETY_ROOT", str(broken))
    monkeypatch.chdir(broken)
    assert execute(["published"]) == 1
    printed = capsys.readouterr()
    assert "00_broken.ipynb on published: ZeroDivisionError: division by zero" in printed.err
    assert "1 notebook(s) failed: 00_broken.ipynb on published" in printed.err
    assert "01_sound.ipynb" in printed.out, "the others go on"
