"""Imports run one way, stages never import each other, and modules stay small."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULE_LINES = 350

STAGES = {"suites", "generation", "judging", "metrics", "importers", "published"}
BASE = {"errors", "records"}
BELOW_STUDY = {*BASE, "models", *STAGES}
PARAMETERS = {"paths", "entries", "judge_entry", "params"}
STAGE_PARTS = {
    "shares",
    "workers",
    "stage_rows",
    "generate_stage",
    "metric_stage",
    "guard_judges",
    "judge_stage",
    "mapped",
}
STUDY_PARTS = {"collect", "estimate", "imported", "naming", "noise"}
# What each folder or module at the top of the package may import of the package, besides itself.
ALLOWED = {
    "__init__": set(),
    "errors": set(),
    "records": {"errors"},
    "models": BASE,
    **{stage: {*BASE, "models"} for stage in STAGES},
    "analysis": {"errors", "records.schema"},
    "report": BASE,
    # The study layer, in its own order; only study counts outcomes.
    "paths": {"errors"},
    "entries": {*BELOW_STUDY, "paths"},
    "judge_entry": {*BELOW_STUDY, "paths", "entries"},
    "params": {*BELOW_STUDY, "paths", "entries", "judge_entry"},
    "shares": {"errors"},
    "workers": {"errors"},
    "stage_rows": {*BELOW_STUDY, *PARAMETERS, "shares"},
    "generate_stage": {*BELOW_STUDY, *PARAMETERS, "shares", "workers", "stage_rows"},
    "guard_judges": {*BELOW_STUDY, "paths", "judge_entry"},
    "metric_stage": {*BELOW_STUDY, *PARAMETERS, "shares", "workers", "stage_rows"},
    "judge_stage": {*BELOW_STUDY, *PARAMETERS, "shares", "stage_rows", "guard_judges"},
    "mapped": {*BELOW_STUDY, *PARAMETERS, "stage_rows", "judge_stage"},
    "collect": {*BELOW_STUDY, *PARAMETERS, *STAGE_PARTS},
    "imported": {*BELOW_STUDY, *PARAMETERS},
    "noise": {*BELOW_STUDY, *PARAMETERS, *STAGE_PARTS, "analysis"},
    "naming": {*BELOW_STUDY, *PARAMETERS},
    "comparisons": {*BELOW_STUDY, *PARAMETERS, "analysis"},
    "distributions": {"published", "analysis"},
    "estimate": {*BELOW_STUDY, *PARAMETERS, *STAGE_PARTS, "collect"},
    "study": {
        *BELOW_STUDY,
        *PARAMETERS,
        *STAGE_PARTS,
        "collect",
        "comparisons",
        "distributions",
        "estimate",
        "imported",
        "naming",
        "noise",
        "analysis",
    },
    "notebooks": {"errors", "study"},
    "judge_cards": {*BELOW_STUDY, "paths", "stage_rows", "study", "analysis", "report"},
    "listing": BELOW_STUDY,
    "cli": {"errors", "listing", "study", "notebooks", "judge_cards", "analysis", "report"},
    "__main__": {"cli"},
}
IN_NOTEBOOKS = {"study", "analysis", "report"}
# What a pure layer must not import: statistics know no files and no pictures, drawing knows no statistics.
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


def inside(name: str, allowed: set[str]) -> bool:
    """Whether a name of the package (without `slmsafety.`) is one of the allowed parts or lies in one."""
    return any(name == part or name.startswith(part + ".") for part in allowed)


def own(names: set[str]) -> set[str]:
    """The names that lie in the package, without `slmsafety.`; the version is everybody's."""
    return {name.removeprefix("slmsafety.") for name in names if name.startswith("slmsafety")} - {"__version__"}


