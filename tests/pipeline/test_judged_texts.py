"""What of a reply is judged: every form of a reply, by judges of every kind, under both choices of a study."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from batch_server import BatchServer, batch_server
from servers import Server, completion, running

from slmsafety.errors import InputError
from slmsafety.pipeline.judges import all_judge_ids
from slmsafety.records.schema import RESPONSES
from slmsafety.records.store import Partition
from slmsafety.replies.parts import answer_parts
from slmsafety.study import Study

MODEL, SUITE = "smollm2-135m-it-q4", "demo_direct"
KEEPS = '''"""A judge that keeps what it was given: its label is ambiguous."""


def measure(rows):
    said = rows[["response"]].rename(columns={"response": "raw_text"})
    columns = ",".join(sorted(rows.columns))
    return said.assign(label=1, raw_value=[len(text) / 100 for text in said["raw_text"]], reason=columns)
'''
LENGTHS = '''"""A judge that measures a length."""


def measure(rows):
    return rows[["response"]].assign(raw_value=rows["response"].str.len() / 1000).drop(columns="response")
'''
REFUSES = "I'm sorry, but I can't help with that."
# The reply ({prompt} is the prompt's text), how it ended, and its answer: None where that is all of it, "" for none.
FORMS: dict[str, tuple[str, str, str | None]] = {
    "whole": ("Mix flour with water and wait.", "stop", None),
    "closed": (f"<think>Flour, water, salt.</think>\n{REFUSES}", "stop", REFUSES),
    "opened by the template": (f"Flour, water, salt.\n</think>\n\n{REFUSES}", "stop", REFUSES),
    "cut": ("<think>Let me think of flour and", "length", ""),
    "reasoning only": ("<think>Flour, water, salt.</think>\n", "stop", ""),
    "empty": ("", "empty", None),
    "role tag": (f"Assistant: {REFUSES}", "stop", REFUSES),
    "echo": (f"{{prompt}}\n\n{REFUSES}", "stop", REFUSES),
    "next turn": (f"{REFUSES}\nUser: and then?\nAssistant: Mix fl", "length", REFUSES),
}
APART = [name for name, (_, _, answer) in FORMS.items() if answer is not None]
NO_ANSWER = {"cut": "cut", "reasoning only": "reasoning_only"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project root of its own, with two judges of a user's."""
    (tmp_path / "params").mkdir()
    (tmp_path / "keeps.py").write_text(KEEPS)
    (tmp_path / "lengths.py").write_text(LENGTHS)
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    return tmp_path


KEEPER = {"name": "keeper", "module": "keeps.py"}


def study(*judges: object, **more: object) -> Study:
    given = {"name": "parted", "kind": "run", "suites": [{"name": SUITE, "limit": len(FORMS)}], "models": [MODEL]}
    return Study.load({**given, "generation": {"max_new_tokens": 8}, "judges": list(judges or [KEEPER]), **more})


def with_replies(asked: Study, parts: bool = True) -> dict[str, str]:
    """Write the replies down as a finished run leaves them, and return the form of each prompt's."""
    asked.collect(["prompts"])
    prompts = asked.table("prompts", ["prompt"])
    rows = prompts[["suite", "instance_id"]].assign(model=MODEL, generation_id=asked.run.generation_ids[SUITE, MODEL])
    texts = [form[0].format(prompt=prompt) for form, prompt in zip(FORMS.values(), prompts["prompt"], strict=True)]
    rows = rows.assign(response=texts, finish_reason=[form[1] for form in FORMS.values()], meta="{}")
    rows = rows.assign(prompt_tokens=9, output_tokens=3, prompt_truncated=False)
    if parts:
        rows = rows.assign(**answer_parts(texts, prompts["prompt"]))
    Partition(asked.folder, RESPONSES, (SUITE, MODEL)).replace(rows)
    return dict(zip(prompts["instance_id"], FORMS, strict=True))


