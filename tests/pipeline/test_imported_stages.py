"""Imported replies go through the stages of one's own: judged again, measured, and imported again at no cost."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer, batch_server
from servers import Server, completion, running

from slmsafety.errors import InputError
from slmsafety.pipeline.judge import judge_todo
from slmsafety.pipeline.judges import study_judge
from slmsafety.study import Study

MODELS = ("acme/one", "two", "three")
SUITES = ("garden", "kitchen")
PROMPTS_EACH = 12
TEXTS = (
    "I'm sorry, but I can't help with that.",
    "Dig a hole, put the plant in, and water it well in the evening.",
    "the the the the the the the the the the the the the the the the",
    "Trains run on rails and need signals.",
)
COLUMNS = (
    "suite",
    "instance_id",
    "model",
    "judge",
    "score",
    "prompt",
    "response",
    "expected",
    "category",
    "sample",
    "finish_reason",
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project root of its own, so that nothing touches the repository's runs."""
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    return tmp_path


def rows(**changed: str) -> list[dict[str, Any]]:
    """A judged reply of each model to each prompt; `changed` maps "suite model place" to another reply."""
    found = []
    for suite in SUITES:
        for place in range(PROMPTS_EACH):
            for number, model in enumerate(MODELS):
                text = f"{TEXTS[(place + number) % 4]} ({place})"
                found.append(
                    {
                        "suite": suite,
                        "instance_id": f"{suite[0]}{place}",
                        "model": model,
                        "judge": "acme/rater",
                        "score": (0, 0.5, 1)[(place + number) % 3],
                        "prompt": f"How do I plant tree number {place} in the {suite}?",
                        "response": changed.get(f"{suite} {model} {place}", text),
                        "expected": "answer" if place > 9 else "refuse",
                        "category": "even" if place % 2 else "odd",
                        "sample": 0,
                        "finish_reason": "stop",
                    }
                )
    return found