def module_problems(root: Path) -> list[str]:
    """What src/slmsafety under `root` imports against the rules."""
    package, problems = root / "src/slmsafety", []
    for path in sorted(package.rglob("*.py")):
        relative = path.relative_to(package)
        place = relative.parts[0].removesuffix(".py")
        if place not in ALLOWED:
            problems.append(f"{relative} has no place in ALLOWED")
            continue
        names = imported(path.read_text("utf-8"), ".".join(["slmsafety", *relative.parts[:-1]]))
        for name in sorted(own(names)):
            if not inside(name, ALLOWED[place] | {place}):
                problems.append(f"{relative} imports slmsafety.{name}")
        for name in sorted(names):
            if name.split(".")[0] in FOREIGN.get(place, set()):
                problems.append(f"{relative} imports {name}")
    return problems


def notebook_problems(root: Path) -> list[str]:
    """What the notebooks under `root` import of the package besides study, analysis and report."""
    return [
        f"{path.name} imports slmsafety.{name}"
        for path in sorted((root / "notebooks").glob("*.py"))
        for name in sorted(own(imported(path.read_text("utf-8"), "")))
        if not inside(name, IN_NOTEBOOKS)
    ]


def line_counts(root: Path) -> dict[str, int]:
    """The number of lines of each module under `root`, empty ones and bare docstrings left out."""
    package = root / "src/slmsafety"
    counts = {str(p.relative_to(package)): len(p.read_text("utf-8").splitlines()) for p in package.rglob("*.py")}
    return {name: lines for name, lines in counts.items() if lines > 1}


def test_the_package_imports_one_way():
    assert module_problems(ROOT) == []


def test_notebooks_import_only_study_analysis_and_report():
    assert list((ROOT / "notebooks").glob("*.py")), "no notebook found"
    assert notebook_problems(ROOT) == []


def test_no_module_is_long(capsys):
    counts = line_counts(ROOT)
    with capsys.disabled():
        median, most = statistics.median(counts.values()), max(counts.values())
        print(f"\n{len(counts)} modules, median {median:.0f} lines, most {most}")
    assert {name: lines for name, lines in counts.items() if lines > MODULE_LINES} == {}


@pytest.mark.parametrize(
    ("module", "source", "problem"),
    [
        ("records/store.py", "from slmsafety.models.cards import card", "imports slmsafety.models.cards.card"),
        ("suites/sst.py", "def f():\n    import slmsafety.judging.rules", "imports slmsafety.judging.rules"),
        ("suites/sst.py", "from ..judging import rules", "imports slmsafety.judging.rules"),
        ("suites/sst.py", "from slmsafety import study", "imports slmsafety.study.study"),
        ("analysis/bounds.py", "from slmsafety.records.store import read", "imports slmsafety.records.store.read"),
        ("analysis/bounds.py", "from pathlib import Path", "imports pathlib.Path"),
        ("report/save.py", "import scipy.stats", "imports scipy.stats"),
        ("study.py", "from slmsafety.report import save", "imports slmsafety.report.save"),
        ("cli.py", "from slmsafety.models.cards import load_cards", "imports slmsafety.models.cards"),
        ("plugins/base.py", "", "no place in ALLOWED"),
    ],
)
def test_a_wrong_import_is_found(tmp_path, module, source, problem):
    path = tmp_path / "src/slmsafety" / module
    path.parent.mkdir(parents=True)
    path.write_text(source)
    (found,) = module_problems(tmp_path)
    assert found.startswith(module)
    assert problem in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("suites/sst.py", "from slmsafety import __version__\nfrom .source import read\nfrom ..records import ids\n"),
        ("analysis/bounds.py", "from slmsafety.records.schema import LABELS\nfrom slmsafety.analysis import ties\n"),
        ("cli.py", "import os\nfrom slmsafety.study import Study\n"),
    ],
)
def test_a_right_import_passes(tmp_path, module, source):
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


def test_a_long_module_is_counted(tmp_path):
    (tmp_path / "src/slmsafety").mkdir(parents=True)
    (tmp_path / "src/slmsafety/study.py").write_text("x = 1\n" * (MODULE_LINES + 1))
    assert line_counts(tmp_path) == {"study.py": MODULE_LINES + 1}
