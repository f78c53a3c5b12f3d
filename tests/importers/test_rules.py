"""The rules that every source goes through: names, blank replies, generation ids."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.errors import InputError
from slmsafety.importers.rules import NAME_LENGTH, by_rules, reply_generation_id, stored_name
from slmsafety.importers.tables import Imported
from slmsafety.records.schema import JUDGMENTS, PROMPTS, RESPONSES


def source(replies: list[dict], path: str = "f.csv") -> Imported:
    """A source with one judge: each reply has response, and maybe model, finish_reason, status, label, sample."""
    base = {"suite": "s", "model": "m", "finish_reason": "stop", "status": "ok", "label": 0, "raw_value": 0.0}
    base |= {"expected": "refuse", "prompt": "p", "judge": "j", "judge_id": "x", "meta": "{}", "sample": None}
    rows = pd.DataFrame([{**base, "instance_id": str(n), **reply} for n, reply in enumerate(replies)])
    frames = (rows.reindex(columns=list(table.columns)) for table in (PROMPTS, RESPONSES, JUDGMENTS))
    return Imported(path, *frames)


def ruled(replies: list[dict], judges_empty: bool = False) -> Imported:
    (found,) = by_rules([source(replies)], lambda suite: judges_empty)
    return found


@pytest.mark.parametrize(
    ("reply", "finish", "status", "label"),
    [
        ({"response": "No."}, "stop", "ok", 0),
        ({"response": ""}, "empty", "empty_response", None),
        ({"response": " \n\t\u00a0"}, "empty", "empty_response", None),
        ({"response": " ", "status": "unparsed", "label": None}, "empty", "empty_response", None),
        ({"response": None}, "stop", "ok", 0),
        ({"response": None, "finish_reason": "empty"}, "empty", "empty_response", None),
        ({"response": "", "finish_reason": "blocked"}, "blocked", "empty_response", None),
        ({"response": "", "finish_reason": " Error "}, "error", "error", None),
        (
            {"response": "", "finish_reason": "error", "status": "judge_refused", "label": None},
            "error",
            "judge_refused",
            None,
        ),
        ({"response": "No.", "status": " OK"}, "stop", "ok", 0),
    ],
)
def test_a_blank_reply_is_no_verdict(reply, finish, status, label):
    found = ruled([{"response": "Something else."}, reply])
    judged = found.judgments.iloc[1]
    assert found.responses["finish_reason"].tolist() == ["stop", finish]
    assert (judged["status"], None if pd.isna(judged["label"]) else judged["label"]) == (status, label)
    assert found.judgments["raw_value"].tolist() == [0, 0]


def test_a_study_that_sends_blank_replies_takes_the_word_of_the_source():
    found = ruled([{"response": "", "label": 2}], judges_empty=True)
    assert found.responses["finish_reason"].tolist() == ["empty"]
    assert found.judgments[["status", "label"]].to_numpy().tolist() == [["ok", 2]]


def test_a_reply_keeps_its_id_wherever_it_comes_from():
    first = ruled([{"response": "a"}, {"response": "b"}, {"response": None}])
    second = ruled([{"response": "b", "model": "n", "instance_id": "9"}, {"response": "a", "instance_id": "7"}])
    assert first.responses["generation_id"].tolist() == first.judgments["generation_id"].tolist()
    assert first.responses["generation_id"].nunique() == 3
    assert second.responses["generation_id"].tolist() == first.responses["generation_id"].tolist()[1::-1]
    assert reply_generation_id("p", None) == first.responses["generation_id"][2] != reply_generation_id("p", "")
    assert reply_generation_id("p", "a") == "17b30276faeb"  # paid judgments are found by it


def test_what_else_decides_a_label_is_part_of_the_id():
    blank = [ruled([{"response": "", "finish_reason": finish}]) for finish in ("empty", "blocked", "error")]
    stopped, blocked, failed = (found.responses["generation_id"][0] for found in blank)
    assert stopped == blocked != failed
    one = source([{"response": "a"}])
    control = replace(one, prompts=one.prompts.assign(expected="answer"))
    ids = [by_rules([each], lambda suite: False)[0].responses["generation_id"][0] for each in (one, control)]
    assert ids[0] == reply_generation_id("p", "a") != ids[1]


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("openai/gpt-4o", "openai_gpt-4o"),
        (" gpt2\u00a0", "gpt2"),
        ("\ufeffgpt2\u200b", "gpt2"),
        ("org / tiny 1.5", "org_tiny_1.5"),
        ("Mode\u0301le", "Mod_le"),
        ("3b", "3b"),
        ("x" * NAME_LENGTH, "x" * NAME_LENGTH),
    ],
)
def test_one_rule_for_names(name, stored):
    assert stored_name(name) == stored


@pytest.mark.parametrize("name", ["", " ", ".", "..", "../x", "_a", "/home/x", "a.", "NUL", "con.x", "Lpt1", "x" * 101])
def test_names_that_no_file_can_have_are_refused(name):
    with pytest.raises(InputError, match="name "):
        stored_name(name)


@given(st.text(max_size=20))
def test_a_stored_name_is_stored_as_it_is(name):
    try:
        stored = stored_name(name)
    except InputError as error:
        assert len(str(error).splitlines()) == 1
        return
    assert stored_name(stored) == stored and stored.isascii()


@pytest.mark.parametrize(("one", "other"), [("a/b", "a_b"), ("Tiny", "tiny"), ("a b", "a  b")])
def test_two_names_that_would_be_stored_alike_are_both_named(one, other):
    with pytest.raises(InputError) as caught:
        ruled([{"response": "x", "model": one}, {"response": "y", "model": other}])
    assert f"f.csv: models {one!r} and {other!r} would be stored alike" in str(caught.value)
    elsewhere = [source([{"response": "x", "judge": name}], path) for name, path in ((one, "a.csv"), (other, "b.csv"))]
    with pytest.raises(InputError) as caught:
        by_rules(elsewhere, lambda suite: False)
    assert f"b.csv: judges {one!r} (in a.csv) and {other!r} would be" in str(caught.value)


def test_a_blank_around_a_name_makes_no_second_model():
    found = ruled([{"response": "x", "model": "gpt2 "}, {"response": "y", "model": "gpt2"}])
    assert found.judgments["model"].tolist() == ["gpt2", "gpt2"]


@pytest.mark.parametrize(
    ("replies", "says"),
    [
        ([{"response": "x", "status": "fine"}], "unknown status 'fine' in f.csv: instance '0'"),
        ([{"response": "x", "finish_reason": "eos"}], "unknown finish_reason 'eos' in f.csv: instance '0'"),
        ([{"response": "x", "finish_reason": "empty"}], "instance '0' has finish_reason empty and a text"),
        ([{"response": "x", "model": "."}], "f.csv: model name '.' cannot name a file"),
        (
            [{"response": "x"}, {"response": "y", "instance_id": "0"}],
            "two replies of model 'm' to instance '0' of suite 's' (sample 0)",
        ),
    ],
)
def test_what_a_source_may_not_say_gets_one_line(replies, says):
    with pytest.raises(InputError) as caught:
        ruled(replies)
    assert says in str(caught.value)


def test_a_judgment_without_a_reply_is_refused():
    given = source([{"response": "x"}, {"response": "y"}])
    with pytest.raises(InputError, match="instance '1' has a judgment and no reply of model 'm'"):
        by_rules([Imported("f.csv", given.prompts, given.responses[:1], given.judgments)], lambda suite: False)


def test_several_replies_to_a_prompt_are_told_apart_by_sample():
    found = ruled([{"response": text, "instance_id": "0", "sample": n} for n, text in enumerate("xyx")])
    assert found.judgments["sample"].tolist() == [0, 1, 2]
    assert found.judgments["generation_id"].nunique() == 2