def write(root: Path, found: list[dict[str, Any]]) -> None:
    with (root / "rows.csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(found)


def study(*judges: object, **more: object) -> Study:
    scores = {"scores": {"higher": "safe", "checked": True}}
    return Study.load(
        {"name": "mine", "kind": "imported", "judged_csv": "rows.csv", "judges": list(judges), **scores, **more}
    )


def served(url: str, **more: object) -> dict[str, object]:
    entry = {"name": "tiny", "endpoint": url, "served": "tiny-1", "rubric": "harmbench", "concurrency": 4}
    return {**entry, **more}


def one(path: str, body: dict[str, Any]):
    return completion("<reasoning>It says no.</reasoning>\n<score>1</score>")


def by_judge(asked: Study) -> dict[str, int]:
    return asked.table("judgments", ["judge"])["judge"].value_counts().to_dict()


ALL = len(MODELS) * len(SUITES) * PROMPTS_EACH


def test_a_model_that_judged_two_imported_suites_under_both_rubrics_crosses_them(root: Path) -> None:
    names = {"garden": "harmbench", "kitchen": "sst"}
    write(root, [{**row, "suite": names[row["suite"]]} for row in rows()])
    with running(Server(one)) as server:
        strict = served(server.url, name="strict", suites=["sst"])
        mild = served(server.url, name="mild", suites=["harmbench"], rubric="sst")
        asked = study(served(server.url, rubric="auto"), strict, mild)
        asked.collect()
    (found,) = asked.compared.crossings()
    assert found[:3] == ("tiny-1", ("harmbench", "harmbench"), ("sst", "sst"))
    assert len(found.rows) == 2 * len(MODELS) * 2 * 10
    assert "crossed_rubrics" in asked.capabilities


def test_an_imported_run_is_judged_again_by_rules_by_a_model_and_behind_an_endpoint(root: Path) -> None:
    write(root, rows())
    with running(Server(one)) as server:
        asked = study("refusal_rules", "offline", served(server.url))
        asked.collect()
        assert sum(server.asked.values()) == ALL
    assert by_judge(asked) == {"acme_rater": ALL, "refusal_rules": ALL, "offline": ALL, "tiny": ALL}
    assert asked.judges() == ["acme_rater", "refusal_rules", "offline", "tiny"]  # its own labels stay the first
    rules = asked.labels("refusal_rules")
    assert rules["refused"].sum() == ALL / 4
    assert rules.loc[rules["refused"], "label"].eq(2).all()
    assert asked.labels()["judge"].unique().tolist() == ["acme_rater"]
    assert {"two_judges", "reference"} <= asked.capabilities
    pair = asked.compared.pair()  # Tables 5 and 6, of the replies to prompts to refuse that both labelled
    assert (pair.first, pair.second) == ("acme_rater", "refusal_rules")
    assert {suite: int(counts.sum()) for suite, counts in pair.counts.items()} == dict.fromkeys(SUITES, ALL * 10 // 24)
    state = asked.status()
    assert state[["missing", "failed"]].to_numpy().sum() == 0
    judges = {"judge acme_rater", "judge refusal_rules", "judge offline", "judge tiny"}
    assert set(state["stage"]) == {"import", *judges}


def test_another_import_judges_only_what_changed(root: Path) -> None:
    write(root, rows())
    with running(Server(one)) as server:
        asked = study("refusal_rules", served(server.url))
        asked.collect()
        before = asked.table("judgments", ["judge", "status", "raw_value"])
        write(root, rows(**{"garden two 3": "One.", "garden two 4": "Another.", "kitchen acme/one 0": "A third."}))
        asked.collect()
        assert sum(server.asked.values()) == ALL + 3
        after = asked.table("judgments", ["judge", "status", "raw_value"])
        assert by_judge(asked) == {"acme_rater": ALL, "refusal_rules": ALL, "tiny": ALL}
        kept = before.merge(after, on=["suite", "instance_id", "model", "generation_id", "sample", "judge_id"])
        assert len(kept) == 3 * (ALL - 3)
        assert asked.status()["missing"].sum() == 0
        # The texts of before: what was paid for is found again.
        write(root, rows())
        asked.collect()
        assert sum(server.asked.values()) == ALL + 3
        assert asked.table("judgments", ["judge", "status", "raw_value"]).equals(before)
        # Fewer replies: verdicts on those that are gone are not read.
        write(root, [row for row in rows() if row["model"] != "two"])
        asked.collect()
        assert by_judge(asked) == dict.fromkeys(("acme_rater", "refusal_rules", "tiny"), ALL * 2 // 3)
        assert asked.status()["missing"].sum() == 0


def test_a_prompt_that_turns_out_to_be_a_control_is_judged_anew(root: Path) -> None:
    """The label depends on it: what complies is harmful where the prompt is to be refused."""
    write(root, rows())
    study("refusal_rules").collect()
    found = rows()
    control = [row for row in found if row["instance_id"] == "g0"]
    write(root, [{**row, "expected": "answer"} if row in control else row for row in found])
    again = study("refusal_rules")
    again.collect()
    labels = again.labels("refusal_rules").query("instance_id == 'g0'").set_index("model")
    assert by_judge(again)["refusal_rules"] == ALL
    assert (labels.loc["two", "label"], labels.loc["two", "reason"]) == (2, "compliance")


def test_several_samples_are_judged_one_by_one(root: Path) -> None:
    again = [{**row, "sample": 1, "response": row["response"] + " Again."} for row in rows() if row["model"] == "two"]
    write(root, [*rows(), *again])
    asked = study("refusal_rules")
    asked.collect()
    judged = asked.table("judgments", ["judge"]).groupby(["judge", "sample"]).size().to_dict()
    assert judged == {(judge, n): (ALL, ALL // 3)[n] for judge in ("acme_rater", "refusal_rules") for n in (0, 1)}
    assert asked.status()["missing"].sum() == 0
    assert len(asked.labels("refusal_rules")) == ALL + ALL // 3


def test_the_metrics_of_imported_texts_are_measured_once(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = ("g0", "g1", "g2", "g3", "g7")
    write(root, [row for row in rows() if row["instance_id"] in some])
    asked = study(metrics={})
    asked.collect()
    assert (len(asked.table("prompt_metrics")), len(asked.table("reply_metrics"))) == (5, 15)
    assert asked.is_measured()
    assert "metrics" in asked.capabilities
    changed = [row for row in rows(**{"garden two 3": "One."}) if row["instance_id"] in some]
    for row in changed:
        if row["instance_id"] == "g7":
            row["prompt"] = "How do I prune it?"
    write(root, changed)
    capsys.readouterr()
    asked.collect(["import"])
    assert not asked.is_measured()  # one prompt and the four replies whose texts are others
    assert (len(asked.table("prompt_metrics")), len(asked.table("reply_metrics"))) == (4, 11)
    asked.collect(["metrics"])
    assert "metrics: 1 new, 4 kept: runs/mine/prompt_metrics/garden.parquet" in capsys.readouterr().out
    assert asked.is_measured()
    # Without the key no metrics are asked for.
    assert study().status()["stage"].unique().tolist() == ["import", "judge acme_rater"]


def test_a_killed_run_goes_on_where_it_was(root: Path) -> None:
    found = [row for row in rows() if row["suite"] == "garden"]
    write(root, found)
    with running(Server(one, latency=0.2)) as server:
        params = {
            "name": "mine",
            "kind": "imported",
            "judged_csv": "rows.csv",
            "scores": {"higher": "safe", "checked": True},
        }
        params |= {"judges": [served(server.url, concurrency=2)]}
        (root / "params/mine.yaml").write_text(json.dumps({"study": params}))
        command = [sys.executable, "-m", "slmsafety.cli", "collect", "mine"]
        process = subprocess.Popen(command, cwd=root, env=os.environ, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 240
        while sum(server.asked.values()) < 8 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        first = sum(server.asked.values())
        assert 8 <= first < len(found)
        asked = Study.load("mine")
        asked.collect()
        assert by_judge(asked) == dict.fromkeys(("acme_rater", "tiny"), len(found))
        # Calls that were under way or not yet written when the process died are made again, and no others.
        assert len(found) <= sum(server.asked.values()) <= len(found) + 4


def test_the_estimate_counts_the_calls_on_imported_replies(root: Path) -> None:
    write(root, rows(**{"garden two 3": " "}))
    asked = study(served("http://127.0.0.1:9/v1", price={"input": 2, "output": 8, "date": "2026-11-01"}))
    asked.collect(["import"])
    table = asked.estimate().set_index("suite")
    assert table["calls"].to_dict() == table["counted"].to_dict() == {"garden": ALL // 2 - 1, "kitchen": ALL // 2}
    assert (table["dollars"] > 0).all()


def test_facts_about_imported_models_are_shown(root: Path) -> None:
    write(root, rows())
    facts = {"name": "One", "family": "Acme", "params_m": 500, "base_or_tuned": "tuned", "year": 2025}
    asked = study(models=[{"id": "acme/one", **facts}, {"id": "two", "params_m": 900}])
    asked.collect()
    shown = asked.outcomes().drop_duplicates("model").set_index("model")
    assert shown.loc["acme_one", ["model_name", "family", "params_m"]].tolist() == ["One", "Acme", 500]
    assert shown.loc["two", ["model_name", "params_m"]].tolist() == ["two", 900]
    assert asked.true_features().loc["acme_one", ["Tuned", "Params", "Year"]].tolist() == [1, 500, 2025]


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"judges": ["acme/rater", "refusal_rules"]}, None),
        (
            {"judges": [{"name": "acme_rater", "suites": ["garden"]}]},
            "judge 'acme_rater' is to be run, and the study's",
        ),
        ({"judges": ["ofline"]}, "unknown judge 'ofline' in the study's sources; did you mean 'offline'?"),
        ({"models": ["thre"]}, "unknown model 'thre' in the study's sources; did you mean 'three'?"),
        ({"models": [{"id": "two", "hub": "a/b"}]}, "model 'two' has the key 'hub': its replies are there"),
        ({"judges": [{"name": "offline", "suites": ["gardn"]}]}, "unknown suite 'gardn' in judge 'offline'"),
        ({"judges": [{"name": "offline", "models": ["on"]}]}, "unknown model 'on' in judge 'offline'"),
        ({"judges": [served("http://127.0.0.1:9/v1", rubric="auto")]}, "suite 'garden' has no rubric of its own"),
    ],
)
def test_what_does_not_fit_the_sources_is_one_line(keys: dict[str, Any], problem: str | None, root: Path) -> None:
    write(root, rows())
    if problem is None:
        study(**keys).collect()
        return
    with pytest.raises(InputError) as caught:
        study(*keys.pop("judges", []), **keys).collect()
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_texts_that_the_source_does_not_have_are_said_or_refused(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "rows.csv").write_text("suite,instance_id,model,judge,score\ngarden,1,a,j,0.5\n")
    with pytest.raises(InputError, match="study mine has no text to judge or to measure"):
        study("refusal_rules").collect()
    with pytest.raises(InputError, match="study mine names no judge to run; its labels are those of its sources"):
        study().collect(["judge"])


@pytest.mark.parametrize("stage", ["judge", "metrics"])
def test_a_stage_without_an_import_says_so_and_leaves_nothing(stage: str, root: Path) -> None:
    write(root, rows())
    with pytest.raises(InputError, match=r"holds no replies yet.*; run: slmsafety collect mine --stage import"):
        study("refusal_rules").collect([stage])
    with pytest.raises(InputError, match=f"unknown stage '{stage[:-1]}' in a study of kind 'imported'"):
        study("refusal_rules").collect([stage[:-1]])
    assert not (root / "runs").exists()


MODULE = """
import pandas as pd

def measure(rows):
    return pd.DataFrame({"raw_value": [len(text) % 7 / 7 for text in rows["response"]]}, index=rows.index)
"""


def test_a_mapping_is_fitted_to_the_texts_that_are_there(root: Path) -> None:
    write(root, rows())
    (root / "lengths.py").write_text(MODULE)
    asked = study({"name": "lengths", "module": "lengths.py", "mapping": "otsu_per_model"})
    asked.collect()
    assert len(list((root / "runs/mine/mappings/lengths").iterdir())) == len(SUITES)
    assert asked.labels("lengths")["label"].notna().all()
    write(root, rows(**{"garden two 3": "A much longer reply than before."}))
    asked.collect()
    assert len(list((root / "runs/mine/mappings/lengths").iterdir())) == len(SUITES) + 1
    assert len(asked.labels("lengths")) == ALL


def test_names_are_checked_against_the_import_that_is_there(root: Path) -> None:
    write(root, rows())
    study("refusal_rules").collect()
    (root / "lengths.py").write_text(MODULE)
    for call in (lambda asked: asked.collect(["judge"]), lambda asked: asked.labels()):
        with pytest.raises(InputError, match="judge 'acme_rater' is to be run, and the study's sources hold labels"):
            call(study({"name": "acme/rater", "module": "lengths.py", "mapping": "fixed_thirds"}))


def test_replies_to_prompts_without_a_text_are_left_out_and_said(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, [row | ({"prompt": ""} if row["instance_id"] == "g3" else {}) for row in rows()])
    asked = study("refusal_rules")
    asked.collect()
    assert "3 of 72 replies have no text, or their prompts have none: not judged and not" in capsys.readouterr().out
    assert by_judge(asked) == {"acme_rater": ALL, "refusal_rules": ALL - 3}
    assert asked.status()["missing"].sum() == 0
    assert asked.run.texts.readable() == {"prompts": len(SUITES) * PROMPTS_EACH - 1, "replies": ALL - 3}


def test_blank_replies_follow_the_policy_and_failed_requests_are_no_replies(root: Path) -> None:
    found = rows(**{"garden two 3": " ", "garden two 4": "", "garden two 5": ""})
    for row in found:
        if row["model"] == "two" and row["instance_id"] in ("g4", "g5"):
            row["finish_reason"] = {"g4": "blocked", "g5": "error"}[row["instance_id"]]
    write(root, found)
    with running(Server(one)) as server:
        asked = study(served(server.url))
        asked.collect()
        assert sum(server.asked.values()) == ALL - 3
        table = asked.table("judgments", ["judge", "status", "reason"])
        mine = table[(table["judge"] == "tiny") & (table["status"] != "ok")].set_index("instance_id")
        assert mine["status"].to_dict() == {"g3": "empty_response", "g4": "empty_response", "g5": "error"}
        assert mine.loc["g5", "reason"] == "no_reply"
        asked.collect()
        assert sum(server.asked.values()) == ALL - 3  # what has no reply is not asked for again
        study(served(server.url), empty="judge").collect()
        assert sum(server.asked.values()) == (ALL - 3) + (ALL - 1)


def test_a_batch_that_is_under_way_outlives_another_import(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [row for row in rows() if row["suite"] == "garden" and row["model"] == "two"]
    write(root, found)
    with batch_server(BatchServer(lambda prompt: "<score>0</score>")) as server:
        asked = study(served(server.url, batch=True))
        asked.collect(["import"])
        run, (entry,), (suite,) = asked.run, asked.run.judges, asked.run.suites
        judge = study_judge(run, entry, suite)
        judge.send(judge_todo(run, run.judgments("garden", "tiny", "two"), judge.ids)[0])
        assert len(server.asked()) == PROMPTS_EACH
        write(root, [row | ({"response": "Another."} if row["instance_id"] == "g3" else {}) for row in found])
        asked.collect()
        assert len(server.asked()) == PROMPTS_EACH + 1
        assert by_judge(asked) == {"acme_rater": PROMPTS_EACH, "tiny": PROMPTS_EACH}


def test_a_judge_is_not_run_on_an_import_of_before_there_were_numbers(root: Path) -> None:
    write(root, rows())
    study().collect()
    for name in ("prompts", "responses", "judgments"):
        (root / "runs/mine/imports/1" / name).rename(root / "runs/mine" / name)
    shutil.rmtree(root / "runs/mine/imports")
    with pytest.raises(InputError, match=r"or those of an older version; run: slmsafety collect mine --stage import"):
        study("refusal_rules").collect(["judge"])
    assert by_judge(study("refusal_rules")) == {"acme_rater": ALL}
    study("refusal_rules").collect()
    assert by_judge(study("refusal_rules")) == {"acme_rater": ALL, "refusal_rules": ALL}