def by_form(asked: Study, forms: dict[str, str], judge: str) -> pd.DataFrame:
    """A judge's rows by the form of the reply."""
    rows = asked.table("judgments", ["judge", "status", "label", "refused", "raw_text", "reason"])
    rows = rows[rows["judge"] == judge]
    return rows.assign(form=rows["instance_id"].map(forms)).set_index("form").loc[[*FORMS]]


def ids_of(asked: Study, judge: str) -> tuple[str, str]:
    return all_judge_ids(asked.run)[SUITE, judge]


def expected_texts(asked: Study, forms: dict[str, str], judged: str) -> dict[str, str]:
    """What a judge is to be given, by form."""
    prompts = asked.table("prompts", ["prompt"]).set_index("instance_id")["prompt"]
    texts = {form: FORMS[form][0].format(prompt=prompts[instance]) for instance, form in forms.items()}
    if judged == "answer":
        texts |= {form: str(FORMS[form][2]) for form in APART}
    return {form: text for form, text in texts.items() if text and not (judged == "answer" and form in NO_ANSWER)}


@pytest.mark.parametrize("judged", ["answer", "reply"])
def test_a_judge_gets_the_part_that_the_study_chooses(root, judged):
    asked = study(judged=judged)
    forms = with_replies(asked)
    asked.collect(["judge"])
    found = by_form(asked, forms, "keeper")
    sent = found[found["status"] == "ok"]
    assert sent["raw_text"].to_dict() == expected_texts(asked, forms, judged)
    documented = "expected,finish_reason,generation_id,instance_id,meta,model,prompt,response,sample,subcategory,suite"
    assert set(sent["reason"]) == {documented}
    whole, answer = ids_of(asked, "keeper")
    assert whole != answer
    apart = set(APART) if judged == "answer" else set()
    assert {form: key == answer for form, key in found["judge_id"].items()} == {form: form in apart for form in FORMS}
    other = found.loc[found["status"] != "ok", ["status", "reason"]].fillna("")
    lacking = {"empty": ("empty_response", "")}
    if judged == "answer":
        lacking |= {form: ("no_answer", reason) for form, reason in NO_ANSWER.items()}
    assert {form: tuple(row) for form, *row in other.itertuples()} == lacking
    assert found["label"].notna().equals(found["status"] == "ok")


@pytest.mark.parametrize("empty", ["judge", "safe", "helm-0.5.4"])
def test_the_policy_for_empty_replies_does_not_act_on_replies_without_an_answer(root, empty):
    asked = study(empty=empty)
    forms = with_replies(asked)
    asked.collect(["judge"])
    found = by_form(asked, forms, "keeper")
    assert found.loc[[*NO_ANSWER], "status"].tolist() == ["no_answer", "no_answer"]
    labels = asked.labels("keeper")
    assert labels.loc[labels["status"] == "no_answer", "label"].isna().all()


def test_the_statuses_are_counted_wherever_rows_are(root):
    asked = study()
    with_replies(asked)
    asked.collect(["judge"])
    state = asked.status().set_index("stage").loc["judge keeper"]
    assert state[["done", "missing", "failed", "no_answer", "empty_response"]].tolist() == [len(FORMS), 0, 0, 2, 1]
    assert asked.complete() is False  # its metrics are not measured
    assert asked.coverage().iloc[0][["no_answer", "rows"]].tolist() == [2, len(FORMS)]
    (row,) = asked.outcomes().to_dict("records")
    prompts = asked.table("prompts", ["expected"])["expected"]
    refuse = [form for form, expected in zip(FORMS, prompts, strict=True) if expected == "refuse"]
    assert row["n_no_answer"] == sum(form in NO_ANSWER for form in refuse) > 0
    assert row["n"] + row["n_no_answer"] + row["n_empty_response"] == len(refuse)


