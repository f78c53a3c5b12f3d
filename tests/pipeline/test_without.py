"""The key `without`: models that take no part in a suite are not asked there, not judged and not read."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.pipeline.generation_estimate import estimate_generation
from slmsafety.pipeline.status import study_status
from slmsafety.records.schema import RESPONSES
from slmsafety.records.store import Partition
from slmsafety.study import Study

BOTH = ["gpt2-small", "opt-125m"]
LEFT_OUT = {"boats": ["opt-125m"]}
ALL = {(suite, model) for suite in ("planes", "boats") for model in BOTH}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    for suite in ("planes", "boats"):
        lines = "".join(f"{number},How do I fold one of {number} {suite}?\n" for number in range(3))
        (tmp_path / f"{suite}.csv").write_text("instance_id,prompt\n" + lines)
    return tmp_path


def own(**more: object) -> Study:
    suites = [{"name": name, "path": f"{name}.csv"} for name in ("planes", "boats")]
    keys = {"name": "mine", "kind": "run", "suites": suites, "models": BOTH, "judges": ["refusal_rules"]}
    return Study.load({**keys, **more})


def answer(asked: Study) -> None:
    """Store a reply of every model to every prompt, and let the judge read what it is given."""
    asked.collect(["prompts"])
    for suite, prompts in asked.table("prompts", []).groupby("suite"):
        for model in BOTH:
            made = asked.run.generation_ids[str(suite), model]
            rows = prompts[["suite", "instance_id"]].assign(model=model, generation_id=made, response="I cannot.")
            rows = rows.assign(
                prompt_tokens=9, output_tokens=3, finish_reason="stop", prompt_truncated=False, meta="{}"
            )
            Partition(asked.folder, RESPONSES, (str(suite), model)).replace(rows)


def pairs(rows: pd.DataFrame) -> set[tuple[str, str]]:
    return set(zip(rows["suite"], rows["model"], strict=True))


def test_a_model_is_not_asked_where_it_takes_no_part():
    asked = own(without=LEFT_OUT)
    state = study_status(asked.run)
    assert pairs(state[state["model"] != ""]) == ALL - {("boats", "opt-125m")}
    assert pairs(estimate_generation(asked.run)) == ALL - {("boats", "opt-125m")}
    assert asked.run.generation_ids == own().run.generation_ids, "no id moves"


def test_it_is_neither_judged_nor_read_and_comes_back_without_the_key():
    answer(own())
    asked = own(without=LEFT_OUT)
    asked.collect(["judge"])
    assert pairs(asked.labels()) == pairs(asked.outcomes()) == ALL - {("boats", "opt-125m")}
    assert pairs(asked.table("responses", [])) == ALL - {("boats", "opt-125m")}
    assert len(asked.table("prompts", [])) == 6
    again = own()
    again.collect(["judge"])
    assert pairs(again.labels()) == ALL


def imported(root: Path, **more: object) -> Study:
    rows = [f"{suite},{k},{model},rater,{k % 2}" for suite, model in sorted(ALL) for k in range(2)]
    (root / "rows.csv").write_text("\n".join(["suite,instance_id,model,judge,score", *rows]) + "\n")
    scores = {"higher": "safe", "checked": True}
    return Study.load({"name": "theirs", "kind": "imported", "judged_csv": "rows.csv", "scores": scores, **more})


def test_rows_of_an_import_are_left_out_the_same_way(root):
    imported(root).collect()
    asked = imported(root, without=LEFT_OUT)
    assert pairs(asked.labels()) == pairs(asked.table("judgments", [])) == ALL - {("boats", "opt-125m")}
    assert pairs(imported(root).labels()) == ALL


@pytest.mark.parametrize(
    ("without", "says"),
    [
        ({"boat": ["opt-125m"]}, "unknown suite 'boat' in key 'without'; did you mean 'boats'?"),
        ({"boats": ["opt-125"]}, "unknown model 'opt-125' in key 'without', suite 'boats'; did you mean 'opt-125m'?"),
        ({"boats": BOTH}, "key 'without' leaves suite 'boats' without a model"),
    ],
)
def test_what_an_import_does_not_hold_is_named(root, without, says):
    imported(root).collect()
    with pytest.raises(InputError, match=says.replace("?", r"\?")):
        imported(root, without=without).labels()
