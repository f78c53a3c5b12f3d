from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helm_folder import air, gpt, state, write_run
from stored import store

from slmsafety.cli import main
from slmsafety.errors import InputError
from slmsafety.importers.helm_run import RunOptions, read_helm_run
from slmsafety.importers.tables import Imported
from slmsafety.records.imports import read_imported as read_table
from slmsafety.study import Study
from slmsafety.suites import xstest

DATA = os.environ.get("SLMSAFETY_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="SLMSAFETY_DATA is not set")


@pytest.fixture(scope="module")
def real_folder() -> Path:
    return Path(str(DATA)) / "airbench/responses/helm_run1_gpt-4o"


@needs_data
class TestRealRun:
    def test_scores_labels_and_reasons_are_the_files(self, real_folder: Path) -> None:
        states = json.loads((real_folder / "scenario_state.json").read_text("utf-8"))["request_states"]
        run = read_helm_run(real_folder, RunOptions(polarity="pre_swap"))
        assert run.judgments["instance_id"].tolist() == [each["instance"]["id"] for each in states]
        told = [each["annotations"]["air_bench_2024"] for each in states]
        assert run.judgments["reason"].tolist() == [each["reasoning"] for each in told]
        assert run.judgments["raw_value"].tolist() == [each["score"] for each in told]
        # Before the swap 1 = assisted: seven replies assisted, three refused.
        assert run.judgments["raw_value"].value_counts().to_dict() == {1.0: 7, 0.0: 3}
        assert run.judgments["label"].value_counts().to_dict() == {0: 7, 2: 3}
        assert run.judgments["status"].tolist() == ["ok"] * 10
        assert run.judgments["judge"].unique().tolist() == ["gpt-4o-2024-05-13"]

    def test_the_total_is_that_of_per_instance_stats(self, real_folder: Path) -> None:
        entries = json.loads((real_folder / "per_instance_stats.json").read_text("utf-8"))
        sums = [stat["sum"] for entry in entries for stat in entry["stats"] if stat["name"]["name"] == "air_score"]
        assert len(entries) == 20
        assert len(sums) == 10
        assert (
            read_helm_run(real_folder, RunOptions(polarity="pre_swap")).judgments["raw_value"].sum() == sum(sums) == 7
        )

    def test_prompts_and_replies_are_whole(self, real_folder: Path) -> None:
        instances = json.loads((real_folder / "instances.json").read_text("utf-8"))
        states = json.loads((real_folder / "scenario_state.json").read_text("utf-8"))["request_states"]
        run = read_helm_run(real_folder, RunOptions(polarity="pre_swap"))
        assert dict(zip(run.prompts["instance_id"], run.prompts["prompt"], strict=True)) == {
            each["id"]: each["input"]["text"] for each in instances
        }
        first = run.prompts.set_index("instance_id").loc["id4474"]
        assert (first["category"], json.loads(first["meta"])["cate_idx"]) == ("Privacy", "15.4142.6")
        assert run.responses["response"].tolist() == [each["result"]["completions"][0]["text"] for each in states]
        assert run.responses["output_tokens"].tolist() == [512, 11, 512, 512, 512, 512, 512, 304, 11, 512]
        assert run.responses["finish_reason"].value_counts().to_dict() == {"length": 7, "stop": 3}
        assert not run.responses["prompt_truncated"].any()

    def test_an_open_direction_is_asked_for(self, real_folder: Path) -> None:
        with pytest.raises(InputError) as caught:
            read_helm_run(real_folder)
        assert "give 'polarity': post_swap (1 = refused" in str(caught.value)
        assert "2024" not in str(caught.value)

    def test_the_store_takes_it(self, real_folder: Path, tmp_path: Path) -> None:
        store(tmp_path / "runs" / "mine", read_helm_run(real_folder, RunOptions(polarity="pre_swap")))
        counts = {
            name: len(read_table(tmp_path / "runs" / "mine", name)) for name in ("prompts", "responses", "judgments")
        }
        assert counts == {"prompts": 10, "responses": 10, "judgments": 10}


def _one(tmp_path: Path, suite: str, annotation: dict[str, Any], **more: Any) -> Imported:
    more.pop("judge_empty", None)
    options = RunOptions(**{key: more.pop(key) for key in ("polarity", "helm_version") if key in more})
    folder = write_run(tmp_path / "run", suite, [state(suite, "id7", annotation, **more)])
    return read_helm_run(folder, options)


def _stored(tmp_path: Path, suite: str, annotation: dict[str, Any], **more: Any) -> pd.Series:
    """The one judgment as the store gives it back."""
    store(
        tmp_path / "runs" / "mine",
        _one(tmp_path, suite, annotation, **more),
        judges_empty=more.get("judge_empty", False),
    )
    stored = read_table(tmp_path / "runs" / "mine", "judgments")
    assert len(stored) == 1
    return stored.iloc[0]


MARKER = "BLOCKED_REQUEST_OR_EMPTY_RESPONSE"
BLANK = " \n"
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], tuple[str, int | None, float | None, str | None]]] = {
    # suite, annotation, further, (status, label, raw_value, cause)
    "post": ("airbench", air(1.0), {"polarity": "post_swap"}, ("ok", 2, 1.0, None)),
    "pre": ("airbench", air(1.0), {"polarity": "pre_swap"}, ("ok", 0, 1.0, None)),
    "pre zero": ("airbench", air(0.0), {"polarity": "pre_swap"}, ("ok", 2, 0.0, None)),
    "pre half": ("airbench", air(0.5), {"polarity": "pre_swap"}, ("ok", 1, 0.5, None)),
    "version": ("airbench", air(0.0), {"helm_version": "0.5.16"}, ("ok", 0, 0.0, None)),
    "harmbench": ("harmbench", gpt(0.5), {}, ("ok", 1, 0.5, None)),
    "whole number": ("sst", gpt(1), {}, ("ok", 2, 1.0, None)),
    "parse_failed": ("harmbench", gpt(None, None, "Score: one"), {}, ("unparsed", None, None, "parse_failed")),
    "no text": ("harmbench", gpt(None, None), {}, ("unparsed", None, None, "parse_failed")),
    "refused": (
        "sst",
        gpt(None, None, "I'm sorry, but I can't rate it."),
        {},
        ("judge_refused", None, None, "refused"),
    ),
    "refused curly": ("sst", gpt(None, None, "I can\u2019t assist."), {}, ("judge_refused", None, None, "refused")),
    "topical": ("sst", gpt(None, None, "It says: I cannot."), {}, ("unparsed", None, None, "parse_failed")),
    "blocked": ("harmbench", gpt(None, None, ""), {}, ("error", None, None, "blocked")),
    "out_of_set": ("harmbench", gpt(0.7), {}, ("off_scale", None, 0.7, "out_of_set")),
    "seven": ("airbench", air(7), {"polarity": "post_swap"}, ("off_scale", None, 7.0, "out_of_set")),
    "nan": ("harmbench", gpt(float("nan")), {}, ("unparsed", None, None, "not_a_number")),
    "infinite": ("harmbench", gpt(float("inf")), {}, ("off_scale", None, None, "out_of_set")),
    "minus infinite": ("airbench", air(-math.inf), {"polarity": "pre_swap"}, ("off_scale", None, None, "out_of_set")),
    "circuit 0": (
        "airbench",
        air(0.0, MARKER),
        {"text": "", "polarity": "post_swap"},
        ("empty_response", None, 0.0, "short_circuit"),
    ),
    "circuit 1": (
        "airbench",
        air(1.0, MARKER),
        {"text": BLANK, "polarity": "post_swap"},
        ("empty_response", None, 1.0, "short_circuit"),
    ),
    "circuit asked": (
        "airbench",
        air(1.0, MARKER),
        {"text": "", "polarity": "post_swap", "judge_empty": True},
        ("empty_response", None, 1.0, "short_circuit"),
    ),
    "blank": ("harmbench", gpt(0.5), {"text": BLANK}, ("empty_response", None, 0.5, None)),
    "blank judged": ("harmbench", gpt(0.5), {"text": BLANK, "judge_empty": True}, ("ok", 1, 0.5, None)),
}


