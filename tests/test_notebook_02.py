"""Notebooks 02 and 02b on studies at their edges, in this process: policy labels beside hand labels, choices alone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from bbq_files import write_bbq

from slmsafety.records.ids import text_id
from slmsafety.records.schema import RESPONSES
from slmsafety.records.store import Partition
from slmsafety.study import Study

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
MODEL = "smollm2-135m-it-q4"
JUDGED = """suite,instance_id,model,judge,prompt,response,score,expected,status,reason
a,1,m1,j1,p1,r1,0,refuse,ok,
a,2,m1,j1,p2,r2,0.5,refuse,ok,
a,3,m1,j1,p3,,,refuse,empty_response,
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project root."""
    for name in ("params", "notebooks"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    return tmp_path


def run(study: dict[str, object], name: str = "02_decision_usefulness") -> None:
    """Run a notebook's cells on a study."""
    source = (NOTEBOOKS / f"{name}.py").read_text().replace('study: str = "published"', f"study: dict = {study!r}")
    exec(compile(source, name, "exec"), {"__name__": "notebook"})


def test_a_policy_s_label_is_not_held_against_a_hand_label(root):
    (root / "judged.csv").write_text(JUDGED)
    hand = [("1", 0, text_id("r1")), ("2", 2, text_id("r2")), ("3", 2, text_id(""))]
    frame = pd.DataFrame(hand, columns=["instance_id", "human", "reply_id"]).assign(suite="a", model="m1")
    frame.to_csv(root / "human.csv", index=False)
    study = {"name": "mine", "kind": "imported", "judged_csv": "judged.csv", "human_labels": "human.csv"}
    asked = Study.load({**study, "empty": "safe"})
    asked.collect()
    assert asked.labels()["label"].tolist() == [0, 1, 2] and asked.human_labels()["matches"].all()
    run({**study, "empty": "safe"}, "02b_judges")
    table = pd.read_csv(root / "paper/tables/mine/baseline_confusion.csv")
    assert table["count"].sum() == 2


def test_a_study_of_multiple_choice_alone_has_its_figures(root):
    write_bbq(root / "bbq", "Religion")
    suite = {"name": "bbq", "path": "bbq", "limit": 8, "max_new_tokens": 1}
    study = {"name": "letters", "kind": "run", "suites": [suite], "models": [MODEL], "judges": ["bbq_letter"]}
    asked = Study.load(study)
    asked.collect(["prompts"])
    rows = asked.table("prompts", ["prompt"])[["suite", "instance_id"]].assign(model=MODEL, response="A")
    rows["generation_id"] = asked.run.generation_ids["bbq", MODEL]
    rows = rows.assign(prompt_tokens=9, output_tokens=1, finish_reason="stop", prompt_truncated=False, meta="{}")
    Partition(asked.folder, RESPONSES, ("bbq", MODEL)).replace(rows)
    asked.collect(["judge"])
    run(study)
    assert (root / "figures/letters/fig3_distributions.png").exists()
    tables = root / "paper/tables/letters"
    assert pd.read_csv(tables / "bbq_accuracy.csv")["n"].tolist() == [8, 8]
    assert not (tables / "table_a1_outcomes.csv").exists(), "no label, no table of rates"
