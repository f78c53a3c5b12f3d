"""Imports run one way, stages never import each other, and no module is long."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULE_LINES = 400

STAGES = {"generation", "importers", "judging", "metrics", "published"}
# A room may import itself and the rooms on lower floors; rooms of one floor never import each other.
FLOORS: list[set[str]] = [
    *(
        {"__main__"},
        {"cli"},
        {"cli_import"},
        {"study"},
        {"pipeline"},
        {"params"},
        STAGES,
        {"models", "suites", "replies"},
    ),
    *({"records", "plugins"}, {"paths"}, {"errors"}, {"__init__"}),
]
BELOW = {room: set().union(*FLOORS[floor + 1 :]) for floor, rooms in enumerate(FLOORS) for room in rooms}
# Beside the floors stand two rooms that know nothing of studies: statistics, and what is drawn and written.
BESIDE = {"analysis": {"errors", "records.schema"}, "report": {"errors", "records.schema", "records.files"}}
KNOWN_BY = {"analysis": {"pipeline", "study", "cli"}, "report": {"cli"}}
MAY_IMPORT = BESIDE | {
    room: below | {beside for beside, rooms in KNOWN_BY.items() if room in rooms} for room, below in BELOW.items()
}
IN_NOTEBOOKS = {"study", "analysis", "report"}
# Statistics know no files and no pictures, drawing knows no statistics.
FOREIGN = {
    "analysis": {"matplotlib", "seaborn", "pathlib", "os", "io", "tempfile", "shutil", "pydantic"},
    "report": {"scipy", "statsmodels", "sklearn"},
}


def imported(source: str, package: str) -> set[str]:
    """The dotted names that a module's source imports; `package` is where its relative imports start."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def outside(names: set[str], allowed: set[str]) -> list[str]:
    """The names of the package that neither are an allowed part nor lie in one; the version is everybody's."""
    own = {name.removeprefix("slmsafety.") for name in names if name.split(".")[0] == "slmsafety"} - {"__version__"}
    return sorted(name for name in own if not any(f"{name}.".startswith(f"{part}.") for part in allowed))


def module_problems(root: Path) -> list[str]:
    """What src/slmsafety under `root` imports against the rules, and which of its modules are long."""
    package, problems = root / "src/slmsafety", []
    for path in sorted(package.rglob("*.py")):
        relative, source = path.relative_to(package), path.read_text("utf-8")
        room = relative.parts[0].removesuffix(".py")
        names = imported(source, ".".join(["slmsafety", *relative.parts[:-1]]))
        wrong = [f"slmsafety.{name}" for name in outside(names, MAY_IMPORT.get(room, set()) | {room})]
        wrong += sorted(name for name in names if name.split(".")[0] in FOREIGN.get(room, set()))
        problems += [f"{relative} imports {name}" for name in wrong]
        if room not in MAY_IMPORT:
            problems.append(f"{relative} stands on no floor")
        if source.count("\n") > MODULE_LINES:
            problems.append(f"{relative} has more than {MODULE_LINES} lines")
    return problems


def notebook_problems(root: Path) -> list[str]:
    """What the notebooks under `root` import of the package besides study, analysis and report."""
    return [
        f"{path.name} imports slmsafety.{name}"
        for path in sorted((root / "notebooks").glob("*.py"))
        for name in outside(imported(path.read_text("utf-8"), ""), IN_NOTEBOOKS)
    ]


def test_the_package_imports_one_way():
    assert list((ROOT / "src/slmsafety").rglob("*.py")), "no module found"
    assert module_problems(ROOT) == []


def test_notebooks_import_only_study_analysis_and_report():
    assert list((ROOT / "notebooks").glob("*.py")), "no notebook found"
    assert notebook_problems(ROOT) == []


@pytest.mark.parametrize(
    ("module", "source", "problem"),
    [
        ("records/store.py", "from slmsafety.models.cards import card", "imports slmsafety.models.cards.card"),
        ("suites/sst.py", "def f():\n    import slmsafety.judging.rules", "imports slmsafety.judging.rules"),
        ("suites/sst.py", "from ..judging import rules", "imports slmsafety.judging.rules"),
        ("suites/sst.py", "from slmsafety import study", "imports slmsafety.study"),
        ("params/study.py", "from slmsafety.pipeline.run import Run", "imports slmsafety.pipeline.run.Run"),
        ("pipeline/run.py", "from slmsafety import study", "imports slmsafety.study"),
        ("study/study.py", "from slmsafety.report import save", "imports slmsafety.report.save"),
        ("judging/base.py", "from slmsafety.analysis import ties", "imports slmsafety.analysis.ties"),
        ("analysis/bounds.py", "from slmsafety.records.store import read", "imports slmsafety.records.store.read"),
        ("analysis/bounds.py", "from slmsafety.study import Study", "imports slmsafety.study.Study"),
        ("analysis/bounds.py", "from pathlib import Path", "imports pathlib.Path"),
        ("report/save.py", "import scipy.stats", "imports scipy.stats"),
        ("report/page.py", "from slmsafety.study import Study", "imports slmsafety.study.Study"),
        ("elsewhere/base.py", "", "stands on no floor"),
        ("analysis/bounds.py", "x = 1\n" * (MODULE_LINES + 1), f"has more than {MODULE_LINES} lines"),
    ],
)
def test_a_wrong_module_is_found(tmp_path, module, source, problem):
    path = tmp_path / "src/slmsafety" / module
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert module_problems(tmp_path) == [f"{module} {problem}"]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("suites/sst.py", "from slmsafety import __version__\nfrom .source import read\nfrom ..records import ids\n"),
        ("judging/base.py", "from slmsafety.models.client import Endpoint\n"),
        ("analysis/bounds.py", "from slmsafety.records.schema import LABELS\nfrom slmsafety.analysis import ties\n"),
        ("pipeline/noise.py", "from slmsafety.params.study import StudyParams\nfrom slmsafety.analysis import ties\n"),
        ("cli.py", "import os\nfrom slmsafety.study import Study\nfrom slmsafety.report.text import visible\n"),
    ],
)
def test_a_right_module_passes(tmp_path, module, source):
    path = tmp_path / "src/slmsafety" / module
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert module_problems(tmp_path) == []


def test_a_notebook_that_reaches_below_the_study_is_found(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/01_rankings.py").write_text(
        "# %%\nfrom slmsafety import study\nfrom slmsafety.report import save\n\n# %%\nfrom slmsafety import records\n"
    )
    assert notebook_problems(tmp_path) == ["01_rankings.py imports slmsafety.records"]