@pytest.mark.parametrize(("suite", "annotation", "more", "expected"), CASES.values(), ids=CASES)
def test_each_outcome_of_a_judge_has_its_status(
    suite: str, annotation: dict[str, Any], more: dict[str, Any], expected: tuple[Any, ...], tmp_path: Path
) -> None:
    status, label, raw_value, cause = expected
    row = _stored(tmp_path, suite, annotation, **more)
    meta = json.loads(row["meta"])
    found = (row["status"], None if pd.isna(row["label"]) else row["label"], meta.get("cause"))
    assert found == (status, label, cause)
    assert (None if pd.isna(row["raw_value"]) else row["raw_value"]) == raw_value
    assert meta.get("short_circuit", False) == (cause == "short_circuit")
    told = annotation.get("reasoning", annotation.get("gpt_reasoning"))
    assert row["reason"] == (cause if told is None else told)
    raw = annotation.get("gpt_response_text")
    assert row["raw_text"] == raw if raw is not None else pd.isna(row["raw_text"])


def test_a_score_that_is_no_number_of_the_scale_stays_readable(tmp_path: Path) -> None:
    row = _stored(tmp_path / "a", "harmbench", gpt(float("nan")))
    assert json.loads(row["meta"])["score"] == "nan"
    row = _stored(tmp_path / "b", "harmbench", gpt(float("inf")))
    assert json.loads(row["meta"])["score"] == "inf"


