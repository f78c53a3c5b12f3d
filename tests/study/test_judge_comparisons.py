"""Judges of a small study against each other, stored through the real store: pairs, references, crossed rubrics."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from slmsafety.analysis.judges.crossed_rubrics import crossed_rubrics
from slmsafety.analysis.judges.judge_card import judge_cards
from slmsafety.errors import InputError
from slmsafety.judging.llm.cost import Price, dollars
from slmsafety.pipeline.judges import judge_ids
from slmsafety.records.ids import text_id
from slmsafety.records.schema import JUDGMENTS, RESPONSES, STATUSES
from slmsafety.records.store import Partition
from slmsafety.study import Study
from slmsafety.study.judge_cards import study_cards
from slmsafety.study.judge_comparisons import Crossing

PROMPTS = 4
MODEL = "smollm2-135m-it-q4"
HARMBENCH = "Behavior,FunctionalCategory,SemanticCategory,Tags,ContextString,BehaviorID\n"
SST = "id,harm_area,counter,category,prompts_final\n"
SERVER = {"endpoint": "http://localhost:1/v1", "served": "reader-1"}
OWN = {"name": "reader", **SERVER}
CROSSED = [
    OWN,
    {"name": "mild-on-harmbench", **SERVER, "rubric": "sst", "suites": ["harmbench"]},
    {"name": "strict-on-sst", **SERVER, "rubric": "harmbench", "suites": ["sst"]},
]

CELLS = [("harmbench", "reader"), ("harmbench", "mild-on-harmbench"), ("sst", "reader"), ("sst", "strict-on-sst")]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project root with two small suites in the form of upstream's files."""
    (tmp_path / "params").mkdir()
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    rows = [f"Name a colour {k},standard,c,,,b{k}\n" for k in range(PROMPTS)]
    (tmp_path / "harmbench.csv").write_text(HARMBENCH + "".join(rows))
    rows = [f"s{k},Area,1,Advice,Name a number {k}\n" for k in range(PROMPTS)]
    (tmp_path / "sst.csv").write_text(SST + "".join(rows))
    return tmp_path


def study(judges: list[object], **more: object) -> Study:
    """A study of one model whose replies are stored; judged rows come from `store`."""
    suites = [{"name": name, "path": f"{name}.csv"} for name in ("harmbench", "sst")]
    asked = Study.load({"name": "small", "kind": "run", "suites": suites, "models": [MODEL], "judges": judges, **more})
    if not asked.folder.exists():
        asked.collect(["prompts"])
        ids = asked.run.generation_ids
        for suite, prompts in asked.table("prompts", ["prompt"]).groupby("suite"):
            rows = prompts[["suite", "instance_id"]].assign(model=MODEL, generation_id=ids[str(suite), MODEL])
            rows = rows.assign(response=[f"reply {k}" for k in range(len(rows))], prompt_tokens=9, output_tokens=3)
            rows = rows.assign(finish_reason="stop", prompt_truncated=False, meta="{}")
            Partition(asked.folder, RESPONSES, (str(suite), MODEL)).replace(rows)
    return asked


def store(asked: Study, suite: str, judge: str, labels: list[int | None], **columns: object) -> None:
    """Store a judge's labels of a suite's first replies; a missing one is unparsed."""
    replies = asked.table("responses", ["response"])
    rows = replies[replies["suite"] == suite].head(len(labels)).drop(columns="response").reset_index(drop=True)
    key = judge_ids(asked.run)[suite, judge]
    rows = rows.assign(judge=judge, judge_id=key, label=pd.array(labels, dtype="Int64"), meta="{}")
    rows["status"] = rows["label"].notna().map({True: "ok", False: "unparsed"})
    rows = rows.assign(**columns).reindex(columns=list(JUDGMENTS.columns))
    Partition(asked.folder, JUDGMENTS, (suite, judge, MODEL)).replace(rows)


def judged(**labels: list[int | None]) -> Study:
    """A study whose judges `offline` and `refusal_rules` gave these labels on HarmBench."""
    asked = study(["offline", "refusal_rules"])
    for judge, given in labels.items():
        store(asked, "harmbench", judge, given)
    return asked


