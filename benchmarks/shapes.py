"""Every notebook on a study of every shape: does it end, and does it show nothing that is undefined?

    python benchmarks/shapes.py
    python benchmarks/shapes.py --shapes 3       # the first three shapes

Prints a line for each shape with the seconds of each notebook, how many artifacts it left out with a reason, and what
is wrong. Exits with 1 where anything is.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import time
import traceback
from pathlib import Path

from notebook_cells import NOTEBOOKS, problems, run_notebook
from sizes import size_parser
from study_shapes import SHAPES, write_study

SIZES = {"shapes": (len(SHAPES), 2)}


def main() -> int:
    parser = size_parser(__doc__, SIZES)
    parser.add_argument("--only", help="run one shape, by its name")
    options = parser.parse_args()
    chosen = [options.only] if options.only else list(SHAPES)[: options.shapes]
    wrong = []
    print(f"{'shape':32}" + "".join(f"{path.stem.split('_')[0]:>14}" for path in NOTEBOOKS))
    for number, name in enumerate(chosen):
        with tempfile.TemporaryDirectory() as scratch:
            for folder in ("params", "notebooks"):
                Path(scratch, folder).mkdir()
            os.environ["SLMSAFETY_ROOT"] = scratch
            line, found = one_shape(f"shape{number}", name, Path(scratch))
        print(f"{name:32}" + "".join(f"{cell:>14}" for cell in line), flush=True)
        print(*(f"  {problem}" for problem in found), sep="\n", end="\n" if found else "", flush=True)
        wrong += found
    print(f"{len(chosen)} shapes, {len(NOTEBOOKS)} notebooks each: {len(wrong)} problems")
    return 1 if wrong else 0


def one_shape(study_name: str, name: str, root: Path) -> tuple[list[str], list[str]]:
    """Return a cell for each notebook, and the problems of all."""
    with contextlib.redirect_stdout(io.StringIO()):
        study = write_study(study_name, SHAPES[name](), root)
    cells, wrong = [], []
    for path in NOTEBOOKS:
        started = time.perf_counter()
        try:
            shown = run_notebook(path, study, repeats=2)
            found = problems(shown)
            state = f"{len(found)} wrong" if found else f"-{len(shown.left_out)}"
        except Exception as error:  # noqa: BLE001 - a notebook that stops is what is looked for
            at = traceback.extract_tb(error.__traceback__)[-1]
            found, state = [f"stops: {type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"], "stops"
        wrong += [f"{path.stem}: {problem}" for problem in found]
        cells.append(f"{state} {time.perf_counter() - started:.1f}s")
    return cells, wrong


if __name__ == "__main__":
    raise SystemExit(main())
