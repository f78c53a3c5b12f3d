"""A notebook's page: what it leaves out, what it escapes, and what it insists on."""

from __future__ import annotations

import pandas as pd
import pytest
from IPython.display import HTML, Image, Markdown

from slmsafety.errors import InputError
from slmsafety.report import page as module
from slmsafety.report.figures import bounds
from slmsafety.report.page import NEEDS, Page, contents, table_html

PUBLISHED = {"outcomes", "printed", "predictions", "two_suites", "two_judges", "many_models"}
NOTEBOOKS = (
    "00_collect",
    "01_rankings",
    "02_decision_usefulness",
    "03_rank_sensitivity",
    "04_ambiguity_drivers",
    "05_quality_aware_reporting",
)


@pytest.fixture
def displayed(monkeypatch) -> list:
    shown: list = []
    monkeypatch.setattr(module, "display", shown.append)
    return shown


def make_page(tmp_path, notebook="05_quality_aware_reporting", offers=PUBLISHED) -> Page:
    return Page(
        notebook, "published", root=tmp_path, parameters={"seed": 1}, inputs={"a": "0" * 64}, offers=set(offers)
    )


def test_contents_use_known_needs_and_each_name_once():
    artifacts = [artifact for notebook in NOTEBOOKS for artifact in contents(notebook).values()]
    assert len({artifact.name for artifact in artifacts}) == len(artifacts) == 55
    for artifact in artifacts:
        assert artifact.needs and set(artifact.needs) <= set(NEEDS), artifact.name
        assert artifact.what, artifact.name
    assert {need for artifact in artifacts for need in artifact.needs} == set(NEEDS), "every need has a use"


def test_an_artifact_without_its_needs_is_left_out_in_one_line(tmp_path, displayed):
    page = make_page(tmp_path, "04_ambiguity_drivers")
    assert page.has("table4_metadata") and not displayed
    assert not page.has("fig5_associations")
    (line,) = displayed
    assert isinstance(line, Markdown)
    assert line.data == (
        "**fig5_associations** is left out for study published: "
        "it has no labels of single replies; it has no metrics of single prompts and replies."
    )


def test_several_artifacts_are_left_out_with_a_line_each(tmp_path, displayed):
    page = make_page(tmp_path, "04_ambiguity_drivers")
    assert page.has("table4_metadata", "metadata_ranges") and not displayed
    assert not page.has("table4_metadata", "fig5_associations", "table_associations")
    assert [line.data.split(" is left out")[0] for line in displayed] == [
        "**fig5_associations**",
        "**table_associations**",
    ]


def test_a_whole_page_is_shown_saved_and_summed_up(tmp_path, displayed, full, capsys):
    page = make_page(tmp_path)
    page.figure("bounds", bounds(full))
    page.table("quality_adjusted", pd.DataFrame({"model": ["<b>m</b>"], "s_adj": [0.123456]}), {"s_adj": ".2f"})
    for name in ("rank_sets", "rank_change_check"):
        page.table(name, pd.DataFrame({"model": ["m"]}))
    page.numbers({"pairs": 170})
    page.say("The order of **170** pairs holds.", "Others <i>depend</i> on the reading.")
    page.close()
    image, table, _, _, said = displayed
    assert isinstance(image, Image) and image.data.startswith(b"\x89PNG")
    assert isinstance(table, HTML) and "&lt;b&gt;m&lt;/b&gt;" in table.data and "0.12<" in table.data
    assert said.data == "The order of **170** pairs holds. Others &lt;i&gt;depend&lt;/i&gt; on the reading."
    out = capsys.readouterr().out
    assert str(tmp_path) not in out
    assert (
        "paper/figures/published/bounds.pdf, paper/figures/published/bounds.json, figures/published/bounds.png" in out
    )
    assert "05_quality_aware_reporting, study published: 5 artifacts in 14 files" in out
    assert (tmp_path / "paper/tables/published/quality_adjusted.tex").exists()


def test_closing_names_what_is_missing(tmp_path, displayed):
    page = make_page(tmp_path)
    page.table("quality_adjusted", pd.DataFrame({"a": [1]}))
    page.say("One finding.", " ")
    with pytest.raises(RuntimeError, match=r"lacks: bounds, rank_sets, rank_change_check, 1 more sentence"):
        page.close()


def test_closing_does_not_ask_for_what_the_study_cannot_give(tmp_path, displayed, capsys):
    page = make_page(tmp_path, offers=set())
    page.say("It holds no outcomes.", "So nothing is drawn.")
    page.close()
    assert "left out: bounds, rank_sets, quality_adjusted, rank_change_check" in capsys.readouterr().out


def test_wrong_names_are_refused_with_the_nearest(tmp_path, displayed):
    with pytest.raises(InputError, match="did you mean '01_rankings'"):
        make_page(tmp_path, "01_ranking")
    with pytest.raises(InputError, match="did you mean 'printed'"):
        make_page(tmp_path, offers={"print"})
    page = make_page(tmp_path)
    for use in (page.has, lambda name: page.table(name, pd.DataFrame({"a": [1]}))):
        with pytest.raises(InputError, match="did you mean 'bounds'"):
            use("bound")
    assert not list(tmp_path.iterdir())


def test_html_tables_escape_cells_and_headings_and_cut_nothing():
    reply = "<script>x</script> & \x1b[31m" + "long " * 60
    shown = table_html(pd.DataFrame({"<th>": [reply]}))
    assert "<script>" not in shown and "<th><th>" not in shown and "\x1b" not in shown
    assert "&lt;script&gt;x&lt;/script&gt; &amp; \\x1b[31m" in shown and "..." not in shown
