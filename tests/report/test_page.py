"""A notebook's page: what it leaves out, what it escapes, and what it insists on."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from IPython.display import HTML, Image, Markdown

from slmsafety.errors import InputError
from slmsafety.report import contents as listed
from slmsafety.report.contents import REQUIREMENTS, Artifact, all_artifacts, contents
from slmsafety.report.figures import bounds
from slmsafety.report.page import Page, table_html

COMMITTED = listed.CONTENTS
LINES = """artifact,notebook,needs,what
bounds,01_tried,rates,intervals
rank_sets,01_tried,rates,sets of ranks
fig_replies,01_tried,labels metrics,what needs single replies
other,02_else,rates,another notebook's
"""


@pytest.fixture(autouse=True)
def own_contents(tmp_path, monkeypatch):
    """A list of artifacts of the test's own: the project's grows with every figure."""
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "contents.csv").write_text(LINES)
    monkeypatch.setattr(listed, "CONTENTS", tmp_path / "lists" / "contents.csv")


@pytest.fixture
def displayed(monkeypatch) -> list:
    shown: list = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    return shown


@pytest.fixture
def root(tmp_path):
    return tmp_path / "project"


def make_page(root, notebook="01_tried", capabilities=frozenset({"rates"}), study_name="published") -> Page:
    return Page(
        notebook,
        capabilities=set(capabilities),
        study_name=study_name,
        root=root,
        parameters={"seed": 1},
        inputs={"a": "0" * 64},
    )


def test_the_projects_own_list_uses_every_requirement_and_says_what_each_artifact_shows(monkeypatch):
    monkeypatch.setattr(listed, "CONTENTS", COMMITTED)
    artifacts = all_artifacts()
    assert {need for artifact in artifacts for need in artifact.needs} == set(REQUIREMENTS)
    assert [artifact.name for artifact in artifacts if not artifact.what] == []


def test_contents_are_those_of_one_notebook_in_their_order():
    assert list(contents("01_tried")) == ["bounds", "rank_sets", "fig_replies"]
    assert contents("02_else") == {"other": Artifact("other", "02_else", ("rates",), "another notebook's")}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("x,01_tried,rate,y", "unknown requirement 'rate' in contents.csv, artifact x; did you mean 'rates'?"),
        ("bounds,02_else,rates,y", "contents.csv has the artifact 'bounds' twice; names must be unique"),
    ],
)
def test_a_wrong_line_of_the_list_is_named(line, says):
    listed.CONTENTS.write_text(f"{LINES}{line}\n")
    with pytest.raises(InputError, match=re.escape(says)):
        contents("01_tried")


def test_artifacts_are_left_out_with_a_line_each_and_once(root, displayed):
    page = make_page(root)
    assert page.has("bounds", "rank_sets") and not displayed
    assert not page.has("bounds", "fig_replies")
    assert not page.has("fig_replies")
    (line,) = displayed
    assert isinstance(line, Markdown)
    assert line.data == "**fig_replies** is left out for study published: it has no labels of single replies."
    poor = make_page(root, capabilities=())
    assert not poor.has("bounds", "rank_sets")
    assert [line.data.split(" is left out")[0] for line in displayed[1:]] == ["**bounds**", "**rank_sets**"]


def test_what_an_analysis_cannot_give_is_left_out_with_its_reason_once(root, displayed, capsys):
    page = make_page(root, study_name="mine")
    assert page.has("bounds", unless="") and not displayed
    assert not page.has("bounds", unless="all of <b>them</b> are equal")
    assert not page.has("bounds")
    page.table("rank_sets", pd.DataFrame({"a": []}))
    page.say("One.", "Two.")
    page.close()
    bounds_, empty, said, replies = [shown.data for shown in displayed]
    assert bounds_ == "**bounds** is left out for study mine: all of &lt;b&gt;them&lt;/b&gt; are equal."
    assert empty == "**rank_sets** is left out for study mine: none of its rows counts there."
    assert said == "One. Two."
    assert replies.startswith("**fig_replies** is left out"), "a page says at its end what no cell has asked for"
    out = capsys.readouterr().out
    assert "left out: bounds, rank_sets, fig_replies" in out and "not shown" not in out
    assert not (root / "paper/tables/mine/rank_sets.csv").exists()


def test_a_whole_page_is_shown_saved_and_summed_up(root, displayed, full, capsys):
    page = make_page(root)
    page.figure("bounds", bounds(full))
    page.table("rank_sets", pd.DataFrame({"model": ["<b>m</b>"], "s_adj": [0.123456]}), {"s_adj": ".2f"})
    page.numbers({"pairs": 170})
    page.say("The order of **170** pairs holds.", "Others <i>depend</i> on the reading.")
    page.close()
    image, table, said, _ = displayed
    assert isinstance(image, Image) and image.data.startswith(b"\x89PNG")
    assert isinstance(table, HTML) and "&lt;b&gt;m&lt;/b&gt;" in table.data and "0.12<" in table.data
    assert said.data == "The order of **170** pairs holds. Others &lt;i&gt;depend&lt;/i&gt; on the reading."
    out = capsys.readouterr().out
    assert str(root) not in out
    assert (
        "paper/figures/published/bounds.pdf, paper/figures/published/bounds.json, figures/published/bounds.png" in out
    )
    assert "01_tried, study published: 3 artifacts in 8 files" in out
    assert "left out: fig_replies" in out
    assert (root / "paper/tables/published/rank_sets.tex").exists()


def test_closing_names_what_is_missing(root, displayed):
    page = make_page(root)
    page.table("rank_sets", pd.DataFrame({"a": [1]}))
    page.say("One finding.", " ")
    with pytest.raises(RuntimeError, match=r"lacks: bounds, 1 more sentence"):
        page.close()


def test_a_users_study_is_never_failed_by_what_it_lacks(root, displayed, capsys):
    page = make_page(root, study_name="mine")
    page.table("rank_sets", pd.DataFrame({"a": [1]}))
    page.close()
    assert "study mine: not shown for this study: bounds\n" in capsys.readouterr().out


def test_nothing_is_shown_where_nothing_is_said(root, displayed, capsys):
    page = make_page(root, capabilities=(), study_name="mine")
    page.say()
    page.say("", " ")
    assert displayed == []
    page.close()
    assert "not shown" not in capsys.readouterr().out


def test_closing_does_not_ask_for_what_the_study_cannot_give(root, displayed, capsys):
    page = make_page(root, capabilities=())
    page.say("It holds no outcomes.", "So nothing is drawn.")
    page.close()
    assert "left out: bounds, rank_sets, fig_replies" in capsys.readouterr().out


def test_wrong_names_are_refused_with_the_nearest(root, displayed):
    with pytest.raises(InputError, match="did you mean '01_tried'"):
        make_page(root, "01_tied")
    with pytest.raises(InputError, match="did you mean 'printed'"):
        make_page(root, capabilities={"print"})
    page = make_page(root)
    for use in (page.has, lambda name: page.table(name, pd.DataFrame({"a": [1]}))):
        with pytest.raises(InputError, match="did you mean 'bounds'"):
            use("bound")
    assert not root.exists()


def test_html_tables_show_the_title_of_an_id_alone():
    shown = table_html(pd.DataFrame({"model": ["m-1"], "model_name": ["M One"], "source": ["a"]}))
    assert "M One" in shown and "m-1" not in shown and "<th>source</th>" in shown


def test_html_tables_escape_cells_and_headings_and_cut_nothing():
    reply = "<script>x</script> & \x1b[31m" + "long " * 60
    shown = table_html(pd.DataFrame({"<th>": [reply]}))
    assert "<script>" not in shown and "<th><th>" not in shown and "\x1b" not in shown
    assert "&lt;script&gt;x&lt;/script&gt; &amp; \\x1b[31m" in shown and "..." not in shown
