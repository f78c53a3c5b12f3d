from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
from helm_folder import air, gpt, state, write_run

from slmsafety.errors import InputError
from slmsafety.study import Study


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose relative paths start at `tmp_path`."""
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    return tmp_path


def _study(**keys: Any) -> Study:
    return Study.load({"name": "mine", "kind": "imported", **keys})


def _sst_file(path: Path, prompts: dict[str, str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["id", "harm_area", "counter", "category", "prompts_final"])
        writer.writerows([name, "Area", "1", "Kind", text] for name, text in prompts.items())
    return path


def test_sst_gets_its_own_ids_by_the_prompts_text(root: Path) -> None:
    # HELM's order is another one than the file's: a position would take the wrong prompt.
    states = [state("sst", f"id{i}", gpt(score), prompt=f"Question {i}?") for i, score in enumerate([0.0, 0.5, 1.0])]
    write_run(root / "run", "sst", states)
    _sst_file(root / "sst.csv", {"sst_001": "Question 2?", "sst_002": "Question 0?", "sst_003": "Question 1?"})
    study = _study(helm_runs=["run"], suites=[{"name": "sst", "path": "sst.csv"}])
    study.collect()
    labels = study.labels().set_index("instance_id")
    assert labels["label"].to_dict() == {"sst_001": 2, "sst_002": 0, "sst_003": 1}
    assert labels["category"].unique().tolist() == ["Area"]
    assert study.table("responses")["instance_id"].tolist() == ["sst_001", "sst_002", "sst_003"]
    assert study.table("prompts")["suite_revision"].str.len().unique().tolist() == [12]


def test_without_the_suite_helms_positions_stay(root: Path) -> None:
    write_run(root / "run", "sst", [state("sst", "id7", gpt(1.0))])
    study = _study(helm_runs=["run"])
    study.collect()
    assert study.table("prompts")["instance_id"].tolist() == ["id7"]


@pytest.mark.parametrize(
    ("prompts", "problem"),
    [
        ({"sst_001": "Something else?"}, "the prompt of instance 'id0' is not in the study's file of suite 'sst'"),
        ({"sst_001": "Question id0?", "sst_002": "Question id0?"}, "the prompt of instance 'id0' is not in"),
    ],
)
def test_a_prompt_that_is_not_there_once_is_refused(prompts: dict[str, str], problem: str, root: Path) -> None:
    write_run(root / "run", "sst", [state("sst", "id0", gpt(1.0))])
    _sst_file(root / "sst.csv", prompts)
    with pytest.raises(InputError, match=problem):
        _study(helm_runs=["run"], suites=[{"name": "sst", "path": "sst.csv"}]).collect()
    assert not (root / "runs").exists()


def test_equal_prompts_are_told_apart_by_id_or_subcategory(root: Path) -> None:
    write_run(root / "run", "sst", [state("sst", "sst_002", gpt(1.0), prompt="Same?")])
    _sst_file(root / "sst.csv", {"sst_001": "Same?", "sst_002": "Same?"})
    study = _study(helm_runs=["run"], suites=[{"name": "sst", "path": "sst.csv"}])
    study.collect()
    assert study.table("prompts")["instance_id"].tolist() == ["sst_002"]


def _scored(root: Path, name: str, scores: dict[str, float]) -> Path:
    fields = {"cate_idx": "1.1.1", "l2_name": "L2", "l3_name": "L3", "l4_name": "Level four", "response": "No."}
    rows = [{**fields, "prompt": [{"prompt": text}], "reason": "r", "score": score} for text, score in scores.items()]
    (root / name).write_text(json.dumps(rows), encoding="utf-8")
    return root / name


def _entry(path: str, **more: str) -> dict[str, str]:
    return {"path": path, "judge": "rater", "model": "other", "polarity": "post_swap", **more}


def test_the_sources_of_a_study_are_read_together(root: Path) -> None:
    write_run(root / "old", "airbench", [state("airbench", "id0", air(1.0)), state("airbench", "id1", air(0.0))])
    _scored(root, "scored.json", {"A?": 1.0, "B?": 0.5})
    (root / "judged.csv").write_text(
        "suite,instance_id,model,judge,score\nmine,1,m,rater,0\nmine,2,m,rater,0.5\n", encoding="utf-8"
    )
    study = _study(
        helm_runs=[{"path": "old", "model": "gpt2-small", "polarity": "pre_swap"}],
        airbench_scored=[_entry("scored.json")],
        judged_csv="judged.csv",
    )
    study.collect()
    counts = study.coverage().set_index(["model_name", "judge"])["ok"].to_dict()
    assert counts == {("GPT-2 Small", "gpt-4o-2024-05-13"): 2, ("other", "rater"): 2, ("m", "rater"): 2}
    assert study.labels("gpt-4o-2024-05-13").set_index("instance_id")["label"].to_dict() == {"id0": 0, "id1": 2}
    before = [path.read_bytes() for path in sorted((root / "runs/mine/imports/1").rglob("*.parquet"))]
    study.collect()
    assert [path.read_bytes() for path in sorted((root / "runs/mine/imports/2").rglob("*.parquet"))] == before
    assert len([name for name in study.inputs() if name.endswith(".parquet")]) == len(before)


def test_two_judges_of_the_same_replies_share_them(root: Path) -> None:
    _scored(root, "a.json", {"A?": 1.0, "B?": 0.5})
    _scored(root, "b.json", {"A?": 1.0, "B?": 0.0})
    study = _study(airbench_scored=[_entry("a.json"), _entry("b.json", judge="second")])
    study.collect()
    assert len(study.table("responses")) == 2
    assert study.judges() == ["rater", "second"]
    first, second, *_ = study.compared.pair()
    assert (first, second) == ("rater", "second")


def test_a_judgment_from_two_files_is_refused(root: Path) -> None:
    _scored(root, "a.json", {"A?": 1.0})
    _scored(root, "b.json", {"A?": 0.0})
    with pytest.raises(
        InputError, match=r"b\.json: .*a\.json has the same judgment for airbench, \w+, other, .*leave one"
    ):
        _study(airbench_scored=[_entry("a.json"), _entry("b.json")]).collect()
    assert not (root / "runs").exists()


@pytest.mark.parametrize(
    ("head", "row", "problem"),
    [
        (
            "response",
            "x",
            "b.csv: says no prompt for s, 1, and {root}/a.csv does; give it in both, or both in one file",
        ),
        ("prompt", "p", "b.csv: says no response for s, 1, m, 0, and {root}/a.csv does; give it in both"),
        ("prompt,response", "p,", "b.csv: {root}/a.csv has a reply of another run for s, 1, m, 0; leave one out"),
    ],
)
def test_a_text_that_one_source_lacks_is_named(root: Path, head: str, row: str, problem: str) -> None:
    (root / "a.csv").write_text("suite,instance_id,model,judge,score,prompt,response\ns,1,m,j,0.5,p,x\n")
    (root / "b.csv").write_text(f"suite,instance_id,model,judge,score,{head}\ns,1,m,k,0.5,{row}\n")
    with pytest.raises(InputError) as caught:
        _study(judged_tables=["a.csv", "b.csv"]).collect()
    assert problem.replace("{root}", str(root)) in str(caught.value)


def test_a_file_that_is_named_twice_is_refused(root: Path) -> None:
    (root / "a.csv").write_text("suite,instance_id,model,judge,score\ns,1,m,j,0.5\n")
    with pytest.raises(InputError, match=r"a\.csv: has the same judgment .* twice; where the study names it twice"):
        _study(judged_csv="a.csv", judged_tables=["a.csv"]).collect()


def test_another_reply_of_the_same_model_is_refused(root: Path) -> None:
    write_run(root / "a", "sst", [state("sst", "id0", gpt(1.0))])
    write_run(root / "b", "sst", [state("sst", "id0", gpt(1.0), text="Another reply.")])
    with pytest.raises(InputError, match="has a reply of another run for sst, id0, acme_slm-a, 0"):
        _study(helm_runs=["a", "b"]).collect()


def test_two_runs_of_a_model_with_other_settings_are_not_mixed(root: Path) -> None:
    for name in ("a", "b"):
        write_run(root / name, "sst", [state("sst", "id0", gpt(1.0))])
    spec = json.loads((root / "b/run_spec.json").read_text())
    spec["adapter_spec"]["max_tokens"] = 9
    (root / "b/run_spec.json").write_text(json.dumps(spec))
    with pytest.raises(InputError, match="has the same judgment for sst, id0, acme_slm-a"):
        _study(helm_runs=["a", "b"]).collect()
    study = _study(helm_runs=["a", {"path": "b", "model": "renamed"}])
    study.collect()
    assert study.outcomes()["model"].tolist() == ["acme_slm-a", "renamed"]


def test_another_prompt_under_an_id_is_refused(root: Path) -> None:
    write_run(root / "a", "sst", [state("sst", "id0", gpt(1.0))])
    write_run(root / "b", "sst", [state("sst", "id0", gpt(1.0), prompt="Other?")])
    with pytest.raises(InputError, match="has another prompt or expected for sst, id0"):
        _study(helm_runs=["a", {"path": "b", "model": "second"}]).collect()


def test_rows_of_a_source_that_is_gone_are_gone(root: Path) -> None:
    for name in ("a", "b"):
        write_run(root / name, "sst", [state("sst", "id0", gpt(1.0))])
    entries = [{"path": "a", "model": "first"}, {"path": "b", "model": "second"}]
    study = _study(helm_runs=entries)
    study.collect()
    assert study.outcomes()["model"].tolist() == ["first", "second"]
    study = _study(helm_runs=entries[:1])
    study.collect()
    assert study.outcomes()["model"].tolist() == ["first"]


def test_the_policy_on_empty_replies_reaches_the_import(root: Path) -> None:
    write_run(root / "run", "sst", [state("sst", "id0", gpt(0.5), text=" "), state("sst", "id1", gpt(1.0))])
    found = {}
    for empty in ("missing", "judge", "harmful"):
        study = _study(helm_runs=["run"], empty=empty)
        study.collect()
        row = study.outcomes().iloc[0]
        found[empty] = (row["n"], row["hcr"], row["ar"], row["n_empty_response"])
    assert found == {"missing": (1, 0.0, 0.0, 1), "judge": (2, 0.0, 0.5, 0), "harmful": (2, 0.5, 0.0, 1)}


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "needs one of the keys judged_csv, judged_tables, helm_runs"),
    ({"helm_runs": ["nowhere"]}, "path 'nowhere' does not exist"),
    (
        {"helm_runs": [{"path": "params", "polarty": "pre_swap"}]},
        "unknown key 'polarty' in parameter study; did you mean 'polarity'",
    ),
    (
        {"helm_runs": [{"path": "params", "polarity": "swapped"}]},
        "key 'helm_runs.0.polarity' is 'swapped'; input should be",
    ),
    (
        {"airbench_scored": [{"path": "params", "judge": "j", "model": "m"}]},
        "key 'airbench_scored.0.polarity' is missing",
    ),
    ({"helm_runs": ["params"], "suites": [{"name": "sst", "limit": 5}]}, "a suite has a name and a path only"),
    (
        {"helm_runs": ["params"], "generation": {"dtype": "float16"}},
        "key 'generation' means nothing in a study of kind 'imported'",
    ),
]


@pytest.mark.parametrize(("keys", "problem"), BAD, ids=[problem for _, problem in BAD])
def test_bad_keys_are_named_before_anything_is_read(keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        _study(**keys)
    assert problem in str(caught.value)


def test_helm_runs_mean_nothing_in_an_own_run() -> None:
    keys = {"suites": ["demo_direct"], "models": ["gpt2-small"], "judges": ["refusal_rules"], "helm_runs": ["params"]}
    with pytest.raises(InputError, match="key 'helm_runs' means nothing in a study of kind 'run'"):
        Study.load({"name": "own", "kind": "run", **keys})


def test_a_suite_that_no_run_holds_is_named(root: Path) -> None:
    write_run(root / "run", "sst", [state("sst", "id0", gpt(1.0))])
    with pytest.raises(InputError, match="unknown suite 'harmbench' in the study's runs; "):
        _study(helm_runs=["run"], suites=["harmbench"]).collect()


@pytest.mark.skipif("SLMSAFETY_DATA" not in os.environ, reason="SLMSAFETY_DATA is not set")
def test_the_public_files_make_one_study() -> None:
    folder = "$SLMSAFETY_DATA/airbench/responses"
    files = [
        "llama-3-8b_gpt-4o_scored.json",
        "gpt-4-turbo_gpt-4o_scored.csv",
        "qwen3.5-35b_claude-sonnet-4_scored.json",
    ]
    study = _study(
        helm_runs=[{"path": f"{folder}/helm_run1_gpt-4o", "polarity": "pre_swap"}],
        airbench_scored=[_entry(f"{folder}/{name}", model=name[:12], judge="rater") for name in files],
        judges=["rater"],
    )
    study.collect()
    counts = {name: len(study.table(name)) for name in ("prompts", "responses", "judgments")}
    assert counts == {"prompts": 237, "responses": 250, "judgments": 250}
    assert study.coverage()["ok"].sum() == 250
    rates = study.outcomes().set_index("model")[["n", "srr"]]
    assert rates.loc["llama-3-8b_g"].tolist() == [80, 0.8]
