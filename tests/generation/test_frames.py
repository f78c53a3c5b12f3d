from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slmsafety.errors import InputError
from slmsafety.generation.frames import check_frame, framed, takes_system, turns

FRAME = "{{SYSTEM}}\n\nHuman: {{PROMPT}}\n\nAssistant:"


def test_the_texts_stand_in_their_slots() -> None:
    assert framed(FRAME, "Name a fruit.", "Be kind.") == "Be kind.\n\nHuman: Name a fruit.\n\nAssistant:"
    assert framed("Q: {{ prompt }}\nA:", "Name a fruit.", None) == "Q: Name a fruit.\nA:"
    assert framed(None, "Name a fruit.", None) == "Name a fruit."


@given(prompt=st.text(), system=st.text(), before=st.text("ab{} \n"), after=st.text("ab{} \n"))
def test_what_stands_in_a_prompt_is_text_whatever_it_is(prompt: str, system: str, before: str, after: str) -> None:
    """A prompt that spells a slot does not get the system prompt, nor the other way round."""
    frame = f"{before}|{{{{PROMPT}}}}|{after}|{{{{SYSTEM}}}}|"
    assert framed(frame, prompt, system) == f"{before}|{prompt}|{after}|{system}|"
    spelt = "{{SYSTEM}} {{PROMPT}} {{system}}"
    assert framed(FRAME, spelt, spelt) == f"{spelt}\n\nHuman: {spelt}\n\nAssistant:"


@pytest.mark.parametrize(
    ("frame", "system", "says"),
    [
        ("Human: ", None, "has the slot {{PROMPT}} 0 times; it needs it once"),
        ("{{PROMPT}} {{prompt}}", None, "has the slot {{PROMPT}} 2 times"),
        ("{{PROMPT}} {{SYSTEM}} {{SYSTEM}}", "Be kind.", "has the slot {{SYSTEM}} 2 times; at most once"),
        ("{{PROMPT}} {{ANSWER}}", None, "has the slot {{ANSWER}}; valid: {{PROMPT}} and {{SYSTEM}}"),
        ("{{SYSTEM}} {{PROMPT}}", None, "has the slot {{SYSTEM}}, and there is no system_prompt"),
    ],
)
def test_a_frame_with_a_fault_is_refused(frame: str, system: str | None, says: str) -> None:
    with pytest.raises(InputError) as caught:
        check_frame(frame, system)
    assert says in str(caught.value)


def test_a_sound_frame_is_taken() -> None:
    check_frame(FRAME, "Be kind.")
    check_frame("Human: {{PROMPT}} {not a slot} {{}}", "Be kind.")
    assert takes_system(FRAME) and not takes_system("{{PROMPT}}") and not takes_system(None)


def test_the_turns_of_a_chat() -> None:
    user = {"role": "user", "content": "Hi"}
    assert turns("Hi", None, None) == [user]
    assert turns("Hi", None, "Be kind.") == [{"role": "system", "content": "Be kind."}, user]
    # The frame's own place goes before the system's turn.
    assert turns("Hi", FRAME, "Be kind.") == [{"role": "user", "content": "Be kind.\n\nHuman: Hi\n\nAssistant:"}]
    assert turns("Hi", "Q: {{PROMPT}}", "Be kind.")[1] == {"role": "user", "content": "Q: Hi"}
