"""Each notebook is a pair, .ipynb and .py, that holds the same cells, no outputs, and prose and calls only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jupytext
import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
CELL_LINES = 15
NOTEBOOK_LINES = 250
MACHINE_PATH = re.compile(r"/[^\s/]|~(/|$)")


def pairs(folder: Path) -> list[Path]:
    """The notebooks of a folder as paths without suffix, whichever half of the pair exists."""
    return sorted({path.with_suffix("") for suffix in ("ipynb", "py") for path in folder.glob(f"*.{suffix}")})


def text_cells(notebook: nbformat.NotebookNode) -> list[tuple[str, str, list[str]]]:
    """What both halves of a pair must share: type, source and tags of each cell."""
    return [(c.cell_type, c.source.strip("\n"), sorted(c.metadata.get("tags", []))) for c in notebook.cells]


def code_problems(source: str) -> list[str]:
    """What one code cell holds that belongs elsewhere."""
    problems = []
    if len(source.splitlines()) > CELL_LINES:
        problems.append(f"has over {CELL_LINES} lines")
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return [*problems, "is not plain Python"]
    nodes = list(ast.walk(tree))
    if any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in nodes):
        problems.append("defines a function or class")
    # Only the first piece of an f-string starts a string.
    later = {id(piece) for node in nodes if isinstance(node, ast.JoinedStr) for piece in node.values[1:]}
    constants = [node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in later]
    strings = [value for value in constants if isinstance(value, str)]
    problems += [f"names a path of a machine: {text!r}" for text in strings if MACHINE_PATH.match(text)]
    return problems


def shadowing(sources: list[str]) -> list[str]:
    """The names that a notebook imports and also assigns: a later cell would call what an earlier one has put there."""
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    names = [alias for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names]
    imported = {(alias.asname or alias.name).split(".")[0] for alias in names}
    inner = {
        id(target)
        for node in nodes
        if isinstance(node, ast.comprehension)  # has names of its own
        for target in ast.walk(node.target)
    }
    assigned = {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inner
    }
    return sorted(imported & assigned)


def state_problems(notebook: nbformat.NotebookNode) -> list[str]:
    """What a run left in a notebook, and a header that names another kernel than python3."""
    problems = []
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        problems.append("kernelspec is not python3")
    if "papermill" in notebook.metadata:
        problems.append("papermill metadata in the notebook")
    for number, cell in enumerate(notebook.cells):
        if "papermill" in cell.metadata:
            problems.append(f"cell {number}: papermill metadata")
        if "injected-parameters" in cell.metadata.get("tags", []):
            problems.append(f"cell {number}: parameters injected by papermill")
        if cell.get("outputs") or cell.get("execution_count") is not None:
            problems.append(f"cell {number}: outputs or an execution count")
    return problems


def pair_problems(stem: Path) -> list[str]:
    """Everything that is wrong with one pair; empty when it is as it should be."""
    ipynb, script = stem.with_suffix(".ipynb"), stem.with_suffix(".py")
    missing = [f"{path.name} is missing" for path in (ipynb, script) if not path.exists()]
    if missing:
        return missing
    notebook, text = jupytext.read(ipynb), jupytext.read(script)
    problems = state_problems(notebook)
    if text.metadata.get("kernelspec", {}).get("name") != "python3":
        problems.append("kernelspec of the .py is not python3")
    if len(notebook.cells) != len(text.cells):
        problems.append(f"{len(notebook.cells)} cells in the .ipynb, {len(text.cells)} in the .py")
    for number, (left, right) in enumerate(zip(text_cells(notebook), text_cells(text), strict=False)):
        if left != right:
            problems.append(f"cell {number} differs")
    for number, cell in enumerate(text.cells):
        if cell.cell_type == "code":
            problems += [f"cell {number} {problem}" for problem in code_problems(cell.source)]
    if sum("parameters" in cell.metadata.get("tags", []) for cell in text.cells) != 1:
        problems.append("not exactly one cell is tagged parameters")
    if len(script.read_text("utf-8").splitlines()) >= NOTEBOOK_LINES:
        problems.append(f"has {NOTEBOOK_LINES} lines or more")
    return problems


def test_there_are_notebooks():
    assert pairs(NOTEBOOKS), "no notebook found"


@pytest.mark.parametrize("stem", pairs(NOTEBOOKS), ids=lambda stem: stem.name)
def test_pair(stem):
    assert pair_problems(stem) == []


# The checks themselves: a sound pair passes, and each fault alone is found.


@pytest.fixture
def sound(tmp_path):
    """The stem of a pair without fault."""
    cells = [
        nbformat.v4.new_markdown_cell("# Which models rank first?"),
        nbformat.v4.new_code_cell('study: str = "published"  # a name', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell('label = f"{study}/rates"\nlabel, "a / b"'),
    ]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    write(tmp_path / "01_sound", nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec}))
    return tmp_path / "01_sound"


def write(stem: Path, notebook: nbformat.NotebookNode) -> None:
    """Write both halves of a pair."""
    nbformat.write(notebook, stem.with_suffix(".ipynb"))
    jupytext.write(notebook, stem.with_suffix(".py"), fmt="py:percent")


def edit(path: Path, old: str, new: str) -> None:
    """Replace one text of a file."""
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_a_sound_pair_passes(sound):
    assert pairs(sound.parent) == [sound]
    assert pair_problems(sound) == []


@pytest.mark.parametrize("suffix", [".ipynb", ".py"])
def test_half_a_pair_is_found(sound, suffix):
    sound.with_suffix(suffix).unlink()
    assert pair_problems(pairs(sound.parent)[0]) == [f"01_sound{suffix} is missing"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("# # Which models", "# # What models", "cell 0 differs"),
        ("# %% [markdown]", "# %% [raw]", "cell 0 differs"),
        ('tags=["parameters"]', 'tags=["parameters", "wide"]', "cell 1 differs"),
        ("name: python3", "name: mine", "kernelspec of the .py is not python3"),
    ],
)
def test_halves_that_differ_are_found(sound, old, new, problem):
    edit(sound.with_suffix(".py"), old, new)
    assert pair_problems(sound) == [problem]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def f():\n    return 1", "cell 2 defines a function or class"),
        ("class Model: ...", "cell 2 defines a function or class"),
        ("\n".join(["x = 1"] * 16), "cell 2 has over 15 lines"),
        ("x = 1 +", "cell 2 is not plain Python"),
        ('x = "/data/runs"', "cell 2 names a path of a machine: '/data/runs'"),
        ('x = f"~/{study}"', "cell 2 names a path of a machine: '~/'"),
    ],
)
def test_code_that_belongs_elsewhere_is_found(sound, source, problem):
    notebook = jupytext.read(sound.with_suffix(".ipynb"))
    notebook.cells[2].source = source
    write(sound, notebook)
    assert pair_problems(sound) == [problem]


def test_a_long_notebook_is_found(sound):
    notebook = jupytext.read(sound.with_suffix(".ipynb"))
    notebook.cells[0].source = "\n".join(["prose"] * NOTEBOOK_LINES)
    write(sound, notebook)
    assert pair_problems(sound) == ["has 250 lines or more"]


def test_a_missing_parameters_cell_is_found(sound):
    notebook = jupytext.read(sound.with_suffix(".ipynb"))
    notebook.cells[1].metadata.tags = []
    write(sound, notebook)
    assert pair_problems(sound) == ["not exactly one cell is tagged parameters"]


def _executed(notebook):
    notebook.cells[1].execution_count = 3


def _shown(notebook):
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="0.5")]


def _stamped(notebook):
    notebook.metadata["papermill"] = {"version": "2.7.0"}


def _stamped_cell(notebook):
    notebook.cells[0].metadata["papermill"] = {"status": "completed"}


def _injected(notebook):
    notebook.cells[2].metadata.tags = ["injected-parameters"]


def _other_kernel(notebook):
    notebook.metadata.kernelspec.name = "mine"


def _one_cell_more(notebook):
    notebook.cells.append(nbformat.v4.new_markdown_cell("More."))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_executed, "cell 1: outputs or an execution count"),
        (_shown, "cell 1: outputs or an execution count"),
        (_stamped, "papermill metadata in the notebook"),
        (_stamped_cell, "cell 0: papermill metadata"),
        (_injected, "cell 2: parameters injected by papermill"),
        (_other_kernel, "kernelspec is not python3"),
        (_one_cell_more, "4 cells in the .ipynb, 3 in the .py"),
    ],
)
def test_what_a_run_leaves_behind_is_found(sound, change, problem):
    ipynb = sound.with_suffix(".ipynb")
    notebook = jupytext.read(ipynb)
    change(notebook)
    nbformat.write(notebook, ipynb)
    assert pair_problems(sound)[0] == problem


@pytest.mark.parametrize("pair", pairs(NOTEBOOKS), ids=lambda pair: pair.name)
def test_no_cell_puts_something_else_under_an_imported_name(pair):
    notebook = jupytext.read(pair.with_suffix(".py"))
    assert shadowing([cell.source for cell in notebook.cells if cell.cell_type == "code"]) == []


def test_a_shadowed_import_is_found():
    assert shadowing(["from a import counts, b", "counts = b(1)\n[b for b in ()]", "for c in (): pass"]) == ["counts"]