def test_any_two_judges_are_compared_in_the_order_asked_for(root):
    asked = judged(offline=[0, 1, 2, None], refusal_rules=[0, 2, 0, 0])
    found = asked.compared.pair()
    assert (found.first, found.second) == ("offline", "refusal_rules")
    ((suite, counts),) = found.counts.items()
    assert suite == "harmbench" and counts.tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0]]
    (row,) = found.robustness.to_dict("records")
    assert (row["suite"], row["n"], row["models"]) == ("harmbench", 3, 1)
    assert (row["first_safe_second_harmful"], row["first_harmful_second_safe"]) == (1, 0)
    assert row["ar_difference"] == pytest.approx(-1 / 3) and pd.isna(row["ar_difference_low"]), (
        "three prompts are too few"
    )
    turned = asked.compared.pair("refusal_rules", "offline")
    assert turned.counts["harmbench"].tolist() == counts.T.tolist()


def test_the_paper_s_pair_is_its_print():
    found = Study.load("published").compared.pair()
    assert (found.first, found.second) == ("GPT-4o", "Llama 3.1 405B")
    row = found.robustness.set_index("suite").loc["harmbench"]
    assert row[["first_safe_second_harmful", "first_harmful_second_safe", "models"]].tolist() == [261, 2, 16]
    assert round(row["kappa"], 3) == 0.559 and row["interval_unit"] == "replies"
    assert row[["rank_range_first", "rank_range_second"]].notna().all()
    assert row["ar_difference"] == pytest.approx((3023 - 3533) / 6400) and pd.isna(row["ar_difference_low"])


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["offline"], "two different names of judges are compared, not offline"),
        (["offline", "offline"], "two different names of judges are compared, not offline, offline"),
        (["offline", "refusal_rule"], "unknown judge 'refusal_rule' in study small; did you mean 'refusal_rules'"),
        (["offline", "refusal_rules"], "have no labelled reply to a harmful prompt in common"),
    ],
)
def test_a_pair_that_is_none_is_named(root, names, problem):
    asked = judged(offline=[0, 1], refusal_rules=[None, None, 0])
    with pytest.raises(InputError, match=problem):
        asked.compared.pair(*names)


def test_the_paper_has_no_other_judges():
    with pytest.raises(InputError, match=r"the paper prints GPT-4o and Llama 3.1 405B alone"):
        Study.load("published").compared.pair("a", "b")


def test_the_first_judge_is_the_reference_where_nobody_labelled_by_hand(root):
    asked = judged(offline=[0, 1, 2, None], refusal_rules=[0, None])
    found = asked.compared.reference()
    assert found.name == "judge offline" and set(found.rows["judge"]) == {"refusal_rules"}
    assert found.rows[["reference", "status"]].to_numpy().tolist() == [[0, "ok"], [1, "unparsed"]]
    assert found.rows["label"].isna().tolist() == [False, True]
    assert "not who is right" in found.notes[0]
    assert found.notes[1:] == ("harmbench: 1 replies that not every judge was given are left out",)


def test_only_replies_that_every_judge_was_given_are_compared(root):
    asked = study(["offline", "refusal_rules", OWN])
    for judge, labels in (("offline", [0, 1, 2, 2]), ("refusal_rules", [0, 1, 2, 2]), ("reader", [0, 1, 2])):
        store(asked, "harmbench", judge, labels)
    found = asked.compared.reference()
    assert found.rows.groupby("judge").size().to_dict() == {"refusal_rules": 3, "reader": 3}
    assert found.notes[-1] == "harmbench: 1 replies that not every judge was given are left out"


def test_what_the_first_judge_alone_saw_is_counted_and_a_judge_without_a_row_is_named(root):
    asked = study(["offline", "refusal_rules", OWN])
    store(asked, "harmbench", "offline", [0, 1, 2, None])
    store(asked, "sst", "offline", [0, 1])
    store(asked, "harmbench", "refusal_rules", [0, 1])
    store(asked, "sst", "reader", [None, None, 0, 1])
    store(asked, "harmbench", "reader", [0, 1, 2, 2])
    partition = Partition(asked.folder, JUDGMENTS, ("sst", "reader", MODEL))
    partition.replace(partition.read().iloc[2:])
    found = asked.compared.reference()
    assert found.rows.groupby(["suite", "judge"]).size().to_dict() == {
        ("harmbench", "reader"): 2,
        ("harmbench", "refusal_rules"): 2,
    }
    assert found.notes[1:] == (
        "harmbench: 1 replies that not every judge was given are left out",
        "sst: 2 replies that not every judge was given are left out",
        "judge reader has no row in sst: it got no reply that counts there",
    )