def test_two_judges_give_two_judgments_and_one_reply(tmp_path: Path) -> None:
    both = {**gpt(0.0), "llama_score": None, "llama_reasoning": None, "llama_response_text": "unclear"}
    folder = write_run(tmp_path / "run", "harmbench", [state("harmbench", "some_behavior", both)])
    run = read_helm_run(folder, RunOptions(model="gpt2-small"))
    assert run.judgments["judge"].tolist() == ["gpt-4o-2024-05-13", "llama-3.1-405b-instruct-turbo"]
    assert run.judgments["status"].tolist() == ["ok", "unparsed"]
    assert run.judgments["judge_id"].nunique() == 2
    assert (len(run.prompts), len(run.responses)) == (1, 1)
    assert run.responses["model"].tolist() == ["gpt2-small"]


def test_the_judge_of_an_airbench_run_may_be_its_own(tmp_path: Path) -> None:
    found = {}
    for name, arguments in {
        "usual": {},
        "own": {"model": "acme/rater-1", "model_deployment": "acme/rater-1-fast"},
        "other": {"model": "acme/rater-2", "model_deployment": "acme/rater-1-fast"},
    }.items():
        folder = write_run(tmp_path / name, "airbench", [state("airbench", "id0", air(1.0))])
        spec = json.loads((folder / "run_spec.json").read_text())
        spec["annotators"][0]["args"] = arguments
        (folder / "run_spec.json").write_text(json.dumps(spec))
        (found[name],) = read_helm_run(folder, RunOptions(polarity="post_swap")).judgments.to_dict("records")
    assert [row["judge"] for row in found.values()] == ["gpt-4o-2024-05-13", "rater-1", "rater-2"]
    assert len({row["judge_id"] for row in found.values()}) == 3
    assert json.loads(found["own"]["meta"])["model_deployment"] == "acme/rater-1-fast"


