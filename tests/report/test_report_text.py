"""Text of others, made safe to show."""

from __future__ import annotations

import html as stdlib_html

from hypothesis import given
from hypothesis import strategies as st

from slmsafety.errors import visible
from slmsafety.report.text import counted, html, latex, markdown, plain


@given(st.text(st.characters(codec=None)))
def test_nothing_unseen_reaches_a_terminal(text):
    shown = visible(text)
    assert shown.isprintable() or all(char.isprintable() or char.isspace() or ord(char) > 0x7F for char in shown)
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in shown)
    shown.encode("utf-8")


def test_what_reorders_or_hides_text_is_written_out():
    assert visible("a\u202eb\u200bc\u2028d\ud800\te") == r"a\u202eb\u200bc\u2028d\ud800\te"


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_html_shows_what_was_written_and_opens_no_tag(text):
    assert stdlib_html.unescape(html(text)) == text
    assert not set("<>\"'") & set(html(text))


@given(st.text())
def test_latex_has_no_bare_special_character(text):
    bare = latex(text)
    for command in ("\\&", "\\%", "\\$", "\\#", "\\_", "\\{", "\\}", "$-$"):
        bare = bare.replace(command, "")
    assert not set("&%#_^") & set(bare)
    assert not bare.startswith(("[", "*"))
    assert bare.count("{") == bare.count("}")


def test_markdown_keeps_emphasis_and_stops_tags_and_links():
    assert markdown("**AR** is `0.5`") == "**AR** is `0.5`"
    assert markdown("<img src=x> ![a](http://b)") == "&lt;img src=x&gt; !&#91;a&#93;(http://b)"


def test_a_label_of_a_figure_has_no_mathematics_and_is_short():
    assert plain("$x$") == r"\$x\$"
    assert plain("abcdef", longest=4) == "abc…"
    assert plain("abcd", longest=4) == "abcd"


def test_a_number_agrees_with_its_noun():
    assert [counted(n, "reply", "replies") for n in (0, 1, 1200)] == ["0 replies", "1 reply", "1,200 replies"]
    assert counted(2, "model") == "2 models"