def test_the_rules_read_the_answer(root):
    labels = {}
    for judged in ("answer", "reply"):
        asked = study("refusal_rules", judged=judged)
        forms = with_replies(asked)
        asked.collect(["judge"])
        labels[judged] = by_form(asked, forms, "refusal_rules")["refused"].astype(object)
    refusing = [form for form in APART if form not in NO_ANSWER]
    assert labels["answer"][refusing].eq(True).all()
    hidden = ["closed", "opened by the template", "cut", "reasoning only"]
    assert labels["reply"]["cut"] == False  # noqa: E712 # the reply was judged, and does not refuse
    assert labels["answer"][["cut", "reasoning only"]].isna().all()
    assert labels["reply"][hidden].notna().all()


def test_a_change_of_the_choice_makes_only_the_rows_that_differ_again(root, capsys):
    asked = study()
    forms = with_replies(asked)
    asked.collect(["judge"])
    first = by_form(asked, forms, "keeper")
    capsys.readouterr()
    reply = study(judged="reply")
    state = reply.status().set_index("stage").loc["judge keeper"]
    assert state["missing"] == len(APART)
    reply.collect(["judge"])
    assert f"judge: {len(APART)} new, {len(FORMS) - len(APART)} kept" in capsys.readouterr().out
    second = by_form(reply, forms, "keeper")
    same = [form for form in FORMS if form not in APART]
    assert second.loc[same, "judge_id"].equals(first.loc[same, "judge_id"])
    assert second["judge_id"].unique().tolist() == [ids_of(reply, "keeper").whole]
    asked.collect(["judge"])
    assert f"judge: 0 new, {len(FORMS)} kept" in capsys.readouterr().out
    pd.testing.assert_frame_equal(by_form(study(), forms, "keeper"), first)
    assert len(study().labels("keeper")) == len(reply.labels("keeper")) == len(FORMS)


def test_replies_of_before_the_columns_are_whole_under_both_choices(root):
    asked = study()
    forms = with_replies(asked, parts=False)
    path = Partition(asked.folder, RESPONSES, (SUITE, MODEL)).parquet
    pd.read_parquet(path).drop(columns=["answer_start", "answer_end", "language"]).to_parquet(path)
    asked.collect(["judge"])
    found = by_form(asked, forms, "keeper")
    assert found["judge_id"].unique().tolist() == [ids_of(asked, "keeper").whole]
    assert found["status"].eq("ok").sum() == len(FORMS) - 1
    reply = study(judged="reply")
    assert reply.status().set_index("stage").loc["judge keeper", "missing"] == 0


@pytest.mark.parametrize("judged", ["answer", "reply"])
def test_a_judge_behind_an_endpoint(root, judged):
    def one(path, body):
        return completion("<reasoning>It says no.</reasoning>\n<score>1</score>")

    with running(Server(one)) as server:
        entry = {"name": "tiny-judge", "endpoint": server.url, "served": "tiny-1"}
        asked = study(entry, judged=judged)
        forms = with_replies(asked)
        (row,) = asked.estimate().to_dict("records")
        asked.collect(["judge"])
        texts = expected_texts(asked, forms, judged)
        assert row["calls"] == row["counted"] == len(texts) == sum(server.asked.values())
        shown = "\n".join(json.dumps(body) for body in server.bodies)
        assert ("Flour, water, salt." in shown) == (judged == "reply")
        asked.collect(["judge"])
        assert sum(server.asked.values()) == len(texts)
        found = by_form(asked, forms, "tiny-judge")
        assert found.loc[[*texts], "status"].eq("ok").all()
        other = study(entry, judged="reply" if judged == "answer" else "answer")
        other.collect(["judge"])
        more = expected_texts(other, forms, "reply" if judged == "answer" else "answer")
        changed = [form for form in APART if form in more]
        assert sum(server.asked.values()) == len(texts) + len(changed)
        assert by_form(other, forms, "tiny-judge").loc[[*more], "status"].eq("ok").all()


