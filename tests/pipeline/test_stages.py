"""What a user may ask of a study of each kind; what is refused leaves no folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slmsafety.cli import main
from slmsafety.errors import InputError
from slmsafety.params.study import load_params
from slmsafety.pipeline.stages import STAGES, chosen_stages, stages_of
from slmsafety.study import Study

MODEL = "smollm2-135m-it-q4"
OWN = {"name": "mine", "kind": "run", "suites": ["demo_direct"], "models": [MODEL], "judges": ["refusal_rules"]}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "params").mkdir()
    (tmp_path / "judged.csv").write_text("suite,instance_id,model,judge,score\nmine,1,m,rater,0\nmine,2,m,rater,1\n")
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    return tmp_path


def _study(kind: str, **more: Any) -> dict[str, Any]:
    if kind == "published":
        return {"name": "published", "kind": "published"}
    return (
        {**OWN, **more}
        if kind == "run"
        else {"name": "mine", "kind": "imported", "judged_csv": "judged.csv", "scores": {"higher": "safe"}}
    )


def test_stages_run_in_their_order_once() -> None:
    params = load_params(_study("run"))
    assert chosen_stages(params) == stages_of(params) == STAGES
    assert chosen_stages(params, ["judge", "prompts", "judge"]) == ("prompts", "judge")
    assert chosen_stages(params, None, ["unparsed"]) == STAGES


@pytest.mark.parametrize(
    ("kind", "stages", "retry", "problem"),
    [
        ("run", ["jugde"], [], "unknown stage 'jugde'; did you mean 'judge'?"),
        ("run", ["import"], [], "unknown stage 'import'; valid: generate, judge, metrics, prompts"),
        ("run", None, ["ok"], "unknown status to retry 'ok'; valid: abstained, empty_response"),
        ("run", ["metrics"], ["unparsed"], "'unparsed' is to be retried, which means judging again; the stage 'judge'"),
        ("run", [""], [], "unknown stage ''; valid"),
        ("imported", ["generate"], [], "unknown stage 'generate' in a study of kind 'imported'; valid: import"),
        ("imported", ["prompts", "import"], [], "unknown stage 'prompts' in a study of kind 'imported'"),
        ("imported", None, ["unparsd"], "unknown status to retry 'unparsd'; did you mean 'unparsed'?"),
        ("published", ["judge"], [], "is of kind 'published': it has no stages, and no 'judge'"),
        ("published", None, ["unparsed"], "a study of kind 'published' has no stage 'judge'"),
    ],
)
def test_what_means_nothing_is_refused_and_leaves_no_folder(
    kind: str, stages: list[str] | None, retry: list[str], problem: str, root: Path
) -> None:
    with pytest.raises(InputError) as caught:
        Study.load(_study(kind)).collect(stages, retry)
    assert problem in str(caught.value)
    assert not (root / "runs").exists()


@pytest.mark.parametrize("stage", ["generate", "judge", "metrics"])
def test_a_stage_without_prompts_says_so_and_leaves_no_folder(stage: str, root: Path) -> None:
    with pytest.raises(InputError, match="suite 'demo_direct' has no prompts in mine yet; run the stage 'prompts'"):
        Study.load(_study("run")).collect([stage])
    assert not (root / "runs").exists()


def test_a_suite_that_does_not_load_leaves_no_folder(root: Path) -> None:
    (root / "planes.csv").write_text("question\nWhy?\n")
    with pytest.raises(InputError, match=r"planes\.csv"):
        Study.load(_study("run", suites=[{"name": "planes", "path": "planes.csv"}])).collect()
    assert not (root / "runs").exists()


@pytest.mark.parametrize("stage", ["judge", "metrics"])
def test_a_stage_without_replies_says_so_in_one_line(
    stage: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "params/mine.yaml").write_text(json.dumps({"study": OWN}))
    assert main(["collect", "mine", "--stage", "prompts"]) == 0
    before = sorted(root.rglob("*"))
    capsys.readouterr()
    assert main(["collect", "mine", "--stage", stage]) == 2
    out, err = capsys.readouterr()
    assert err == ("slmsafety: study mine has no replies under these settings yet; run the stage 'generate' first\n")
    assert out == ""
    assert sorted(root.rglob("*")) == before


def test_a_model_without_replies_is_named_and_the_others_are_judged(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Study.load(OWN).collect(["prompts"])
    study = Study.load({**OWN, "models": [MODEL, "gpt2-small"]})
    _answer(study, MODEL)
    study.collect(["judge"])
    assert "gpt2-small has no replies to demo_direct yet: none is judged or measured" in capsys.readouterr().out
    state = study.status().set_index(["stage", "model"])
    assert state.loc[("judge refusal_rules", MODEL), ["done", "missing", "ok"]].tolist() == [52, 0, 52]
    assert state.loc[("judge refusal_rules", "gpt2-small"), ["done", "missing", "ok"]].tolist() == [0, 52, 0]


def _answer(study: Study, model: str, text: str = "Red is warm.") -> None:
    """Write a reply to every prompt, as the stage generate would."""
    run, suite = study.run, "demo_direct"
    rows = run.stored_prompts(suite)[["suite", "instance_id"]].assign(
        model=model, generation_id=run.generation_ids[suite, model], response=text, prompt_tokens=1, output_tokens=1
    )
    rows = rows.assign(finish_reason="stop" if text else "empty", prompt_truncated=False, meta="{}")
    run.responses(suite, model).replace(rows)


# ---- status


def test_status_counts_what_a_judges_rows_ended_as_and_sums_up(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "params/mine.yaml").write_text(json.dumps({"study": OWN}))
    study = Study.load("mine")
    study.collect(["prompts"])
    _answer(study, MODEL, "")
    study.collect(["judge"])
    state = study.status()
    assert list(state.columns[:6]) == ["stage", "suite", "model", "done", "missing", "failed"]
    assert state["empty_response"].tolist()[-2] == 52
    assert state["ok"].isna().tolist() == [True, True, True, False, True]
    capsys.readouterr()
    assert main(["status", "mine"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["stage", "suite", "model", "done", "missing", "failed", "empty_response"]
    assert lines[-1] == ["total", "156", "104", "0", "52"]


def test_status_of_an_imported_study_before_and_after(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "params/mine.yaml").write_text(json.dumps({"study": _study("imported")}))
    assert main(["status", "mine"]) == 0
    assert capsys.readouterr().out == "study mine: nothing is imported yet; run: slmsafety collect mine\n"
    assert not Study.load("mine").complete()
    assert main(["collect", "mine", "--stage", "import"]) == 0
    capsys.readouterr()
    assert main(["status", "mine"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["stage", "suite", "model", "done", "missing", "failed", "ok"],
        ["import", "mine", "2", "0", "0"],
        ["import", "mine", "m", "2", "0", "0"],
        ["judge", "rater", "mine", "m", "2", "0", "0", "2"],
        ["total", "6", "0", "0", "2"],
    ]
