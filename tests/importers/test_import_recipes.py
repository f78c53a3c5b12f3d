"""The recipes of docs/importing.md read small harmless files of the public forms: the page's own lines are run."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from slmsafety.errors import InputError
from slmsafety.params.study import load_params
from slmsafety.study import Study

PAGE = (Path(__file__).parents[2] / "docs/importing.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def recipe(name: str) -> dict[str, str]:
    """A recipe's code blocks by kind."""
    (section,) = [part for part in PAGE.split("\n### ") if part.startswith(f"{name}\n")]
    return dict(BLOCK.findall(section))


@pytest.fixture
def root(tmp_path, monkeypatch):
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def collected(root: Path, name: str) -> Study:
    """The study of a recipe, after its lines have run."""
    blocks = recipe(name)
    if "python" in blocks:
        exec(compile(blocks["python"], "docs/importing.md", "exec"), {})
    (root / "params/recipe.yaml").write_text(blocks["yaml"])
    study = Study.load("params/recipe.yaml")
    study.collect()
    return study


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def said(study: Study, judge: str) -> dict[str, Any]:
    """The label of each instance, or its status."""
    rows = study.labels(judge)
    found = rows["label"].astype(object).where(rows["label"].notna(), rows["status"])
    return dict(zip(rows["instance_id"], found, strict=True))


def test_xstest(root):
    full, partial, refusal = "1_full_compliance", "3_partial_refusal", "2_full_refusal"
    kinds = ["homonyms", "contrast_homonyms", "contrast_safe_targets", "safe_targets", "contrast_definitions"]
    people = [full, full, partial, refusal, refusal]
    machine = [full, full, refusal, partial, "I'm sorry, but I cannot label that."]
    write(
        root / "xstest_v2_completions_gpt4_gpteval.csv",
        [
            {
                "id": f"v2-{n}",
                "type": kind,
                "prompt": f"Question {n}?",
                "completion": f"Words {n}.",
                "annotation_1": label,
            }
            | {"annotation_2": label, "agreement": "True", "final_label": label, "gpt4_label": other}
            for n, (kind, label, other) in enumerate(zip(kinds, people, machine, strict=True), start=1)
        ],
    )
    study = collected(root, "XSTest")
    assert said(study, "people") == {"v2-1": 2, "v2-2": 0, "v2-3": 1, "v2-4": 2, "v2-5": 2}
    assert said(study, "gpt-4-0613") == {"v2-1": 2, "v2-2": 0, "v2-3": 2, "v2-4": 1, "v2-5": "unparsed"}
    prompts = study.table("prompts").set_index("instance_id")
    assert prompts["expected"].tolist() == ["answer", "refuse", "refuse", "answer", "refuse"]
    refused = study.labels("gpt-4-0613").set_index("instance_id")["refused"]
    assert [None if pd.isna(refused[f"v2-{n}"]) else bool(refused[f"v2-{n}"]) for n in (1, 3, 4, 5)] == [
        *(False, True, False, None)
    ]
    raw = study.table("judgments", ["judge", "raw_text"]).set_index(["judge", "instance_id"])["raw_text"]
    assert raw["gpt-4-0613", "v2-5"] == "refuse I'm sorry, but I cannot label that."


def test_gptfuzz(root):
    rows = [("0", "Of course.", "1"), ("0", "No.", "0"), ("1", "", "0"), ("0", "Of course.", "0")]
    write(root / "train.csv", [dict(zip(("question", "Response", "label"), row, strict=True)) for row in rows])
    study = collected(root, "GPTFuzz")
    found = study.table("judgments", ["status", "label"]).fillna({"label": -1}).sort_values(["instance_id", "sample"])
    assert found[["instance_id", "sample", "status", "label"]].to_numpy().tolist() == [
        ["0", 0, "ok", 0],
        ["0", 1, "ok", 2],
        ["0", 2, "ok", 2],
        ["1", 0, "empty_response", -1],
    ]


def test_jailbreakbench(root):
    found = [("Please?", "Of course.", True), ("Well?", "No.", False), (None, None, False)]
    rows = [
        {"index": n, "goal": f"Goal {n}", "prompt": prompt, "response": reply, "jailbroken": verdict}
        | {"jailbroken_llama_guard1": False}
        for n, (prompt, reply, verdict) in enumerate(found)
    ]
    content = {"parameters": {"model": "acme/slm-7b", "method": "none"}, "jailbreaks": rows}
    (root / "artifact.json").write_text(json.dumps(content))
    study = collected(root, "JailbreakBench")
    assert said(study, "llama-3-70b") == {"0": 0, "1": 2, "2": "unparsed"}
    assert said(study, "llama-guard-1") == {"0": 2, "1": 2, "2": "unparsed"}
    replies = study.table("responses", ["response", "finish_reason"]).set_index("instance_id")
    assert pd.isna(replies.loc["2", "response"]) and replies["finish_reason"].tolist() == ["stop"] * 3
    assert study.outcomes()[["model", "n", "n_unparsed"]].to_numpy().tolist() == [["acme_slm-7b", 2, 1]]
    meta = study.table("judgments", ["meta"])["meta"].map(json.loads)
    assert meta[0] == {"goal": "Goal 0"}


def test_refusal_stability(root):
    labels = {42: "COMPLY", 43: "PARTIAL", 44: "REFUSE", 45: "ERROR"}
    write(
        root / "labels_temp0.7.csv",
        [
            {"prompt_id": "p0", "prompt": "Question?", "response": f"Reply {seed}.", "label": label}
            | {"reasoning": "words", "model": "acme/slm", "temperature": 0.7, "seed": seed}
            for seed, label in labels.items()
        ],
    )
    study = collected(root, "refusal_stability")
    found = study.table("judgments", ["status", "label", "reason"]).fillna({"label": -1}).sort_values("sample")
    assert found[["sample", "status", "label", "reason"]].to_numpy().tolist() == [
        [42, "ok", 0, "words"],
        [43, "ok", 1, "words"],
        [44, "ok", 2, "words"],
        [45, "unparsed", -1, "no score"],
    ]


def test_the_pages_example_has_right_keys(root):
    first = BLOCK.search(PAGE)
    assert first is not None
    keys = yaml.safe_load(first[2])["study"]
    with pytest.raises(InputError, match=r"path 'path/to/judged\.csv' does not exist"):
        load_params(keys)


def test_every_recipe_is_tried():
    names = {line for line in PAGE.splitlines() if line.startswith("### ")}
    assert names == {"### XSTest", "### GPTFuzz", "### JailbreakBench", "### refusal_stability"}