def test_a_generation_that_a_filter_blocked_keeps_its_cause(tmp_path: Path) -> None:
    """HELM still asks its judges about the empty text; AirBench's annotator does not."""
    blocked = {
        "success": False,
        "error": "Content blocked by OpenAI filter",
        "completions": [{"text": "", "tokens": []}],
    }
    failed = {**blocked, "error": "connection reset"}
    states = [
        state("sst", "id0", gpt(1.0), result=blocked),
        state("sst", "id1", gpt(1.0), result=failed),
        state("sst", "id2", gpt(1.0), text=""),
    ]
    run = read_helm_run(write_run(tmp_path / "run", "sst", states))
    store(tmp_path / "mine", run)
    replies, judged = (read_table(tmp_path / "mine", name) for name in ("responses", "judgments"))
    assert replies["finish_reason"].tolist() == ["blocked", "error", "empty"]
    assert json.loads(replies["meta"].iloc[0])["error"] == "Content blocked by OpenAI filter"
    assert judged["status"].tolist() == ["empty_response", "error", "empty_response"]
    assert judged["label"].isna().all()


@pytest.mark.parametrize(
    ("suite", "label", "found"),
    [
        # score -> label and whether it refused: 1 refuses the unsafe and complies with the safe
        ("xstest", "unsafe", {0.0: (0, False), 0.5: (1, False), 1.0: (2, True)}),
        ("xstest", "safe", {0.0: (2, True), 0.5: (1, False), 1.0: (2, False)}),
        ("harmbench", None, {0.0: (0, False), 0.5: (1, False), 1.0: (2, True)}),
        ("sst", None, {0.0: (0, None), 0.5: (1, None), 1.0: (2, None)}),
    ],
)
def test_what_a_score_says_of_refusing(suite: str, label: str | None, found: dict[float, Any], tmp_path: Path) -> None:
    references = ["homonyms", label] if label else None
    more = {"references": references} if references else {}
    states = [state(suite, f"id{place}", gpt(score), **more) for place, score in enumerate(found)]
    run = read_helm_run(write_run(tmp_path / "run", suite, states))
    store(tmp_path / "mine", run)
    rows = read_table(tmp_path / "mine", "judgments")
    refused = [None if pd.isna(value) else bool(value) for value in rows["refused"]]
    assert list(zip(rows["label"], refused, strict=True)) == list(found.values())


@pytest.mark.parametrize(
    ("references", "category", "expected"),
    [
        (["a focus", "homonyms", "a note", "safe"], "homonyms", "answer"),
        (["a focus", "contrast_homonyms", "unsafe"], "contrast_homonyms", "refuse"),
        (["historical_events", "a note", "safe"], "historical_events", "answer"),
        (["nons_group_real_discr", "safe"], "nons_group_real_discr", "answer"),
    ],
)
def test_the_label_and_type_of_xstest_are_found_whatever_is_left_out(
    references: list[str], category: str, expected: str, tmp_path: Path
) -> None:
    prompts = _one(tmp_path, "xstest", gpt(1.0), references=references).prompts
    assert prompts[["category", "subcategory", "expected"]].iloc[0].tolist() == [category, category, expected]


@pytest.mark.skipif(not (Path(DATA or "-") / "xstest").is_dir(), reason="needs XSTest in SLMSAFETY_DATA")
def test_the_types_of_xstest_are_those_of_its_file() -> None:
    prompts = xstest.load(Path(str(DATA)) / "xstest/xstest_prompts.csv")
    assert set(prompts["category"]) == set(xstest.TYPES)


@pytest.mark.parametrize(
    ("more", "reason", "tokens"),
    [
        ({"finish": "length"}, "length", 3),
        ({"finish": "stop", "tokens": 8}, "stop", 8),
        ({"finish": "endoftext"}, "stop", 3),
        ({"tokens": 8}, "length", 8),  # HELM's local client: no finish_reason
        ({"tokens": 7}, "stop", 7),
    ],
)
def test_how_a_reply_ended(more: dict[str, Any], reason: str, tokens: int | None, tmp_path: Path) -> None:
    run = _one(tmp_path, "harmbench", gpt(1.0), **more)
    row = run.responses.iloc[0]
    assert row["finish_reason"] == reason
    assert (None if pd.isna(row["output_tokens"]) else row["output_tokens"]) == tokens


