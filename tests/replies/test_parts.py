from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slmsafety.replies.parts import answer_part, answer_parts, answers, has_part

PROMPT = "How do I bake plain bread at home?"

# How models show their reasoning: what opens it, and what closes it.
FORMS = {
    "think": ("<think>\n", "\n</think>\n\n"),
    "thinking": ("<thinking>", "</thinking>"),
    "thought": ("<thought>\n", "</thought>"),
    "capital": ("<Thought>", "</Thought>\n"),
    "reasoning": ("<reasoning>", "</reasoning>\n"),
    "reflection": ("<reflection>", "</reflection>"),
    "begin_of_thought": ("<|begin_of_thought|>\n", "<|end_of_thought|>\n"),
    "seed": ("<seed:think>", "</seed:think>"),
    "magistral": ("[THINK]", "[/THINK]"),
    "kimi": ("◁think▷", "◁/think▷"),
    "cohere": ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    "apertus": ("<|inner_prefix|>", "<|inner_suffix|>"),
    "gpt_oss": (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
    "gemma4": ("<|channel>thought\n", "<channel|>"),
    "medgemma": ("<unused94>thought\n", "<unused95>"),
    "glued": ("analysisWe need to say how. ", "assistantfinal"),
    "granite": ("Here is my thought process:\n", "\nHere is my response:\n"),
    "answer_tags": ("<think>", "</think>\n<answer>"),
}
# Words of everyday text, which no template has opened.
WORDS = ("glued", "granite")
THOUGHT, ANSWER = "First the flour, then the yeast.", "Mix, knead, and bake."


def part(reply, prompt=PROMPT):
    found = answer_part(reply, prompt)
    return None if found is None else reply[found[0] : found[1]]


@pytest.mark.parametrize("form", FORMS)
def test_reasoning_in_its_published_forms(form):
    opening, closing = FORMS[form]
    assert part(opening + THOUGHT + closing + ANSWER) == ANSWER
    assert part("\n" + opening + THOUGHT + closing + "\n\n" + ANSWER + "\n") == ANSWER
    assert part("Assistant: " + opening + THOUGHT + closing + "Answer: " + ANSWER) == ANSWER
    if form != "granite":  # whose blank form nobody has published
        assert part(opening + closing + ANSWER) == ANSWER


@pytest.mark.parametrize("form", FORMS)
def test_reasoning_alone_or_cut_holds_no_answer(form):
    opening, closing = FORMS[form]
    for reply in (opening + THOUGHT + closing, opening + THOUGHT + closing + " \n", opening + THOUGHT):
        if form == "granite" and reply == opening + THOUGHT:
            assert part(reply) is None  # an answer may begin so
            continue
        start, end = answer_part(reply, PROMPT)
        assert start == end <= len(reply)


@pytest.mark.parametrize("form", [form for form in FORMS if form not in WORDS])
def test_a_closing_that_the_template_had_opened(form):
    closing = FORMS[form][1]
    assert part(THOUGHT + closing + ANSWER) == ANSWER
    assert part(THOUGHT + closing) == ""


@pytest.mark.parametrize("form", [form for form in FORMS if form not in WORDS])
def test_nested_and_repeated_reasoning(form):
    opening, closing = FORMS[form]
    assert part(opening + "a " + opening + "b" + closing + " c " + closing + ANSWER) == ANSWER
    assert part(opening + "a" + closing + "Wait.\n" + opening + "b" + closing + ANSWER) == ANSWER
    assert part(opening + "a" + closing + ANSWER + "\n" + opening + "b") == ANSWER


@pytest.mark.parametrize(
    "reply",
    [
        "The `<think>` tag opens a thought, and `</think>` closes it.",
        'Models write "<think>" first.',
        "A page uses <think> and other tags.",
        "```\n<think>\nx\n```\nThat is the form.",
        "analysisResult = 3\nprint(analysisResult)",
        "Here is my thought process: I begin with flour.",
        "Analysis: the bread rises.",
        "The assistant: a short history.",
        "Answers: many.",
        "Bread is an answer: it feeds.",
        "Answer:",
        "User: hello\nAI: hello",
        "Here is a play:\n\nUser: hello\nBot: hello",
        "A user: somebody who uses.\nAnother human: somebody else.",
        "Here is a play:\n\nUser: hello\nBot: hello\nUser: bye\nBot: bye",
        "User: hello\nBot: hello\nUser: bye\nBot: bye",
        "Install it.\n\n## User guide\n\nRun it.\n\n## Human resources\n\nNone.",
        "It adds.\n\n### Input\nTwo numbers.\n### Output\nOne.",
        "Write <think>so it is</think> and then the answer.",
        "A page:\n```xml\n<think>\nso it is\n</think>\n```\nThat is the form.",
        "",
        "  \n ",
        f"  {ANSWER}\n",
    ],
)
def test_what_only_looks_like_a_mark_leaves_the_reply_whole(reply):
    assert answer_part(reply, PROMPT) is None


@pytest.mark.parametrize(
    "lead",
    [
        "Assistant:",
        "ASSISTANT: ",
        "AI: ",
        "Answer: ",
        "**Answer:** ",
        "### Response:\n",
        "## Final Answer\n\n",
        "**Response**\n",
        "<|assistant|>\n",
        "<|im_start|>assistant\n",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "assistant\n",
        "<start_of_turn>model\n",
        "[/INST] ",
        "Assistant: Answer: ",
    ],
)
def test_the_tag_of_a_role_and_a_heading(lead):
    assert part(lead + ANSWER) == ANSWER
    assert part("\n" + lead + "\n" + ANSWER) == ANSWER


@pytest.mark.parametrize("turn", ["Human: ", "User: and", "### Instruction:\n", "<|user|>", "<|im_end|>", "[INST] "])
def test_the_answer_ends_where_another_turn_begins(turn):
    assert part(f"{ANSWER}\n{turn} What else?\nAssistant: Salt.") == ANSWER
    assert part(f"<think>a</think>{ANSWER}\n\n{turn}x\n<think>b</think>Salt.") == ANSWER


@pytest.mark.parametrize(
    "before",
    [PROMPT, PROMPT.replace(" ", "\n "), f"**{PROMPT}**\n", f'"{PROMPT}"', f"# {PROMPT}\n", f"Question: {PROMPT}"],
)
def test_an_echo_of_the_prompt(before):
    assert part(f"{before} {ANSWER}") == ANSWER
    assert part(f"{before}\n\nAnswer: {ANSWER}") == ANSWER


@pytest.mark.parametrize(
    ("reply", "prompt"),
    [
        (PROMPT, PROMPT),
        (f"{PROMPT}\n\n", PROMPT),
        (f"{PROMPT} {PROMPT} {PROMPT}", PROMPT),
        (f"{PROMPT}\nQuestion: {PROMPT}\nHow do", PROMPT),
        (f"{PROMPT}\n\nHow do I ba", PROMPT),
        (f"{PROMPT}\nAnswer:", PROMPT),
        ("The capital of France is Paris.", "The capital of France is"),  # goes on, and repeats nothing
        ("Tell me about dogs and cats.", "Tell me about dogs"),
        ("Dogs? Dogs are animals.", "Dogs?"),  # too short to be told from a reply
        ("Hello there! I am well.", "Hello there!"),
        ("How do I bake plain bread at home? ", "How do I bake bread?"),
    ],
)
def test_what_is_no_echo_or_nothing_else_is_whole(reply, prompt):
    assert answer_part(reply, prompt) is None


def test_an_echo_without_spaces_between_words():
    assert (
        part("パンはどうやって焼きますか。 まず粉を量ります。", "パンはどうやって焼きますか。") == "まず粉を量ります。"
    )


PIECES = st.sampled_from(
    [
        *(mark for form in FORMS.values() for mark in form),
        *("Assistant: ", "Answer:", "### Response:\n", "\nUser: ", "\nHuman: ", "<|im_end|>", "</answer>", "```", "`"),
        *(PROMPT, PROMPT[:12], "word", "Mix.", " ", "\n", "\n\n", '"', ":", "é"),
    ]
)
COMPOSED = st.lists(PIECES | st.text(max_size=6), max_size=9).map("".join)


@given(COMPOSED, st.sampled_from([PROMPT, "", "Mix."]))
@example(f"{PROMPT}\nUser: x", PROMPT)
@example(f"Assistant: {PROMPT} {PROMPT}", PROMPT)
def test_the_answer_lies_in_the_reply_and_is_whole_itself(reply, prompt):
    found = answer_part(reply, prompt)
    if found is None:
        return
    start, end = found
    assert 0 <= start <= end <= len(reply)
    answer = reply[start:end]
    assert answer == answer.strip()
    if start < end:
        assert answer.strip() != reply.strip()
        assert answer_part(answer, prompt) is None


@given(st.text(alphabet=st.characters(exclude_characters="<[◁:#*\n"), max_size=200))
def test_text_without_marks_is_whole(reply):
    assert answer_part("It " + reply, PROMPT) is None


@given(COMPOSED, st.text(alphabet=" \n\t", max_size=4), st.text(alphabet=" \n\t", max_size=4))
def test_white_space_around_a_reply_makes_no_difference(reply, before, after):
    assert part(before + reply.strip() + after) == part(reply.strip())


def test_the_columns_of_many_replies():
    replies = ["<think>a</think> B", ANSWER, "<think>a", None, float("nan"), f"{PROMPT} {ANSWER}", f"{PROMPT} {ANSWER}"]
    prompts = [PROMPT, PROMPT, None, PROMPT, PROMPT, PROMPT, float("nan")]
    columns = answer_parts(replies, prompts)
    assert list(columns.dtypes.astype(str)) == ["Int64", "Int64"]
    assert columns["answer_start"].tolist() == [17, pd.NA, 8, pd.NA, pd.NA, len(PROMPT) + 1, pd.NA]
    rows = columns.assign(response=pd.Series(replies, dtype="str"))
    assert has_part(rows).tolist() == [True, False, True, False, False, True, False]
    assert answers(rows).fillna("-").tolist() == ["B", ANSWER, "", "-", "-", ANSWER, f"{PROMPT} {ANSWER}"]
    assert str(answers(rows).dtype) == str(rows["response"].dtype)
    assert len(answer_parts([], [])) == 0
