"""The verb `import`: a file of judged replies -> a params file, the study's tables, and what to do next."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from slmsafety.errors import InputError, visible
from slmsafety.paths import is_file, project_root
from slmsafety.pipeline.import_runs import read_sources
from slmsafety.records.files import write_atomic
from slmsafety.study.study import Study

_HELM_FILE = "run_spec.json"
_HELM_KEYS = ("model", "polarity", "helm_version")
# What the keys that a message tells to add are called on the command line.
_OPTIONS = {
    "columns: {": "--column OURS=THEIRS",
    **{f"{key}: NAME": f"--{key} NAME" for key in ("suite", "model", "judge")},
    "judges: {NAME: COLUMN": "--judge-column JUDGE=COLUMN",
    "scores: {higher": "--higher",
    "scores.map": "--map VALUE=MEANING",
    "scores: {map": "--map VALUE=MEANING",
    "cuts": "--cuts A,B",
    "other: missing": "--other missing",
    "checked: true": "--checked",
    **{f"add {key}:": f"--{key}" for key in ("format", "encoding", "delimiter")},
}


def import_file(path: Path, name: str, said: Mapping[str, Any], dry_run: bool = False) -> Study:
    """Make a study of kind `imported` of a file of judged replies, or of HELM runs, and collect it.

    Prints what was understood of the source, what became of each judgment, and the next command. The params file is
    written when everything has been read; the same call again imports the same file anew.

    Parameters
    ----------
    path : Path
        A table of judged replies, a HELM run folder, or a folder of those.
    name : str
        The study's name: params/<name>.yaml.
    said : mapping
        What is known of the source, in the words of an entry of `judged_tables` (of `helm_runs` for a folder); with a
        `polarity` a file is one of AirBench's scored files (`airbench_scored`).
    dry_run : bool
        Only read and print; nothing is written.

    Returns
    -------
    Study
        The study, collected unless it is a dry run.

    Raises
    ------
    InputError
        Where the source cannot be read as `said`, and where the params file is there and says something else.
    """
    root = project_root()
    given = {"name": name, "kind": "imported", **_sources(path, said, root)}
    target = root / "params" / f"{name}.yaml"
    study = Study.load(given)
    text = yaml.safe_dump({"study": given}, sort_keys=False, allow_unicode=True, width=120)
    if is_file(target) and target.read_text("utf-8") != text:
        raise InputError(
            f"{target} is there and says something else; run: slmsafety collect {name}, or choose another name"
        )
    try:
        read = read_sources(study.run)
    except InputError as error:
        raise InputError(f"{error}{_as_options(str(error))}") from error
    for table in read.tables:
        print(*map(visible, table.lines()), sep="\n")
    if dry_run:
        print(*(visible(counts.line) for counts in read.counts), sep="\n")
        print(
            f"nothing is written; without --dry-run {target} would be:",
            *map(visible, text.split("\n")),
            sep="\n",
            end="",
        )
        return study
    print(f"params: {write_atomic(target, text.encode())}")
    study = Study.load(name)
    study.collect()
    print(f"next: slmsafety figures {name}")
    return study


def _as_options(message: str) -> str:
    """How the command line says the keys that a message names."""
    options = dict.fromkeys(option for key, option in _OPTIONS.items() if key in message)
    return f" (as options here: {', '.join(options)})" if options else ""


def _sources(path: Path, said: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The key of a study that names a source, with what is said of it."""
    if not path.exists():
        raise InputError(f"'{path}' does not exist")
    if path.is_dir():
        specs = [path / _HELM_FILE] if (path / _HELM_FILE).exists() else sorted(path.glob(f"*/{_HELM_FILE}"))
        runs = [spec.parent for spec in specs]
        if not runs:
            raise InputError(f"'{path}' is a folder without HELM runs ({_HELM_FILE}); name a file of judged replies")
        for key in said:
            if key not in _HELM_KEYS:
                raise InputError(f"'{key}' means nothing for HELM runs ({path}); remove it")
        return {"helm_runs": [{"path": _portable(run, root), **said} for run in runs]}
    entry = {"path": _portable(path, root), **said}
    return {"airbench_scored" if "polarity" in said else "judged_tables": [entry]}


def _portable(path: Path, root: Path) -> str:
    """A path as a params file has it: from the project's root where it lies below it."""
    whole = Path(os.path.abspath(path))
    if "$" in str(whole):
        raise InputError(f"'{path}' holds a $, which means a variable in a params file; rename it")
    return str(whole.relative_to(root) if whole.is_relative_to(root) else whole)
