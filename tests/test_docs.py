"""The documents: their links and commands are right, the table of contents is the code's, the README's code runs."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest

from slmsafety.cli import make_parser
from slmsafety.report.contents import all_artifacts
from slmsafety.study import Study

REPOSITORY = Path(__file__).parents[1]
PAGES = sorted(page for pattern in ("*.md", "docs/*.md", "examples/*.md") for page in REPOSITORY.glob(pattern))


@pytest.fixture(scope="module")
def capabilities() -> frozenset[str]:
    """What the study whose artifacts are committed can show."""
    return frozenset(Study.load("published").about()["capabilities"])


def test_the_table_of_contents_is_up_to_date():
    text = (REPOSITORY / "docs/contents.md").read_text(encoding="utf-8")
    assert "<!-- table -->" in text
    assert text == runpy.run_path(str(REPOSITORY / "docs/contents.py"))["written"](text), "run: make sync"


def test_the_committed_artifacts_are_those_of_the_list(capabilities):
    listed = {artifact.name for artifact in all_artifacts() if not artifact.reason(capabilities)}
    made = {path.stem for path in (REPOSITORY / "figures/published").glob("*.png")}
    made |= {path.stem for path in (REPOSITORY / "paper/tables/published").glob("*.csv")}
    assert made == listed


def commands(text: str) -> list[str]:
    """The command lines of `slmsafety` in a page's code: indented, fenced, or between backticks with an argument."""
    fenced = "\n".join(re.findall(r"^```.*\n((?:.*\n)*?)```", text, re.MULTILINE))
    code = [*fenced.splitlines(), *(line for line in text.splitlines() if line.startswith("    "))]
    blocks = [found[1] for line in code if (found := re.match(r"\s*(?:\$ )?slmsafety ([a-z].*)", line))]
    spans = [part for span in re.findall(r"`(slmsafety [^`]*)`", text) for part in span.split("&&")]
    return [*blocks, *(span.strip().removeprefix("slmsafety ") for span in spans)]


def parses(command: str) -> bool:
    """Whether the command line takes these words; a bare verb in a sentence only has to exist."""
    words = shlex.split(command, comments=True)
    for tried in (words, [*words, "STUDY"]) if len(words) == 1 else (words,):
        try:
            make_parser().parse_args(tried)
        except SystemExit:
            continue
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_command_of_a_page_is_one(page):
    assert [line for line in commands(page.read_text(encoding="utf-8")) if not parses(line)] == []


def test_commands_are_found_and_wrong_ones_are_refused(capsys):
    block = "slmsafety words of a sentence\n    slmsafety collect demo --stage judge   # one\n"
    page = f"{block}```sh\n$ slmsafety suites\n```\nThen `slmsafety status x && slmsafety models`, `slmsafety noise`."
    assert commands(page) == ["suites", "collect demo --stage judge   # one", "status x", "models", "noise"]
    assert all(map(parses, commands(page)))
    assert not parses("colect demo") and not parses("collect demo --stages judge") and not parses("models demo")


def readme_python() -> str:
    """The README's Python example."""
    found = re.search(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def test_the_readme_example_reads_the_judgments_table(tmp_path, monkeypatch, capsys):
    """Its lines run on an imported study and print rates that add up to 1."""
    (tmp_path / "params").mkdir()
    (tmp_path / "judged.csv").write_text(
        "suite,instance_id,model,judge,score\ns,1,m,j,0\ns,2,m,j,0.5\ns,3,m,j,1\ns,4,m,j,1\n"
    )
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    Study.load({"name": "mine", "kind": "imported", "judged_csv": "judged.csv"}).collect()
    shutil.move(tmp_path / "runs/mine/imports/1", tmp_path / "runs/demo")
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(compile(readme_python(), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    (rates,) = [line.split()[3:] for line in printed.splitlines() if line.startswith("j     s ") or "s     m" in line]
    assert [float(rate) for rate in rates] == [0.25, 0.25, 0.5]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_file_that_a_page_links_exists(page):
    assert [link for link in links(page) if not (page.parent / link).exists()] == []


def test_the_index_leads_to_every_page():
    index = REPOSITORY / "docs/index.md"
    linked = {(index.parent / link).resolve() for link in links(index)}
    assert [page.name for page in PAGES if page.resolve() not in linked | {index}] == []


def links(page: Path) -> list[str]:
    """The files that a page links."""
    found = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    return [link for link in found if "://" not in link]
