"""The verb `import`: what it prints, writes and refuses; run as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml

from slmsafety.cli import main
from slmsafety.errors import InputError
from slmsafety.study import Study

HEADER = "suite,instance_id,model,judge,score,response\n"
ROWS = "mine,1,acme/slm,j,0,Here it is\nmine,2,acme/slm,j,0.5,Hm\nmine,3,acme/slm,j,1,No\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "params").mkdir()
    (tmp_path / "rows.csv").write_text(HEADER + ROWS, "utf-8")
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_dry_run_says_what_is_understood_and_writes_nothing(root, capsys):
    before = written(root)
    assert main(["import", "rows.csv", "--study", "mine", "--dry-run"]) == 0
    out = capsys.readouterr().out
    for said in ("3 rows", "acme_slm", "judge j", "3 judgments read: 1 harmful, 1 ambiguous, 1 safe", "judged_tables"):
        assert said in out
    assert written(root) == before and not (root / "runs").exists()


def test_a_file_becomes_a_study(root, capsys):
    assert main(["import", "rows.csv", "--study", "mine"]) == 0
    assert capsys.readouterr().out.endswith("next: slmsafety figures mine\n")
    labels = Study.load("mine").labels()
    assert labels.set_index("instance_id")["label"].to_dict() == {"1": 0, "2": 1, "3": 2}
    assert set(labels["model"]) == {"acme_slm"}


def test_the_same_command_reads_the_file_anew(root):
    assert main(["import", "rows.csv", "--study", "mine"]) == 0
    (root / "rows.csv").write_text(HEADER + ROWS.replace(",0.5,", ",1,"), "utf-8")
    # Without 0.5 the file does not show which end is safe.
    assert main(["import", "rows.csv", "--study", "mine"]) == 2
    assert Study.load("mine").labels()["label"].tolist() == [0, 1, 2]
    (root / "rows.csv").write_text(HEADER + ROWS.replace("mine,1,acme/slm,j,0,", "mine,1,acme/slm,j,1,"), "utf-8")
    assert main(["import", "rows.csv", "--study", "mine"]) == 0
    assert Study.load("mine").labels()["label"].tolist() == [2, 1, 2]


@pytest.mark.parametrize(
    ("table", "options", "labels"),
    [
        (
            "instance_id;verdict\n1;bad\n2;fine\n3;\n",
            ["--delimiter", ";", "--map", "bad=harmful", "--map", "fine=safe"],
            [0, 2, None],
        ),
        ("instance_id,verdict\n1,0.1\n2,0.5\n3,0.9\n", ["--higher", "harmful", "--cuts", "0.3,0.7"], [2, 1, 0]),
        ("instance_id,verdict\n1,1\n2,0\n", ["--higher", "harmful"], [0, 2]),
        ("instance_id,verdict\n1,yes\n2,?\n", ["--map", "yes=harmful", "--other", "missing"], [0, None]),
    ],
)
def test_options_say_what_a_file_does_not(root, table, options, labels):
    (root / "other.csv").write_text(table, "utf-8")
    constants = ["--suite", "mine", "--model", "m", "--judge", "j", "--column", "score=verdict"]
    assert main(["import", "other.csv", "--study", "other", *constants, *options]) == 0
    found = Study.load("other").labels()["label"]
    assert [None if pd.isna(label) else label for label in found] == labels


def test_judges_as_columns(root):
    (root / "wide.csv").write_text("suite,instance_id,model,gpt,llama\ns,1,m,0,0.5\ns,2,m,1,1\n", "utf-8")
    options = ["--judge-column", "gpt-4=gpt", "--judge-column", "llama=llama", "--higher", "safe"]
    assert main(["import", "wide.csv", "--study", "wide", *options]) == 0
    study = Study.load("wide")
    assert sorted(study.judges()) == ["gpt-4", "llama"]
    assert study.labels("llama")["label"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.csv", "--study", "a"], "'nowhere.csv' does not exist"),
        (["rows.csv", "--study", "a/b"], "key 'name' is 'a/b'"),
        (["rows.csv", "--study", "published"], "published"),
        (["params", "--study", "a"], "a folder without HELM runs"),
        (["rows.csv", "--study", "a", "--map", "0"], "--map '0': write two words with = between them"),
        (["rows.csv", "--study", "a", "--map", "0=bad"], "scores"),
        (["rows.csv", "--study", "a", "--map", "0=safe", "--map", "0=harmful"], "--map says twice"),
        (["rows.csv", "--study", "a", "--cuts", "x"], "--cuts 'x'"),
        (["rows.csv", "--study", "a", "--cuts", "0.5"], "scores.higher"),
        (["rows.csv", "--study", "a", "--column", "scroe=score"], "score"),
        (["rows.csv", "--study", "a", "--column", "score=verdict"], "verdict"),
    ],
)
def test_a_refused_import_is_one_line_and_leaves_nothing(root, capsys, arguments, said):
    before = written(root)
    assert main(["import", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1
    assert written(root) == before and not (root / "runs").exists()


def test_a_refusal_names_the_options_that_say_the_keys(root, capsys):
    (root / "other.csv").write_text("suite;instance_id;model;judge;score\ns;1;m;j;0.2\n", "utf-8")
    said = []
    for options in ([], ["--delimiter", ";"], ["--delimiter", ";", "--higher", "safe", "--cuts", "0.3"]):
        main(["import", "other.csv", "--study", "other", *options])
        said.append(capsys.readouterr().err.strip())
    assert said[0].endswith("(as options here: --delimiter)")
    assert said[1].endswith("(as options here: --map VALUE=MEANING)")
    assert said[2] == ""
    (root / "other.csv").write_text("instance_id,model,judge,score\n1,m,j,0.5\n", "utf-8")
    main(["import", "other.csv", "--study", "more"])
    assert "(as options here: --column OURS=THEIRS, --suite NAME)" in capsys.readouterr().err


def test_a_params_file_that_says_something_else_is_kept(root, capsys):
    (root / "params" / "mine.yaml").write_text("study: {name: mine, kind: imported, judged_csv: rows.csv}\n", "utf-8")
    assert main(["import", "rows.csv", "--study", "mine"]) == 2
    assert "says something else" in capsys.readouterr().err
    assert "judged_csv" in (root / "params" / "mine.yaml").read_text("utf-8")


@pytest.mark.parametrize("name", ["rows.csv", "./rows.csv", "some folder/replies.jsonl", "x.parquet"])
def test_collecting_a_table_offers_the_import(root, capsys, name):
    assert main(["collect", name]) == 2
    assert "slmsafety import" in capsys.readouterr().err


def test_a_path_outside_the_project_is_kept_whole(root, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "rows.csv"
    elsewhere.write_text(HEADER + ROWS, "utf-8")
    assert main(["import", str(elsewhere), "--study", "mine"]) == 0
    params = yaml.safe_load((root / "params" / "mine.yaml").read_text("utf-8"))
    assert params["study"]["judged_tables"] == [{"path": str(elsewhere)}]


@pytest.mark.parametrize("dry", [["--dry-run"], []])
def test_what_is_understood_of_a_file_cannot_steer_a_terminal(root, capsys, dry):
    name = "odd\x1b[31m\u202e\n.csv"
    table = HEADER.replace("suite", "note\x1b]0;\u202e,suite") + ROWS.replace("mine", "x,mine")
    (root / name).write_text(table, "utf-8")
    assert main(["import", name, "--study", "odd", *dry]) == 0
    said = capsys.readouterr().out
    assert r"odd\x1b[31m\u202e\n.csv" in said and r"note\x1b]0;\u202e" in said
    assert not {"\x1b", "\u202e"} & set(said)


def test_labels_read_otherwise_than_they_were_imported_are_not_shown(root, capsys):
    """A changed scale without another import would show the labels of before."""
    assert main(["import", "rows.csv", "--study", "mine"]) == 0
    params = root / "params" / "mine.yaml"
    params.write_text(params.read_text("utf-8") + "  scores: {higher: harmful}\n", "utf-8")
    with pytest.raises(InputError, match=r"read its sources otherwise.*run: slmsafety collect mine"):
        Study.load("mine").outcomes()
    assert main(["collect", "mine"]) == 0
    assert Study.load("mine").labels()["label"].tolist() == [2, 1, 0]


def test_other_changes_of_a_study_need_no_import(root):
    assert main(["import", "rows.csv", "--study", "mine"]) == 0
    params = root / "params" / "mine.yaml"
    params.write_text(params.read_text("utf-8") + "  empty: ambiguous\n  seed: 3\n", "utf-8")
    assert Study.load("mine").labels()["label"].tolist() == [0, 1, 2]
