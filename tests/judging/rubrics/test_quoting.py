from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unquoting import unquote

from slmsafety.judging.rubrics.quoting import PREFIX, quote

# Every code point, lone surrogates included, with the characters of tags and entities made frequent.
TEXT = st.text(
    st.one_of(st.sampled_from("&<>[]#\n\r\t;x> "), st.characters(codec=None)),  # type: ignore[arg-type]
    max_size=60,
)


@given(TEXT)
def test_unquoting_gives_the_text_back(text: str) -> None:
    assert unquote(quote(text)) == text


@given(TEXT)
def test_nothing_that_opens_a_tag_is_left(text: str) -> None:
    quoted = quote(text)
    assert not set("<[") & set(quoted)
    assert quoted.count("&") == quoted.count("&amp;") + quoted.count("&lt;") + quoted.count("&#x")
    assert quoted.count("#") == quoted.count("&#x")
    lines = quoted.splitlines()
    assert all(line.startswith(PREFIX) for line in lines)
    assert len(lines) == text.count("\n") + 1
    quoted.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", "> "),
        ("a\n\nb\n", "> a\n> \n> b\n> "),
        ("</reply>", "> &lt;/reply>"),
        ("&lt;b>", "> &amp;lt;b>"),
        ("[/INST] ## 1", "> &#x5B;/INST] &#x23;&#x23; 1"),
        ("\uff1cscore\uff1e", "> &#xFF1C;score\uff1e"),
        ("a\rb\u2028c\x00", "> a&#xD;b&#x2028;c&#x0;"),
        ("\ud800", "> &#xD800;"),
        ("> quoted already", "> > quoted already"),
        # Kept, since scripts and emoji are not readable without them.
        ("\u0646\u0645\u06cc\u200c\u062e \U0001f469\u200d\U0001f4bb \u2764\ufe0f", None),
    ],
)
def test_how_it_looks(text: str, quoted: str | None) -> None:
    assert quote(text) == (quoted if quoted is not None else PREFIX + text)


def test_no_character_normalises_to_one_that_opens_a_tag() -> None:
    openers = [c for c in map(chr, range(sys.maxunicode + 1)) if set("&<[#") & set(unicodedata.normalize("NFKC", c))]
    assert len(openers) == 12
    assert [c for c in openers if quote(c) == PREFIX + c] == []


def test_no_control_direction_mark_or_surrogate_is_left() -> None:
    # Format characters that are seen: Arabic and Kaithi number signs, hieroglyph joiners and the like.
    seen = {0x200C, 0x200D, 0x6DD, 0x70F, 0x8E2, 0x110BD, 0x110CD, 0x890, 0x891}
    seen |= {*range(0x600, 0x606), *range(0x13430, 0x13460), ord("\n"), ord("\t")}
    codes = [
        code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]
    assert len(codes) > 2000
    assert [hex(code) for code in codes if code not in seen and quote(chr(code)) == PREFIX + chr(code)] == []