def test_a_judge_that_read_no_reply_with_a_hand_label_is_named(root):
    rows = [(f"b{k}", k % 3, text_id(f"reply {k}")) for k in range(2)]
    hand = pd.DataFrame(rows, columns=["instance_id", "human", "reply_id"]).assign(suite="harmbench", model=MODEL)
    hand.to_csv(root / "human.csv", index=False)
    asked = study(["offline", "refusal_rules"], human_labels="human.csv")
    store(asked, "harmbench", "offline", [0])
    store(asked, "sst", "refusal_rules", [0, 1])
    found = asked.compared.reference()
    assert found.rows["judge"].tolist() == ["offline"]
    assert found.notes == (
        "harmbench: 1 replies that not every judge was given are left out",
        "judge refusal_rules has no row in sst: it got no reply that counts there",
    )


def test_hand_labels_are_the_reference_where_they_are_of_these_replies(root):
    rows = [("harmbench", "b0", MODEL, 2, text_id("reply 0")), ("harmbench", "b1", MODEL, 0, text_id("another"))]
    columns = ["suite", "instance_id", "model", "human", "reply_id"]
    pd.DataFrame(rows, columns=columns).to_csv(root / "human.csv", index=False)
    asked = study(["refusal_rules"], human_labels="human.csv")
    store(asked, "harmbench", "refusal_rules", [2, 2, 2, 2])
    found = asked.compared.reference()
    assert found.name == "hand labels"
    assert found.rows[["instance_id", "reference", "label"]].to_numpy().tolist() == [["b0", 2, 2]]
    assert found.notes == ("1 hand labels are of other replies than the study's and do not apply",)
    assert "reference" in asked.capabilities


def test_hand_labels_of_other_replies_alone_leave_no_card(root):
    """Another machine's arithmetic can change every greedy text."""
    labels = pd.DataFrame({"suite": ["harmbench"], "instance_id": "b0", "model": MODEL, "human": 2, "reply_id": "none"})
    labels.to_csv(root / "human.csv", index=False)
    asked = study(["refusal_rules"], human_labels="human.csv")
    store(asked, "harmbench", "refusal_rules", [2, 2])
    found = asked.compared.reference()
    assert found.rows.empty and judge_cards(found.rows).empty
    with pytest.raises(InputError, match=r"study small: no reply to a harmful prompt has a reference label \(hand"):
        study_cards(asked)


def test_judges_of_different_replies_are_no_pair_and_the_next_two_are(root):
    asked = study(["offline", "refusal_rules", OWN])
    store(asked, "harmbench", "offline", [0, 1])
    store(asked, "sst", "refusal_rules", [0, 1])
    assert asked.compared.first_pair() == ()
    assert not {"reference", "two_judges"} & asked.capabilities
    store(asked, "sst", "reader", [None, 1])
    assert asked.compared.first_pair() == (), "a study reads each table once"
    asked = study(["offline", "refusal_rules", OWN])
    assert asked.compared.first_pair() == ("refusal_rules", "reader")
    assert {"reference", "two_judges"} <= asked.capabilities
    assert asked.compared.pair().first == "refusal_rules"
    found = asked.compared.reference()
    assert found.name == "judge refusal_rules" and set(found.rows["judge"]) == {"reader"}


def test_one_judge_and_nobody_else_is_no_comparison(root):
    asked = study(["refusal_rules"])
    store(asked, "harmbench", "refusal_rules", [0, 1, 2, 2])
    assert not {"reference", "two_judges", "crossed_rubrics"} & asked.capabilities
    with pytest.raises(InputError, match="study small has no two judges with labels of the same replies, and no human"):
        asked.compared.reference()


def test_a_label_that_a_policy_gave_is_not_the_judge_s(root):
    asked = study(["offline", "refusal_rules"], empty="safe")
    store(asked, "harmbench", "offline", [0, 0])
    store(asked, "harmbench", "refusal_rules", [0, None], status=["ok", "empty_response"])
    assert asked.labels("refusal_rules")["label"].tolist() == [0, 2]
    assert asked.compared.reference().rows["label"].isna().tolist() == [False, True]


def test_two_judges_do_not_agree_on_what_neither_read(root):
    asked = study(["offline", "refusal_rules"], empty="safe")
    blank = {"status": ["ok", "empty_response", "empty_response"]}
    store(asked, "harmbench", "offline", [0, None, None], **blank)
    store(asked, "harmbench", "refusal_rules", [1, None, None], **blank)
    assert asked.compared.pair().counts["harmbench"].tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    store(asked, "harmbench", "offline", [None, None, None], status="empty_response")
    asked = study(["offline", "refusal_rules"], empty="safe")
    assert asked.compared.first_pair() == ()


