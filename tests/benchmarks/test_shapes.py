"""Studies of some shapes through the notebooks, in this process; `benchmarks/shapes.py` runs every shape."""

from __future__ import annotations

import pandas as pd
import pytest
from matplotlib.figure import Figure
from notebook_cells import NOTEBOOKS, Shown, problems, run_notebook
from study_shapes import NO_CARD, SHAPES, Shape, table, write_study

from slmsafety.study import Study

BY_NUMBER = {path.stem.split("_")[0]: path for path in NOTEBOOKS}
# What a shape brings out; 04 with metrics is slow, and runs where a shape says something about it.
RUNS = {
    "one row": "00 01 02 02b 03 04 04b 04c 05",
    "controls only": "00 01 02 02b 03 05",
    "controls of two judges": "02 02b",
    "choices only": "01 02 02b 03 05",
    "choices beside": "02 02b",
    "nothing labelled": "00 01 02 02b 03 04 04b 04c 05",
    "all ambiguous": "01 03 04 04b 04c",
    "all safe, two judges": "02 02b 03",
    "sizes of the study": "01 04 04b 04c",
    "suites without a common model": "01",
    "a model without labels": "02 02b 03 05",
    "a suite without labels": "01 02 02b 03 05",
    "several samples": "01 02 02b 03",
    "odd names": "01 02 02b",
}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty project root."""
    for name in ("params", "notebooks"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", RUNS)
def test_a_study_of_any_shape_ends_and_shows_nothing_undefined(name, root):
    study = write_study("mine", SHAPES[name](), root)
    found = [problem for number in RUNS[name].split() for problem in problems(run_notebook(BY_NUMBER[number], study))]
    assert found == []


def test_what_is_left_out_has_the_reason_that_holds(root):
    study = write_study("mine", SHAPES["choices only"](), root)
    shown = run_notebook(BY_NUMBER["05"], study)
    assert shown.left_out["bounds"] == "none of its replies to prompts to refuse has a label"
    assert shown.left_out["rank_sets"] == "no suite has labels of two models' replies to prompts to refuse"


def test_a_prompt_with_several_samples_counts_once(root):
    study = Study.load(write_study("mine", SHAPES["several samples"](), root))
    found = study.outcomes()
    assert set(found["prompts"]) == {12} and found["n"].gt(found["prompts"]).all()
    assert "prompts" in pd.read_csv(tables(root, study, "02") / "table_a1_outcomes.csv")
    labels = study.labels()
    one = labels[(labels["suite"] == "alpha") & (labels["model"] == "tern")]
    by_hand = one.assign(ambiguous=one["label"].eq(1)).groupby("instance_id")["ambiguous"].mean().mean()
    row = found[(found["suite"] == "alpha") & (found["model"] == "tern")].iloc[0]
    assert row["ar"] == pytest.approx(by_hand)


def test_one_reply_a_prompt_shows_no_column_of_prompts(root):
    study = Study.load(write_study("mine", Shape(table(["alpha"], NO_CARD, 4)), root))
    assert "prompts" not in pd.read_csv(tables(root, study, "02") / "table_a1_outcomes.csv")


def test_sizes_that_a_study_names_are_steps_within_a_family(root):
    study = Study.load(write_study("mine", SHAPES["sizes of the study"](), root))
    assert {"sized_family", "model_features"} <= study.capabilities


def test_the_check_sees_what_is_undefined_empty_or_told_twice():
    shown = Shown()
    shown.markdown = ["Tuned nan. One thing. One thing.", "**fig** is left out for study mine: a reason."]
    shown.tables = {"empty": pd.DataFrame({"a": []}), "blank": pd.DataFrame({"n": [0], "rate": [float("nan")]})}
    shown.figures = {"drawn": Figure()}
    shown.figures["drawn"].subplots().set_title("panel")
    shown.needed = {"empty", "blank", "drawn", "fig", "silent"}
    found = problems(shown)
    for part in (
        "says: Tuned nan.",
        "says twice: One thing.",
        "empty has no row",
        "table blank has 1 rows",
        "panel 'panel'",
    ):
        assert any(part in problem for problem in found), part
    assert "silent is neither shown nor left out with a reason" in found and len(found) == 6


def tables(root, study, number):
    """The folder of a study's tables, after a notebook has run on it."""
    run_notebook(BY_NUMBER[number], dict(study.given))
    return root / "paper/tables" / study.name
