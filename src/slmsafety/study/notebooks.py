"""Execute the notebooks on studies: parameters are checked before a kernel starts, results go to build/<study>/."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import papermill as pm
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from slmsafety.errors import InputError, one_line
from slmsafety.study import Study


def execute(studies: list[str]) -> int:
    """Run every notebook on every study, and print what was written.

    All studies are loaded first: bad parameters of the last one stop the run before any kernel starts. After a notebook
    that fails the others go on; those that failed are named at the end.

    Parameters
    ----------
    studies : list of str
        Names in params/, or paths of params files.

    Returns
    -------
    int
        0 when all ran, 1 when a notebook failed, 2 when all that failed did so on bad input (InputError).

    Raises
    ------
    InputError
        For an unknown study or bad parameters, or where the project has no notebook.
    """
    loaded, failed = [Study.load(study) for study in studies], {}
    for study in loaded:
        for notebook in find_notebooks(study.root):
            target = study.root / "build" / study.name / notebook.name
            target.parent.mkdir(parents=True, exist_ok=True)
            started = time.monotonic()
            try:
                _run(notebook, target, study)
            except PapermillExecutionError as error:
                print(one_line(f"{notebook.name} on {study.name}: {error.ename}: {error.evalue}"), file=sys.stderr)
                print(f"the executed notebook shows where: {target.relative_to(study.root)}", file=sys.stderr)
                failed[f"{notebook.name} on {study.name}"] = error.ename
                continue
            except RuntimeError as error:  # a kernel that does not start, or that is killed (out of memory)
                print(one_line(f"{notebook.name} on {study.name}: its kernel ended: {error}"), file=sys.stderr)
                failed[f"{notebook.name} on {study.name}"] = type(error).__name__
                continue
            print(f"{study.name}: {target.relative_to(study.root)} ({time.monotonic() - started:.0f} s)", flush=True)
        for kind in ("figures", "paper/figures", "paper/tables"):
            files = sorted((study.root / kind / study.name).glob("*"))
            print(f"{study.name}: {len(files)} files in {kind}/{study.name}/")
    if not failed:
        return 0
    print(f"{len(failed)} notebook(s) failed: {', '.join(failed)}", file=sys.stderr)
    return 2 if set(failed.values()) == {"InputError"} else 1


def find_notebooks(root: Path) -> list[Path]:
    """Return the project's notebooks (.ipynb) in their order; InputError where there is none."""
    found = sorted((root / "notebooks").glob("*.ipynb"))
    if not found:
        raise InputError(f"{root / 'notebooks'} holds no notebook (.ipynb)")
    return found


def _run(notebook: Path, target: Path, study: Study) -> None:
    """Execute one notebook with the study's resolved parameters, in the root folder, in this environment's kernel."""
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    with tempfile.TemporaryDirectory(prefix="slmsafety-") as sockets:
        pm.execute_notebook(
            str(notebook),
            str(target),
            parameters={"study": study.params.model_dump(mode="json", exclude_defaults=True)},
            kernel_name="python3",
            cwd=str(study.root),
            progress_bar=False,
            # Sockets in the file system: over TCP a kernel now and then finds its port taken and never answers. In a
            # folder of their own: in the working folder those of another run have the same names.
            config=Config({"KernelManager": {"transport": "ipc", "ip": str(Path(sockets, "kernel"))}}),
            # A kernel is ended by an interrupt, which it would report; what fails in a cell comes as an exception.
            extra_arguments=["--log-level=CRITICAL"],
        )