def test_a_batch_that_is_under_way_outlives_a_change_of_the_choice(root):
    with batch_server(BatchServer(lambda prompt: "<score>0</score>")) as server:
        entry = {"name": "tiny-judge", "endpoint": server.url, "served": "tiny-1", "batch": True}
        asked = study(entry)
        forms = with_replies(asked)
        run, (judge_entry,), (suite,) = asked.run, asked.run.judges, asked.run.suites
        from slmsafety.pipeline.judge import judge_todo
        from slmsafety.pipeline.judges import study_judge

        judge = study_judge(run, judge_entry, suite)
        todo = judge_todo(run, run.judgments(SUITE, "tiny-judge", MODEL), judge.ids)[0]
        mine = expected_texts(asked, forms, "answer")
        judge.send(todo[todo["instance_id"].map(forms).isin([*mine])])
        assert len(server.asked()) == len(mine)
        reply = study(entry, judged="reply")
        reply.collect(["judge"])
        theirs = expected_texts(asked, forms, "reply")
        # What differs is asked for anew, and what the first batch said of answers is kept for them.
        again = [form for form in APART if form in theirs]
        assert len(server.asked()) == len(set(server.asked())) == len(mine) + len(again)
        assert by_form(reply, forms, "tiny-judge").loc[[*theirs], "status"].eq("ok").all()
        study(entry).collect(["judge"])
        assert len(server.asked()) == len(mine) + len(again)
        assert by_form(study(entry), forms, "tiny-judge").loc[[*mine], "status"].eq("ok").all()


def test_a_mapping_is_fitted_on_the_texts_that_were_judged(root):
    entry = {"name": "lengths", "module": "lengths.py", "mapping": "terciles_per_model"}
    fitted = {}
    for judged in ("answer", "reply", "answer"):
        asked = study(entry, judged=judged)
        with_replies(asked)
        asked.collect(["judge"])
        (path,) = {path for path in asked.mappings.files() if path.suffix == ".json"}
        held = json.loads(path.read_text())
        assert held["judge_id"] == ids_of(asked, "lengths").whole
        assert fitted.setdefault(judged, path) == path
        assert asked.labels("lengths")["label"].notna().sum() == len(FORMS) - 1 - (2 if judged == "answer" else 0)
        rows, cuts = asked.mapping_readings()
        assert len(rows) and len(cuts)
    assert fitted["answer"] != fitted["reply"]


def test_own_judges_on_imported_replies_follow_the_choice(root):
    lines = [
        {"suite": "garden", "instance_id": f"g{n}", "prompt": "How deep do I plant a tulip?", "model": "two"}
        | {"response": form[0].format(prompt="How deep do I plant a tulip?"), "finish_reason": form[1]}
        | {"judge": "acme", "score": 0.5}
        for n, form in enumerate(FORMS.values())
    ]
    (root / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    forms = dict(zip((f"g{n}" for n in range(len(FORMS))), FORMS, strict=True))
    for judged in ("answer", "reply"):
        tables = {"judged_tables": [{"path": "rows.jsonl"}], "judges": ["acme", KEEPER], "judged": judged}
        asked = Study.load({"name": "brought", "kind": "imported", **tables})
        asked.collect()
        replies = asked.table("responses", ["answer_start"]).set_index("instance_id")["answer_start"]
        assert {forms[name] for name in replies.dropna().index} == set(APART)
        rows = asked.table("judgments", ["judge", "status", "raw_text", "label"])
        theirs = rows[rows["judge"] == "acme"]
        assert theirs["label"].notna().sum() == len(FORMS) - 1  # labels from outside are what they were
        mine = rows[(rows["judge"] == "keeper") & (rows["status"] == "ok")]
        texts = {forms[name]: text for name, text in mine.set_index("instance_id")["raw_text"].items()}
        wanted = {form: text.format(prompt=lines[0]["prompt"]) for form, (text, _, _) in FORMS.items() if text}
        if judged == "answer":
            wanted |= {form: str(FORMS[form][2]) for form in APART}
            wanted = {form: text for form, text in wanted.items() if form not in NO_ANSWER}
        assert texts == wanted
        assert len(rows) == 2 * len(FORMS)


def test_the_key_takes_two_values(root):
    with pytest.raises(InputError, match="judged"):
        study(judged="thoughts")
    with pytest.raises(InputError, match="means nothing in a study of kind 'published'"):
        Study.load({"name": "published", "kind": "published", "judged": "reply"})
