"""The entries of `judged_tables`: right ones are read, wrong ones get one line before anything is read."""

from __future__ import annotations

import pytest

from slmsafety.errors import InputError
from slmsafety.importers.judged_table import understand
from slmsafety.importers.scores import Scale
from slmsafety.params.imports import ScoresParams, TableEntry
from slmsafety.params.study import load_params


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    (tmp_path / "params").mkdir()
    (tmp_path / "a.csv").write_text("suite,instance_id,model,judge,score\ns,1,m,j,1\n")
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    return tmp_path


def params(*tables, **keys):
    return load_params({"name": "mine", "kind": "imported", "judged_tables": list(tables), **keys})


def test_a_path_alone_and_judged_csv_are_entries():
    found = params("a.csv", judged_csv="a.csv").tables
    assert [entry.path for entry in found] == ["a.csv", "a.csv"]
    assert found[0] == found[1] == TableEntry(path="a.csv")


def test_the_nearest_scale_is_the_readers():
    judges = {"a": "x", "b": {"column": "y", "scores": {"map": {"yes": "harmful"}}}}
    study = ScoresParams(higher="harmful")
    own = TableEntry(path="a.csv", judges=judges, scores=ScoresParams(higher="safe")).options(study)
    assert (own.scale, dict(own.judges)) == (Scale("safe"), {"a": "x", "b": "y"})
    assert own.scales == {"b": Scale(values={"yes": "harmful"})}
    assert TableEntry(path="a.csv").options(study).scale == Scale("harmful")


def test_words_that_yaml_reads_as_booleans_are_words(root):
    text = "study: {name: mine, kind: imported, judged_csv: a.csv, scores: {map: {yes: harmful, no: safe, 0.5: safe}}}"
    (root / "params/mine.yaml").write_text(text)
    values = load_params("mine").scores.map
    assert {word for word, meaning in values.items() if meaning == "harmful"} == {"yes", "true", "on"}
    assert {word for word, meaning in values.items() if meaning == "safe"} == {"no", "false", "off", "0.5"}
    assert ScoresParams(map={True: "harmful", "yes": "safe"}).map == {"true": "harmful", "on": "harmful", "yes": "safe"}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"path": "b.csv"}, "path 'b.csv' does not exist"),
        ({"path": "a.csv", "colums": {}}, "unknown key 'colums' in parameter study; did you mean 'columns'?"),
        ({"path": "a.csv", "columns": {"scor": "x"}}, "unknown column 'scor' in the key 'columns'"),
        ({"path": "a.csv", "judge": ""}, "key 'judged_tables.0.judge' is ''"),
        ({"path": "a.csv", "model": "m", "columns": {"model": "x"}}, "model is given for all rows and as a column"),
        ({"path": "a.csv", "judge": "m", "judges": {"a": "x"}}, "'judges' names the columns of scores; remove 'judge'"),
        ({"path": "a.csv", "columns": {"score": "y"}, "judges": {"a": "x"}}, "'judges' names the columns of scores"),
        ({"path": "a.csv", "judges": {"a": {}}}, "judge 'a' needs a column (or scores alone, where judges are rows)"),
        ({"path": "a.csv", "judges": {"a": "x", "b": {"scores": {"higher": "safe"}}}}, "judge 'b' needs a column"),
        (
            {"path": "a.csv", "judges": {"a": {"colum": "x"}}},
            "unknown key 'colum' in parameter study; did you mean 'column'?",
        ),
        (
            {"path": "a.csv", "judges": {"a": {"column": "x", "scores": {"hi": 1}}}},
            "unknown key 'hi' in parameter study",
        ),
        ({"path": "a.csv", "scores": {"higher": "up"}}, "key 'judged_tables.0.scores.higher' is 'up'"),
    ],
)
def test_a_wrong_entry_gets_one_line(entry, says):
    with pytest.raises(InputError) as caught:
        params(entry)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_table_is_understood_whatever_its_scores_mean(root):
    (root / "b.csv").write_text("suite,instance_id,model,judge,score,note\ns,1,org/m,j,yes,x\ns,2,org/m,j,,x\n")
    found = understand(root / "b.csv")
    assert found.scores[0].values == {"yes": 1} and not found.scores[0].scale.said
    assert (found.rows, found.models, found.meta) == (2, ("org_m",), ("note",))