def cross(asked: Study, **strict: object) -> list[Crossing]:
    """Store the four cells, the strict rubric's on SST as given, and return what crosses."""
    for suite, judge in CELLS[:3]:
        store(asked, suite, judge, [0, 1, 2, 0])
    store(asked, *CELLS[3], [0, 1, 2, None], **strict)
    return asked.compared.crossings()


def test_a_crossing_needs_replies_with_a_label_under_both_rubrics(root):
    """As where the two entries have different `models`, or one labels only what the other could not."""
    asked = study(CROSSED)
    (found,) = cross(asked)
    assert found.rows.groupby(["suite", "rubric"]).size().to_dict() == {
        ("harmbench", "harmbench"): 4,
        ("harmbench", "sst"): 4,
        ("sst", "harmbench"): 3,
        ("sst", "sst"): 4,
    }
    for suite, judge, labels in (("sst", "reader", [None, None, None, 0]), ("sst", "strict-on-sst", [0, 1, 2, None])):
        store(asked, suite, judge, labels)
    asked = study(CROSSED)
    assert asked.compared.crossings() == [] and "crossed_rubrics" not in asked.capabilities


def test_a_policy_s_labels_do_not_cross(root):
    asked = study(CROSSED, empty="ambiguous")
    (found,) = cross(asked, status=["ok", "ok", "ok", "empty_response"])
    assert asked.labels("strict-on-sst")["label"].tolist() == [0, 1, 2, 1]
    strict = found.rows[(found.rows["suite"] == "sst") & (found.rows["rubric"] == "harmbench")]
    assert strict["label"].tolist() == [0, 1, 2]


def test_crossed_rubrics_are_found_and_taken_apart(root):
    """The strict rubric calls three of four ambiguous on HarmBench and two of four on SST, the mild one none."""
    asked = study(CROSSED)
    store(asked, "harmbench", "reader", [1, 1, 1, 0])
    store(asked, "harmbench", "mild-on-harmbench", [2, 2, 0, 0])
    store(asked, "sst", "strict-on-sst", [1, 1, 0, 2])
    assert asked.compared.crossings() == [], "the fourth cell is not judged yet"
    asked = study(CROSSED)
    store(asked, "sst", "reader", [2, 2, 0, 2])
    (found,) = asked.compared.crossings()
    assert found[:3] == ("reader-1", ("harmbench", "harmbench"), ("sst", "sst"))
    result = crossed_rubrics(found.rows, found.first, found.second, resamples=50)
    assert result.cells["ar"].tolist() == [0.75, 0.0, 0.5, 0.0]
    # Difference .75: rubric (.75 + .5) / 2, prompts (.25 + 0) / 2.
    assert result.effects["value"].tolist() == pytest.approx([0.75, 0.125, 0.625, 0.25, 5 / 6])
    assert "crossed_rubrics" in asked.capabilities


@pytest.mark.parametrize(
    "change",
    [
        {"served": "reader-2"},
        {"revision": "other"},
        {"parser": "helm"},
        {"rubric": "harmbench"},
        {"endpoint": "http://localhost:2/v1"},
    ],
)
def test_two_models_or_one_rubric_do_not_cross(root, change):
    asked = study([OWN, {**CROSSED[1], **change}, CROSSED[2]])
    for suite, judge in CELLS:
        store(asked, suite, judge, [0, 1, 2, 0])
    assert asked.compared.crossings() == []


def test_dollars_are_the_tokens_at_the_price_that_was_kept():
    price = Price(input=2.5, output=10, date="2026-11-01")
    rows = pd.DataFrame(
        {
            "input_tokens": pd.array([1000, 1000, None, 7], dtype="Int64"),
            "output_tokens": pd.array([100, 0, 5, 7], dtype="Int64"),
            "meta": [
                json.dumps({"price": str(price)}),
                json.dumps({"price": None}),
                json.dumps({"price": str(price)}),
                None,
            ],
        }
    )
    found = dollars(rows)
    assert found[0] == pytest.approx(price.cost(1000, 100)) == pytest.approx(0.0035)
    assert found[1:].isna().all()


def test_the_reference_carries_each_judgment_s_price(root):
    asked = study(["offline", OWN])
    store(asked, "harmbench", "offline", [0, 1])
    meta = json.dumps({"price": str(Price(input=1, output=1, date="2026-11-01"))})
    store(asked, "harmbench", "reader", [0, 1], input_tokens=900, output_tokens=100, meta=meta)
    assert asked.compared.reference().rows["price"].tolist() == pytest.approx([0.001] * 2)
    assert set(STATUSES) >= set(asked.compared.reference().rows["status"])
