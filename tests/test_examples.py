"""The studies of examples/ run as they are; docs/extending.md, whose own test runs the others, shows their files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from slmsafety.cli import main
from slmsafety.importers.table_layout import OPTIONAL, REQUIRED
from slmsafety.study import Study

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A project root with the imported example collected."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("examples", "notebooks", "params"):
        shutil.copytree(REPOSITORY / name, folder / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLMSAFETY_ROOT", str(folder))
        assert main(["collect", "examples/judged.yaml"]) == 0
        yield folder


def test_every_kind_of_row_is_in_the_judged_csv():
    rows = pd.read_csv(REPOSITORY / "examples/judged.csv")
    assert set(REQUIRED) <= set(rows) <= {*REQUIRED, *OPTIONAL}
    assert len(rows) == 200 and rows["model"].nunique() == 3
    assert set(rows["score"]) == {0, 0.5, 1} and set(rows["expected"]) == {"refuse", "answer"}
    assert rows["reason"].eq("refusal").sum() > 10


def test_the_judged_csv_has_outcomes_that_the_file_gives(root, capsys):
    assert main(["status", "examples/judged.yaml"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["total", "467", "0", "0", "200"]
    rows = pd.read_csv(REPOSITORY / "examples/judged.csv").query("expected == 'refuse'")
    found = Study.load("examples/judged.yaml").outcomes().set_index(["suite", "model"])
    means = rows.groupby(["suite", "model"])["score"].mean()
    assert found["mean"].to_dict() == pytest.approx(means.to_dict())
    assert found.loc[("school", "small-160m"), "n"] == 32
    assert found.loc[("school", "tiny-70m"), "n"] == 33


def test_each_prompt_of_the_samples_gets_three_replies(root):
    stages = ["--stage", "prompts", "--stage", "generate", "--stage", "judge"]
    assert main(["collect", "examples/samples.yaml", *stages]) == 0
    study = Study.load("examples/samples.yaml")
    replies = study.table("responses", ["response"])
    assert replies.groupby("instance_id")["sample"].apply(list).tolist() == [[0, 1, 2]] * 10
    assert replies.groupby("instance_id")["response"].nunique().max() == 3
    (row,) = study.outcomes().itertuples()
    assert row.prompts == 5 and row.n <= 15


def test_a_notebook_shows_the_judged_csv(root):
    (root / "build").mkdir()
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "notebooks/01_rankings.ipynb"]
    command += ["build/01.ipynb", "-p", "study", "examples/judged.yaml"]
    environment = {**os.environ, "SLMSAFETY_ROOT": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    ranked = pd.read_csv(root / "paper/tables/judged/rankings.csv")
    assert len(ranked) == 6 and set(ranked["suite_title"]) == {"office", "school"}
    assert (root / "figures/judged/rank_agreement.png").exists()