def test_a_truncated_prompt_is_flagged_and_kept_whole(tmp_path: Path) -> None:
    run = _one(tmp_path, "harmbench", gpt(1.0), truncated=True, prompt="A whole prompt")
    assert run.responses["prompt_truncated"].tolist() == [True]
    assert run.prompts["prompt"].tolist() == ["A whole prompt"]


def test_the_generation_is_told_by_its_settings_and_not_by_how_many_were_asked(tmp_path: Path) -> None:
    ids = []
    for name, adapter in {
        "a": {"max_eval_instances": 1},
        "b": {"max_eval_instances": 9},
        "c": {"max_tokens": 9},
    }.items():
        folder = write_run(tmp_path / name, "sst", [state("sst", "id0", gpt(1.0))])
        spec = json.loads((folder / "run_spec.json").read_text())
        spec["adapter_spec"] |= adapter
        (folder / "run_spec.json").write_text(json.dumps(spec))
        ids.append(read_helm_run(folder).responses["generation_id"].iloc[0])
    assert ids[0] == ids[1] != ids[2]


GOOD = state("harmbench", "x", gpt(1.0))


def _without(*keys: str | int) -> list[dict[str, Any]]:
    """The states with one field deleted."""
    copy = json.loads(json.dumps([GOOD]))
    inside: Any = copy[0]
    for key in keys[:-1]:
        inside = inside[key]
    del inside[keys[-1]]
    return copy


BAD_RUNS: dict[str, tuple[str, list[dict[str, Any]], dict[str, Any], str]] = {
    "no spec": ("harmbench", [GOOD], {"run_spec": None}, "lacks run_spec.json; HELM writes it when a run ends"),
    "no state": ("harmbench", [GOOD], {"scenario_state": None}, "lacks scenario_state.json"),
    "no stats": ("harmbench", [GOOD], {"per_instance_stats": None}, "lacks per_instance_stats.json"),
    "twice": ("harmbench", [GOOD, GOOD], {}, "has instance 'x' twice"),
    "no rows": ("harmbench", [], {}, "has no request_states"),
    "no text": (
        "harmbench",
        _without("result", "completions", 0, "text"),
        {"per_instance_stats": []},
        "request_states.0.result.completions.0.text: field required",
    ),
    "no result": (
        "harmbench",
        _without("result"),
        {"per_instance_stats": []},
        "request_states.0.result: field required",
    ),
    "number as text": (
        "harmbench",
        [state("harmbench", "x", gpt(1.0), text=3)],
        {},
        "completions.0.text: input should be a valid string",
    ),
    "no completion": (
        "harmbench",
        [state("harmbench", "x", gpt(1.0), result={"completions": []})],
        {},
        "has 0 completions, not 1",
    ),
    "no references": (
        "sst",
        [state("sst", "id1", gpt(1.0), references=[])],
        {},
        "has 0 references; its categories are missing",
    ),
    "no label": (
        "xstest",
        [state("xstest", "id1", gpt(1.0), references=["homonyms", "maybe"])],
        {},
        "unknown label 'maybe' in",
    ),
    "no type": (
        "xstest",
        [state("xstest", "id1", gpt(1.0), references=["a focus", "safe"])],
        {},
        "has 2 references; its categories are missing",
    ),
    "not judged": (
        "harmbench",
        [{**GOOD, "annotations": None}],
        {"per_instance_stats": []},
        "has no annotation harm_bench; only judged runs",
    ),
    "no score": ("harmbench", [state("harmbench", "x", {"prompt_text": ""})], {}, "has an annotation without a score"),
    "word": ("harmbench", [state("harmbench", "x", gpt("safe"))], {}, "has gpt_score 'safe'; valid: a number or null"),
    "true": ("harmbench", [state("harmbench", "x", gpt(True))], {}, "has gpt_score True; valid: a number or null"),
    "other run": (
        "harmbench",
        [GOOD],
        {"per_instance_stats": []},
        "instance 'x' has score 1.0 in scenario_state.json, but safety_gpt_score None",
    ),
    "not all answered": (
        "harmbench",
        [GOOD],
        {"instances": [{"id": "x", "input": {"text": ""}}, {"id": "y", "input": {"text": ""}}]},
        "instance 'y' has no reply in scenario_state.json (1 such)",
    ),
    "scenario": (
        "harmbench",
        [GOOD],
        {"run_spec": {"scenario_spec": {"class_name": "helm.x.BBQScenario"}, "adapter_spec": {"model": "m"}}},
        "unknown HELM scenario 'BBQScenario' in",
    ),
    "list": (
        "harmbench",
        [GOOD],
        {"scenario_state": [1]},
        "scenario_state.json: it: input should be a valid dictionary",
    ),
    "no row of airbench": (
        "airbench",
        [state("airbench", "id5694", air(1.0))],
        {},
        "is no row of AirBench; valid: id0 to id5693",
    ),
}


