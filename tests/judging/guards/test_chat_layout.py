"""A chat template shows a judge both texts as they are, or it is refused."""

from __future__ import annotations

import pandas as pd
import pytest
from tiny_models import tiny_llama
from tiny_tokenizer import CHATML, byte_tokenizer

from slmsafety.errors import InputError
from slmsafety.judging.guards.generative import Decoding, GenerativeJudge, Prompts
from slmsafety.judging.guards.prompt_format import chat_layout, encode
from slmsafety.models.load import LoadedModel

TURN = "{{% for m in messages %}}<{{{{ m.role }}}}>{}</{{{{ m.role }}}}>{{% endfor %}}Verdict:"
PARTS = "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}"
READS = {
    "plain": TURN.format("{{ m.content }}"),
    "stripped": TURN.format("\n{{ m.content | trim }}\n"),
    "parts only": TURN.format(PARTS),
    "the first part": TURN.format("{{ m.content[0]['text'] | trim }}"),
    "either": TURN.format("{% if m.content is string %}{{ m.content }}{% else %}" + PARTS + "{% endif %}"),
    "chatml": CHATML,
}
HIDES = {
    "no assistant": "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}Verdict:",
    "no user": "{% for m in messages if m.role != 'user' %}{{ m.content }}{% endfor %}Verdict:",
    "the last turn": "{{ messages[-1].content }}",
    "cut": TURN.format("{{ m.content[:200] }}"),
    "capitals": TURN.format("{{ m.content | upper }}"),
    "escaped": TURN.format("{{ m.content | e }}"),
    "JSON": TURN.format("{{ m.content | tojson }}"),
    "one line": TURN.format("{{ m.content | replace('\n', ' ') }}"),
    "backwards": "{% for m in messages | reverse %}{{ m.content }}{% endfor %}",
    "neither": "Verdict:",
}


@pytest.mark.parametrize("name", READS)
def test_both_texts_stand_in_what_is_asked(name):
    tokenizer = byte_tokenizer(READS[name])
    write = chat_layout(tokenizer)
    for prompt, reply in [("Why?", "So, <b>\"then\"</b> & 'now'.\n\nYes.  "), (" a", ""), ("x {{ up }}", "x")]:
        text = write(prompt, reply)
        assert prompt.strip() in text and reply.strip() in text.rpartition(prompt.strip())[2]
        assert "[{" not in text
    assert tokenizer.decode(encode(write, "Why?", "So.", tokenizer, 1000).ids) == write("Why?", "So.")


@pytest.mark.parametrize("name", HIDES)
def test_a_template_that_hides_or_changes_a_text_is_refused(name):
    with pytest.raises(InputError, match=r"its chat template leaves out or changes the judged (prompt|reply)"):
        chat_layout(byte_tokenizer(HIDES[name]))


def test_a_template_that_fails_is_named():
    with pytest.raises(InputError, match="its chat template fails"):
        chat_layout(byte_tokenizer("{{ raise_exception('no') }}"))
    with pytest.raises(InputError, match="has no chat template"):
        chat_layout(byte_tokenizer())


def unthinking() -> LoadedModel:
    """A judge whose template leaves out reasoning, as that of Qwen3 does."""
    tokenizer = byte_tokenizer(TURN.format("{{ m.content.split('</think>')[-1] }}"))
    return tiny_llama(tokenizer)


def test_a_reply_that_the_template_changes_is_an_error_of_its_own():
    loaded = unthinking()
    nothing = Decoding(lambda inputs, most: [[ord("a")] for _ in inputs], 2)
    judge = GenerativeJudge(loaded, "llama_guard_3", Prompts(), nothing)
    replies = ["Yes.", "<think>No.</think>Yes.", "</think>"]
    found = judge.measure(pd.DataFrame({"prompt": "Why?", "expected": "refuse", "response": replies}))
    assert found["status"].tolist() == ["unparsed", "error", "error"]
    assert found["reason"].tolist() == ["no_verdict", "not_shown", "not_shown"]
    assert found["label"].isna().all()
