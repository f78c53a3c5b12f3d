"""A study read back: what it offers, its labels and outcomes, and what it says when something is not there."""

from __future__ import annotations

import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.params.study import injected_names
from slmsafety.records.ids import text_id
from slmsafety.study import Study
from slmsafety.study.listing import list_models, list_suites

JUDGED = """suite,instance_id,model,judge,prompt,response,score,expected,status,reason
a,1,m1,j1,p1,r1,0,refuse,ok,
a,2,m1,j1,p2,r2,0.5,refuse,ok,
a,3,m1,j1,p3,r3,1,refuse,ok,
a,4,m1,j1,p4,,,refuse,empty_response,
a,5,m1,j1,p5,r5,1,answer,ok,refusal
a,1,m2,j1,p1,r1,1,refuse,ok,
a,2,m2,j1,p2,r2,0.7,refuse,off_scale,
a,3,m2,j1,p3,r3,1,refuse,ok,
a,1,m1,j2,p1,r1,0.5,refuse,ok,
a,2,m1,j2,p2,r2,0.5,refuse,ok,
a,3,m1,j2,p3,r3,0,refuse,ok,
"""


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """A function that imports the judged rows above with further parameters and returns the study."""
    (tmp_path / "params").mkdir()
    (tmp_path / "judged.csv").write_text(JUDGED)
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))

    def load(**more):
        study = Study.load({"name": "mine", "kind": "imported", "judged_csv": "judged.csv", **more})
        study.collect()
        return study

    return load


def test_imported_outcomes_count_what_is_missing(imported):
    outcomes = imported().outcomes().set_index("model")
    first = outcomes.loc["m1"]
    assert first[["n", "hcr", "ar", "srr", "mean"]].tolist() == pytest.approx([3, 1 / 3, 1 / 3, 1 / 3, 0.5])
    assert first[["n_ok", "n_empty_response"]].tolist() == [3, 1]
    assert outcomes.loc["m2", ["n", "srr", "n_off_scale"]].tolist() == [2, 1.0, 1]


@pytest.mark.parametrize(
    ("empty", "srr", "ar", "hcr"), [("safe", 2, 1, 1), ("ambiguous", 1, 2, 1), ("harmful", 1, 1, 2)]
)
def test_empty_replies_are_read_by_the_policy(imported, empty, srr, ar, hcr):
    row = imported(empty=empty).outcomes().set_index("model").loc["m1"]
    assert row[["n", "srr", "ar", "hcr"]].tolist() == pytest.approx([4, srr / 4, ar / 4, hcr / 4])
    assert row["n_empty_response"] == 1


def test_an_import_offers_labels_two_judges_and_controls(imported):
    study = imported()
    assert study.capabilities >= {"labels", "rates", "ranked", "two_judges", "reference", "controls"}
    assert not study.capabilities & {"metrics", "predictions", "common_models", "choices", "human_labels", "mappings"}
    assert study.judges() == ["j1", "j2"]
    pair = study.compared.pair()
    assert (pair.first, pair.second) == ("j1", "j2")
    (counts,) = pair.counts.values()
    assert counts.tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0]]


def test_a_study_chooses_the_judge_that_its_figures_use(imported):
    study = imported(judges=["j2"])
    assert study.judges() == ["j2", "j1"]
    assert study.outcomes()["ar"].tolist() == pytest.approx([2 / 3])


def test_refusals_of_controls_are_unknown_without_reasons(imported, tmp_path):
    lines = [line.rsplit(",", 1)[0] for line in JUDGED.splitlines()]
    (tmp_path / "judged.csv").write_text("\n".join(lines) + "\n")
    assert "controls" not in imported().capabilities


def test_an_unknown_judge_gets_the_nearest(imported):
    with pytest.raises(InputError, match="unknown judge 'j3' in study mine; valid: j1, j2"):
        imported().labels("j3")


def test_hand_labels_apply_only_to_the_reply_that_was_labelled(imported, tmp_path):
    rows = [("a", "1", "m1", 0, text_id("r1")), ("a", "2", "m1", 2, text_id("another text"))]
    labels = pd.DataFrame(rows, columns=["suite", "instance_id", "model", "human", "reply_id"])
    labels.to_csv(tmp_path / "human.csv", index=False)
    study = imported(human_labels="human.csv")
    assert study.human_labels()["matches"].tolist() == [True, False]
    assert "human_labels" in study.capabilities


def test_a_study_without_rows_says_what_to_run(tmp_path, monkeypatch):
    (tmp_path / "params").mkdir()
    (tmp_path / "judged.csv").write_text(JUDGED)
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    study = Study.load({"name": "mine", "kind": "imported", "judged_csv": "judged.csv"})
    with pytest.raises(InputError, match="study mine has no judgments yet; run: slmsafety collect mine"):
        study.outcomes()


def test_the_published_study_has_no_rows():
    study = Study.load("published")
    with pytest.raises(InputError, match="the paper prints no instance-level rows"):
        study.labels()
    assert study.capabilities >= {"printed", "rates", "predictions", "common_models", "two_judges", "model_features"}
    assert not study.capabilities & {"labels", "metrics", "human_labels", "controls", "choices"}
    assert set(study.inputs()) >= {"published/table_a1.csv", "published/table6_confusion.csv", "models/cards.csv"}
    assert len(study.inputs()["published/table_a1.csv"]) == 64


def test_the_published_study_names_its_models_and_suites():
    outcomes = Study.load("published").outcomes()
    assert set(outcomes["suite_title"]) == {"AirBench", "SALAD", "HarmBench"}
    row = outcomes[(outcomes["model_name"] == "GPT-2 Small") & (outcomes["suite"] == "airbench")].iloc[0]
    assert (row["family"], row["params_m"], row["ar"], row["n"]) == ("GPT-2", 124, 0.69, 5694)


def test_models_and_suites_are_listed():
    assert len(list_models()) == 28
    assert {"demo_direct", "harmbench", "sst", "airbench", "salad", "bbq"} <= set(list_suites()["suite"])


def test_only_what_papermill_injected_is_a_parameter():
    namespace = {"In": ["", "study = 1", '# Parameters\nstudy = "demo"\nresample = 3\n'], "n": 5, "resample": 3}
    assert injected_names(namespace) == ["study", "resample"]
    with pytest.raises(InputError, match="unknown parameter 'resample' in this notebook; did you mean 'resamples'"):
        Study.load("published", namespace, "resamples")


def test_features_know_what_a_study_says_of_its_own_models():
    own = {"id": "mine", "hub": "some/model", "base_or_tuned": "tuned", "year": 2025, "params_m": 70}
    given = {"name": "mine", "kind": "run", "suites": ["sst"], "judges": ["refusal_rules"]}
    found = Study.load({**given, "models": [own, {"id": "silent", "hub": "some/other"}]}).true_features()
    assert found.loc["mine"].dropna().to_dict() == {"Tuned": 1, "Params": 70, "Year": 2025}
    assert found.loc["silent"].isna().all() and found.loc["gpt2-small", "Tuned"] == 0
