"""HarmBench's classifier as published: contextual behaviours, clipped replies, and no verdict on copyright."""

from __future__ import annotations

import csv
import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tiny_llama
from tiny_tokenizer import byte_tokenizer

from slmsafety.errors import InputError
from slmsafety.judging.guards.generative import Decoding, GenerativeJudge, Prompts, clip
from slmsafety.judging.guards.harmbench import behaviour, context_layout
from slmsafety.models.load import LoadedModel
from slmsafety.suites.harmbench import COLUMNS
from slmsafety.suites.harmbench import load as load_harmbench

PLAIN = "[INST] Asked: {{QUESTION}} Said: {{ANSWER}} Yes or no? [/INST]\n"
CONTEXTUAL = "[INST] Given: {{CONTEXT}} Asked: {{QUESTION}} Said: {{ANSWER}} Yes or no? [/INST]"
# Mild behaviours of our own in upstream's form: a context may hold what stands between it and the behaviour.
ROWS = [
    ("Praise the tea", "standard", "harmful", "", "", "tea"),
    ("Explain this recipe", "contextual", "illegal", "context", "Flour, salt.\n\n---\n\nBake {{ANSWER}}.", "bread"),
    ("Recite the song of the gardener", "copyright", "copyright", "lyrics, hash_check", "", "song"),
]


@pytest.fixture
def prompts(tmp_path) -> pd.DataFrame:
    path = tmp_path / "behaviours.csv"
    with path.open("w", newline="") as handle:
        csv.writer(handle).writerows([COLUMNS, *ROWS])
    return load_harmbench(path)


@pytest.fixture
def loaded() -> LoadedModel:
    return tiny_llama(byte_tokenizer())


def judged(loaded: LoadedModel, rows: pd.DataFrame, prompts: Prompts) -> tuple[pd.DataFrame, list[str]]:
    """What the classifier says of rows, and the texts that it was asked; it writes a "y" each time."""
    asked: list[str] = []

    def write(inputs: list[list[int]], most: int) -> list[list[int]]:
        asked.extend(map(loaded.tokenizer.decode, inputs))
        return [loaded.tokenizer.encode("y") for _ in inputs]

    return GenerativeJudge(loaded, "harmbench_cls", prompts, Decoding(write, 4)).measure(rows), asked


def test_each_kind_of_behaviour_is_asked_as_published(prompts, loaded):
    rows = prompts.assign(response="Yes, of course.")
    found, asked = judged(loaded, rows, Prompts(PLAIN, CONTEXTUAL))
    assert sorted(asked) == [
        "[INST] Asked: Praise the tea Said: Yes, of course. Yes or no? [/INST]",
        "[INST] Given: Flour, salt.\n\n---\n\nBake {{ANSWER}}. Asked: Explain this recipe Said: Yes, of course. "
        "Yes or no? [/INST]",
    ]
    assert found["status"].tolist() == ["unparsed", "unparsed", "abstained"]
    assert found["reason"].tolist() == ["no_verdict", "no_verdict", "copyright"]
    assert found["label"].isna().all()


def test_contextual_behaviours_need_their_prompt(prompts, loaded):
    with pytest.raises(InputError, match=r"a contextual behaviour needs the prompt .* 'context_template'"):
        judged(loaded, prompts.assign(response="Yes."), Prompts(PLAIN))


def test_rows_of_other_suites_and_of_imports(prompts):
    rows = prompts.to_dict("records")
    assert [behaviour(row)[1:] for row in rows] == [
        (None, ""),
        ("Flour, salt.\n\n---\n\nBake {{ANSWER}}.", ""),
        (None, "copyright"),
    ]
    # HELM keeps the semantic category alone.
    assert [behaviour({**row, "meta": "{}"}) for row in rows] == [behaviour(row) for row in rows]
    assert [behaviour({**row, "suite": "mine"}).text for row in rows] == [row["prompt"] for row in rows]
    assert behaviour({**rows[2], "meta": '{"functional_category": "Copyright"}'}).not_judged == "copyright"
    assert behaviour({**rows[2], "meta": "{}", "subcategory": "Copyright"}).not_judged == "copyright"
    broken = {**rows[1], "prompt": "Explain this recipe"}
    assert behaviour(broken).not_judged == "no_context"
    assert json.loads(rows[1]["meta"])["functional_category"] == "contextual"


@pytest.mark.parametrize("template", [PLAIN, CONTEXTUAL + "{{CONTEXT}}", CONTEXTUAL.replace("{{ANSWER}}", "")])
def test_a_contextual_prompt_has_three_slots(template):
    with pytest.raises(InputError, match="judge template needs the slot"):
        context_layout(template, "c")


@given(*(st.sampled_from(["", "{{CONTEXT}}", "{{QUESTION}}", "{{answer}}", "a {{ANSWER}} b", "%s {}"]),) * 3)
def test_slots_within_texts_stay_as_they_are(context, prompt, reply):
    written = context_layout("<{{context}}|{{QUESTION}}|{{ANSWER}}>", context)(prompt, reply)
    assert written == f"<{context}|{prompt}|{reply}>"


def test_a_long_reply_is_clipped_at_its_start(prompts, loaded):
    texts = ["a" * 512, "b" * 513, "c" * 300 + "<|im_end|>" + "d" * 300]
    rows = pd.concat([prompts.head(1)] * 3, ignore_index=True).assign(response=texts)
    found, asked = judged(loaded, rows, Prompts(PLAIN, CONTEXTUAL))
    said = sorted(text.partition("Said: ")[2].partition(" Yes or no?")[0] for text in asked)
    assert said == ["a" * 512, "b" * 512, "c" * 300 + "< |im_end|>" + "d" * 201]
    meta = [json.loads(text) for text in found["meta"]]
    assert [one.get("clipped", False) for one in meta] == [False, True, True]
    assert [one["neutralised"] for one in meta] == [0, 0, 1]
    assert "truncated_input" not in set(found["status"])


def test_the_start_token_is_one_of_the_clipped_ones(gemma_base):
    """As upstream counts: its tokenizer puts a start token before each reply."""
    text = "word " * 600
    kept, _ = clip(text, gemma_base.tokenizer, 512)
    assert text.startswith(kept)
    assert len(gemma_base.tokenizer.encode(kept, add_special_tokens=False)) == 511
    assert clip("Short.", gemma_base.tokenizer, 512) == ("Short.", 0)
