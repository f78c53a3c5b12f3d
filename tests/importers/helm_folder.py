"""A HELM run folder of mild texts, as HELM writes one (field names after a real run's files)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCENARIOS = {
    "airbench": ("air_bench_2024", "helm.benchmark.scenarios.air_bench_scenario.AIRBench2024Scenario"),
    "harmbench": ("harm_bench", "helm.benchmark.scenarios.harm_bench_scenario.HarmBenchScenario"),
    "sst": ("simple_safety_tests", "helm.benchmark.scenarios.simple_safety_tests_scenario.SimpleSafetyTestsScenario"),
    "xstest": ("xstest", "helm.benchmark.scenarios.xstest_scenario.XSTestScenario"),
}
REFERENCES = {
    "airbench": ["1.1.1", "Level two", "Level three", "Level four"],
    "harmbench": ["semantic"],
    "sst": ["Kind of request", "Harm area"],
    "xstest": ["a focus", "contrast_homonyms", "unsafe"],
}
STATISTIC = {"airbench": "air_", "harmbench": "safety_", "sst": "safety_", "xstest": "safety_"}


def air(score: Any, reasoning: str | None = "The reply declines.") -> dict[str, Any]:
    """What the AirBench annotator writes."""
    return {"prompt_text": "a judge's prompt", "reasoning": reasoning, "score": score}


def gpt(score: Any, reasoning: str | None = "It declines.", raw: str | None = None) -> dict[str, Any]:
    """What the HarmBench and SST annotators write of one judge."""
    return {
        "prompt_text": "a judge's prompt",
        "gpt_score": score,
        "gpt_reasoning": reasoning,
        **({} if raw is None else {"gpt_response_text": raw}),
    }


def state(
    suite: str, name: str, annotation: dict[str, Any], text: str = "I would rather not.", **more: Any
) -> dict[str, Any]:
    """One request state; `more` may give tokens, finish, truncated, prompt, references, result."""
    completion = {"text": text, "logprob": 0, "tokens": [{"text": "x", "logprob": -0.5}] * more.get("tokens", 3)}
    if more.get("finish"):
        completion["finish_reason"] = {"reason": more["finish"]}
    prompt = more.get("prompt", f"Question {name}?")
    references = more.get("references", REFERENCES[suite])
    return {
        "instance": {
            "input": {"text": prompt},
            "references": [{"output": {"text": text}, "tags": []} for text in references],
            "split": "test",
            "id": name,
        },
        "train_trial_index": 0,
        "request": {"model": "acme/slm-a", "prompt": prompt, "max_tokens": 8, "temperature": 0.0},
        "result": {
            "success": True,
            "completions": [completion],
            "request_datetime": 1750000000,
            **more.get("result", {}),
        },
        "num_train_instances": 0,
        "prompt_truncated": more.get("truncated", False),
        "annotations": {SCENARIOS[suite][0]: annotation},
    }


def stats_of(suite: str, states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """per_instance_stats.json: two entries an instance, no statistic for a missing score or nan."""
    entries = []
    for entry in states:
        annotation = (entry["annotations"] or {}).get(SCENARIOS[suite][0], {})
        stats = [
            {"name": {"name": f"{STATISTIC[suite]}{key}", "split": "test"}, "count": 1, "sum": score, "mean": score}
            for key, score in annotation.items()
            if key.endswith("score") and type(score) in (int, float) and score == score
        ]
        name = entry["instance"]["id"]
        entries.append({"instance_id": name, "train_trial_index": 0, "stats": stats})
        other = {"name": {"name": "prompt_truncated", "split": "test"}, "count": 1, "sum": 0, "mean": 0.0}
        entries.append({"instance_id": name, "train_trial_index": 0, "stats": [other]})
    return entries


def write_run(folder: Path, suite: str, states: list[dict[str, Any]], **files: Any) -> Path:
    """Write a run folder; `files` replaces the content of one by its name without .json (None leaves it out)."""
    annotator, scenario = SCENARIOS[suite]
    adapter = {"method": "generation", "model": "acme/slm-a", "max_tokens": 8, "temperature": 0.0}
    content = {
        "run_spec": {
            "name": f"{annotator}:model=acme_slm-a",
            "scenario_spec": {"class_name": scenario, "args": {}},
            "adapter_spec": {**adapter, "max_eval_instances": 10},
            "annotators": [{"class_name": f"helm.{annotator}", "args": {}}],
        },
        "scenario_state": {"adapter_spec": adapter, "request_states": states, "annotator_specs": []},
        "per_instance_stats": stats_of(suite, states) if states else [],
        **files,
    }
    folder.mkdir(parents=True)
    for name, value in content.items():
        if value is not None:
            (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder
