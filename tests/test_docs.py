"""The documents: the table of contents is the one that the notebooks go by, and the README's code runs."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import pytest

from slmsafety.report.page import CONTENTS, NEEDS

REPOSITORY = Path(__file__).parents[1]
OFFERS = {
    "published": {"outcomes", "printed", "predictions", "two_suites", "two_judges", "many_models"},
    "demo": {
        *("outcomes", "labels", "metrics", "predictions", "two_suites", "two_judges", "human_labels", "reference"),
        *("controls", "mappings"),
    },
}


def table() -> str:
    """docs/contents.md's table, from contents.csv and what the two studies offer."""
    lines = ["| notebook | artifact | shows | published | demo |", "|---|---|---|---|---|"]
    with CONTENTS.open(encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            cells = []
            for offers in OFFERS.values():
                reasons = [NEEDS[need] for need in row["needs"].split() if need not in offers]
                cells.append(f"left out: {'; '.join(reasons)}" if reasons else "yes")
            lines.append(f"| {row['notebook']} | `{row['artifact']}` | {row['what']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def test_the_table_of_contents_is_up_to_date():
    text = (REPOSITORY / "docs/contents.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- table -->\n(.*?)\n?<!-- /table -->", text, re.DOTALL)
    assert found
    assert found[1] == table(), f"put this into docs/contents.md:\n{table()}"


def test_the_committed_artifacts_are_those_of_the_table():
    listed = set(re.findall(r"^\| \w+ \| `(\w+)` \|.*?\| (?:yes) \| [^|]*\|$", table(), re.MULTILINE))
    made = {path.stem for path in (REPOSITORY / "figures/published").glob("*.png")}
    made |= {path.stem for path in (REPOSITORY / "paper/tables/published").glob("*.csv")}
    assert made == listed


def readme_python() -> str:
    """The README's Python example."""
    found = re.search(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def test_the_readme_example_reads_the_judgments_table(tmp_path, monkeypatch, capsys):
    """Its lines run on an imported study and print rates that add up to 1."""
    from slmsafety.study import Study

    (tmp_path / "params").mkdir()
    (tmp_path / "judged.csv").write_text(
        "suite,instance_id,model,judge,score\ns,1,m,j,0\ns,2,m,j,0.5\ns,3,m,j,1\ns,4,m,j,1\n"
    )
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    Study.load({"name": "mine", "kind": "imported", "judged_csv": "judged.csv"}).collect()
    shutil.move(tmp_path / "runs/mine", tmp_path / "runs/demo")
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(compile(readme_python(), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    (rates,) = [line.split()[3:] for line in printed.splitlines() if line.startswith("j     s ") or "s     m" in line]
    assert [float(rate) for rate in rates] == [0.25, 0.25, 0.5]


@pytest.mark.parametrize("command", ["make figures", "make test", "slmsafety collect demo", "slmsafety status demo"])
def test_the_readme_names_the_commands(command):
    assert command in (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_every_file_that_the_readme_links_exists():
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (REPOSITORY / link).exists()] == []