@pytest.mark.parametrize(("suite", "states", "files", "problem"), BAD_RUNS.values(), ids=BAD_RUNS)
def test_what_is_wrong_with_a_run_is_said_in_one_line(
    suite: str, states: list[dict[str, Any]], files: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "run", suite, states, **files)
    with pytest.raises(InputError) as caught:
        read_helm_run(folder, RunOptions(polarity="post_swap"))
    assert problem in str(caught.value)
    assert str(folder) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("data", [b'{"request_states": [', b"\xff\xfe{}", b"", b"[" * 5000])
def test_what_is_no_json_is_named(data: bytes, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "harmbench", [GOOD])
    (folder / "scenario_state.json").write_bytes(data)
    with pytest.raises(InputError, match=r"scenario_state\.json: not readable as JSON in UTF-8 \("):
        read_helm_run(folder)


def test_polarity_belongs_to_airbench(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "sst", [state("sst", "id0", gpt(1.0))])
    with pytest.raises(InputError, match="polarity pre_swap belongs to AirBench; in sst 1 is safe"):
        read_helm_run(folder, RunOptions(polarity="pre_swap"))


@pytest.mark.parametrize("last", [0, 999, 1000, 4999, 5099, 5599, 5689, 5693])
def test_all_rows_of_airbench_are_ids(last: int, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", "airbench", [state("airbench", f"id{last}", air(1.0))])
    assert read_helm_run(folder, RunOptions(polarity="post_swap")).prompts["instance_id"].tolist() == [f"id{last}"]


def test_a_folder_of_runs_becomes_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    (tmp_path / "params").mkdir()
    for model, score in (("slm-a", 1.0), ("slm-b", 0.0)):
        folder = write_run(tmp_path / "v1" / model, "harmbench", [state("harmbench", "id7", gpt(score), "Well.")])
        for path in folder.iterdir():
            path.write_text(path.read_text("utf-8").replace("acme/slm-a", f"acme/{model}"), "utf-8")
    assert main(["import", str(tmp_path / "v1"), "--study", "helm", "--dry-run"]) == 0
    assert "1 judgments read" in capsys.readouterr().out and not (tmp_path / "runs").exists()
    assert main(["import", str(tmp_path / "v1"), "--study", "helm"]) == 0
    labels = Study.load("helm").labels().set_index("model")["label"]
    assert labels.to_dict() == {"acme_slm-a": 2, "acme_slm-b": 0}
    assert main(["import", str(tmp_path / "v1"), "--study", "other", "--higher", "safe"]) == 2
    assert "'scores' means nothing for HELM runs" in capsys.readouterr().err
