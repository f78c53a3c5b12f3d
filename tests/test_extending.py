"""docs/extending.md is followed to the letter: its files are written, its edits made, its commands run."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from servers import Server, asked, completion, running
from test_imports import module_problems

from slmsafety.cli import main
from slmsafety.study import Study

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs/extending.md").read_text(encoding="utf-8")
OUTSIDE, INSIDE = PAGE.split("\n## Inside the package\n")
URL = "http://localhost:8000/v1"
# Tests that go by lists of suites, rubrics, judges, cards, artifacts and notebooks.
OF_LISTS = (
    *("tests/test_docs.py", "tests/test_notebook_pairs.py", "tests/report/test_page.py"),
    *("tests/suites/test_suite_catalogue.py", "tests/judging/test_registry.py", "tests/models/test_cards.py"),
)


class Command(NamedTuple):
    """A command of the page, and the lines that it prints according to the page."""

    words: list[str]
    prints: list[str]


def blocks(text: str) -> list[tuple[str, str, str]]:
    """The page's code blocks: the file named above each ("" for none), its kind, its text."""
    found = re.findall(r"^(?:`([^`\n]+)`:\n\n)?```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(found) == text.count("\n```") / 2
    return found


def commands(text: str) -> list[Command]:
    """The page's commands, in their order."""
    sessions = [body for _, kind, body in blocks(text) if kind == "console"]
    return [
        Command(shlex.split(line), printed)
        for session in sessions
        for line, *printed in (part.splitlines() for part in session.removeprefix("$ ").split("\n$ "))
    ]


def inserted(text: str, edit: str) -> str:
    """The text after an edit of the page: its lines with "+" stand before or after the lines without it."""
    lines = text.splitlines()
    for hunk in edit.removesuffix("\n").split("\n@@\n"):
        new = [line[1:] for line in hunk.splitlines() if line.startswith("+")]
        there = [line[1:] for line in hunk.splitlines() if not line.startswith("+")]
        starts = range(len(lines) - len(there) + 1)
        (at,) = (i for i in starts if all(map(str.startswith, lines[i:], there)))
        at += 0 if hunk.startswith("+") else len(there)
        lines[at:at] = new
    return "\n".join(lines) + "\n"


def write(root: Path, text: str, url: str) -> None:
    """Write the page's files and make its edits below a folder; its server is the one at `url`."""
    for name, kind, body in blocks(text):
        path = root / name
        if kind == "diff":
            path.write_text(inserted(path.read_text("utf-8"), body), encoding="utf-8")
        elif name:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body.replace(URL, url), encoding="utf-8")


def answer(path: str, body: dict) -> tuple:
    """A judge that is content where it is asked to grade, and a polite model else."""
    if "You grade one reply" in asked(body):
        return completion("<reasoning>Polite.</reasoning>\n<score>1</score>", model=body["model"])
    return completion("With pleasure. Sorry that it took a while.", model=body["model"])


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(Server(answer)) as found:
        yield found


@pytest.fixture(scope="module")
def outside(tmp_path_factory, server):
    """A project root in which all that the page says of one's own files was done."""
    root = tmp_path_factory.mktemp("outside")
    (root / "params").mkdir()
    write(root, OUTSIDE, server.url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLMSAFETY_ROOT", str(root))
        patch.chdir(root)
        for command in commands(OUTSIDE):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                assert main(command.words[1:]) == 0
            printed = out.getvalue().splitlines()
            assert command.prints and [line for line in command.prints if line not in printed] == []
        yield root


def rows(root: Path, study: str, table: str) -> pd.DataFrame:
    return pd.concat(map(pd.read_parquet, sorted((root / "runs" / study / table).rglob("*.parquet"))))


def test_the_page_shows_the_files_of_examples():
    shown = {name: body for name, kind, body in blocks(OUTSIDE) if name}
    assert {name: (REPOSITORY / name).read_text("utf-8") for name in shown} == shown
    assert {Path(name).suffix for name in shown} == {".csv", ".yaml", ".py"}


def test_an_own_suite_judge_and_metric_are_in_the_tables(outside):
    outcomes = Study.load("examples/own_suite.yaml").outcomes()
    assert outcomes[["suite_title", "n"]].to_numpy().tolist() == [["Manners", 5]]
    prompts = rows(outside, "own_suite", "prompts")
    assert prompts["group"].value_counts()["jar"] == 2
    judged = rows(outside, "own_suite", "judgments")
    own = judged[judged["judge"] == "declines"]
    assert len(own) == 10 and own["label"].isin([0, 1, 2]).all()
    assert set(own["reason"]) <= {"refusal", "off_topic", "compliance"}
    metrics = rows(outside, "own_suite", "own_metrics")
    assert set(metrics["metric"]) == {"sentence_words"} and metrics["value"].between(1, 24).all()


def test_an_own_rubric_is_what_the_judge_is_asked(outside, server):
    judged = rows(outside, "own_rubric", "judgments")
    assert judged[["label", "reason"]].drop_duplicates().to_numpy().tolist() == [[2, "polite"]]
    graded = [prompt for prompt in server.asked if "Decide only how polite it is" in prompt]
    assert len(graded) == len(judged) == 10
    assert all("0.5: it is neither polite nor rude, or it is garbled" in prompt for prompt in graded)
    assert Study.load("examples/own_rubric_study.yaml").outcomes()["model_name"].tolist() == ["My model"]


@pytest.fixture(scope="module")
def inside(tmp_path_factory, server):
    """A copy of the project in which all that the page says of the package was done."""
    root = tmp_path_factory.mktemp("inside") / "project"
    left_out = shutil.ignore_patterns(".git", ".venv", "runs", "build", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(REPOSITORY, root, ignore=left_out)
    write(root, INSIDE, server.url)
    run(root, "ruff", "check", "--fix", "--quiet", *modules())
    for command in commands(INSIDE):
        printed = run(root, *command.words).splitlines()
        assert [line for line in command.prints if line not in printed] == []
    return root


def modules() -> list[str]:
    """The modules of the package that the page adds or edits."""
    return [name for name, _, _ in blocks(INSIDE) if name.startswith("src/") and name.endswith(".py")]


def run(root: Path, program: str, *arguments: str) -> str:
    """What a command prints in the copied project, with the copied package."""
    command = [sys.executable, "-m", program, *arguments]
    if program == "make":  # the environment is there already
        command = ["make", "-o", "setup", *arguments, f"VENV={sys.prefix}"]
    elif program == "mkdir":
        command = [program, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "SLMSAFETY_ROOT": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_suite_a_rubric_and_a_judge_of_the_package_work(inside, server):
    judged = rows(inside, "greetings", "judgments").set_index("judge")
    assert judged.loc["keywords", ["label", "reason"]].to_numpy().tolist() == [[2, "refusal"]] * 2
    assert judged.loc["my-judge", ["label", "reason"]].to_numpy().tolist() == [[2, "warm"]] * 2
    assert sum("Decide only how friendly it is" in prompt for prompt in server.asked) == 2


def test_a_figure_of_the_package_is_drawn_and_listed(inside):
    kinds = ("paper/figures/published/score_spread.pdf", "figures/published/score_spread.png")
    assert [(inside / kind).stat().st_size > 1000 for kind in kinds] == [True, True]
    assert "| 01_rankings | `score_spread` | mean scores" in (inside / "docs/contents.md").read_text("utf-8")


def test_no_test_of_lists_fails_after_the_additions(inside):
    run(inside, "pytest", "-q", "-p", "no:cacheprovider", *OF_LISTS)
    run(inside, "ruff", "format", "--check", "--quiet", *modules())


def test_the_additions_import_one_way(inside):
    assert (inside / "src/slmsafety/suites/greetings.py").exists()
    assert set(module_problems(inside)) <= set(module_problems(REPOSITORY))


def test_what_is_added_outside_edits_nothing_and_inside_two_files_at_most():
    edits = {name for name, kind, _ in blocks(INSIDE) if kind == "diff"}
    sections = INSIDE.split("\n### ")
    counts = [sum(f"`{name}`:" in section for name in edits) for section in sections]
    assert not any(kind == "diff" for _, kind, _ in blocks(OUTSIDE))
    assert max(counts) == 2
