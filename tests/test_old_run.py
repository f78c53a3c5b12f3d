"""A study of before the package was laid out anew is read for ever: every table, a journal, a mapping, two judges.

tests/data/old_run holds what `collect` and `labels` of that day wrote, from a server that answered with our own texts.
"""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path

import pandas as pd
import pytest

from slmsafety.judging import refusal_rules
from slmsafety.records.schema import STATUSES
from slmsafety.study import Study

OLD = Path(__file__).parent / "data/old_run"
KEY = ["judge", "suite", "model", "instance_id"]


@pytest.fixture
def study(tmp_path, monkeypatch):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "5.24.0" if name == "transformers" else real(name))
    now = refusal_rules.definition()
    then = {**{key: value for key, value in now.items() if key != "language"}, "version": 1}
    monkeypatch.setattr(refusal_rules, "definition", lambda: then)  # version 2 abstains from other languages
    root = tmp_path / "root"
    shutil.copytree(OLD, root)
    monkeypatch.setenv("SLMSAFETY_ROOT", str(root))
    return Study.load(root / "study.yaml")


def test_its_work_is_done(study):
    status = study.status()
    assert len(status) == 20
    assert status[["missing", "failed"]].to_numpy().sum() == 0


def test_its_labels_are_those_of_then(study):
    """Those of the rules, part of them from a journal with a torn end, and those that the mapping makes."""
    then = pd.read_csv(OLD / "labels.csv").astype({"label": "Int64"})
    now = pd.concat([study.labels(judge) for judge in study.judges()])
    now = now[[*KEY, "status", "label"]].sort_values(KEY, ignore_index=True)
    then = then.sort_values(KEY, ignore_index=True)[[*KEY, "status", "label"]]
    pd.testing.assert_frame_equal(now, then, check_dtype=False)
    assert (then["judge"] == "smollm2_reads").sum() == 40
    fitted = {path.name for path in (OLD / "runs/old_run/mappings/smollm2_reads").iterdir()}
    assert {path.name for path in (study.folder / "mappings/smollm2_reads").iterdir()} == fitted, "fitted anew"


def test_collecting_goes_on_where_it_stopped(study, capsys):
    """Nothing is made again, nobody is asked, and the journal is folded."""
    study.collect()
    printed = capsys.readouterr().out
    assert "1 torn record(s) dropped" in printed
    assert not [line for line in printed.splitlines() if " new, " in line and ": 0 new, " not in line]
    assert (study.folder / "judgments/demo_framed/refusal_rules/tiny-b.parquet").exists()


def test_its_metrics_and_replies_are_read(study):
    assert len(study.table("prompts")) == 20
    assert len(study.table("responses")) == len(study.table("reply_metrics")) == 40
    assert study.table("prompt_metrics")["flesch_kincaid"].notna().all()
    assert study.outcomes().set_index(["suite", "model"]).loc[("demo_direct", "tiny-b"), "hcr"] == pytest.approx(2 / 9)


def test_the_languages_of_its_replies_are_not_known_and_are_no_zeros(study):
    found = study.outcomes()
    assert found["n_other_language"].isna().all()
    assert found["n_unknown_language"].sum() == found[[f"n_{status}" for status in STATUSES]].to_numpy().sum() > 0
    study.collect()
    assert study.table("prompts", ["language"])["language"].eq("en").mean() > 0.9
    assert study.outcomes()["n_other_language"].isna().all()


def test_the_judge_of_now_reads_its_replies_as_the_one_of_then(study, monkeypatch):
    then = study.labels("refusal_rules")
    monkeypatch.undo()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(study.root))
    again = Study.load(study.root / "study.yaml")
    again.collect(["judge"])
    now = again.table("judgments", ["judge", "judge_id", "status", "label"])
    now = now[now["judge"] == "refusal_rules"]
    assert not set(now["judge_id"]) & set(then["judge_id"])
    key = ["suite", "model", "instance_id"]
    assert now.set_index(key)["label"].to_dict() == then.set_index(key)["label"].to_dict()
