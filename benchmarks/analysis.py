"""The notebooks of RQ1-RQ5 on a simulated study of the paper's size, 741,312 rows: seconds and memory of each.

    OMP_NUM_THREADS=2 python benchmarks/analysis.py [--prompts 100] [--threads 2] [--nested]

The study (26 models, five suites) is drawn (`simulate.py`: the rates of Table A1, assumed ones for Simple Safety Tests
and BBQ, planted effects), written to a temporary store with a text beside each verdict, and read back as an imported
study. Then every notebook is executed on it by papermill, in a kernel of its own; its time is the whole command's,
start included, and its peak memory the largest of its processes. The nested choice of classifiers is left out without
--nested. What the notebooks show is of drawn labels: no result.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from simulate import Simulated, second_judge, simulate, with_assumed_suites
from sizes import size_parser

from slmsafety import published
from slmsafety.models.cards import load_cards
from slmsafety.records.schema import REPLY_KEY, RESPONSES, TABLES, typed
from slmsafety.records.store import Partition

SEED, TEXT_BYTES = 1337, 200
_TEXT = {"judgments": "raw_text", "responses": "response"}
SIZES = {"prompts": (30_000, 30), "notebooks": (99, 1)}
"""At most so many prompts of each suite, and so many notebooks."""
SUITES = ("airbench", "salad", "harmbench", "sst", "bbq")
NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("0[1-5]*.ipynb"))
OWN = {"04b_predicting_ambiguity": ("threads", "nested")}


def main() -> None:
    parser = size_parser(__doc__, SIZES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--nested", action="store_true", help="with the nested choice of classifiers")
    options = parser.parse_args()
    chosen = NOTEBOOKS[: options.notebooks]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "params").mkdir()
        (root / "none.csv").touch()
        write(draw(options.prompts), root / "runs/simulated")
        study = {"name": "simulated", "kind": "imported", "judged_csv": "none.csv"}
        study |= {"suites": [{"name": name} for name in SUITES]}
        print("| notebook | seconds | peak GB |\n|---|---|---|", flush=True)
        found = [execute(path, root, study, {"threads": options.threads, "nested": options.nested}) for path in chosen]
    print(f"| all | {sum(seconds for seconds, _ in found):.0f} | {max(peak for _, peak in found):.2f} |")


def execute(notebook: Path, root: Path, study: dict[str, object], own: dict[str, object]) -> tuple[float, float]:
    """Execute a notebook on the study and print its line; the script ends where it fails."""
    params = root / "params.yaml"
    params.write_text(yaml.safe_dump({"study": study, **{name: own[name] for name in OWN.get(notebook.stem, ())}}))
    command = [
        sys.executable,
        "-m",
        "papermill",
        str(notebook),
        str(root / "out.ipynb"),
        "-f",
        str(params),
        "--no-progress-bar",
    ]
    started = time.perf_counter()
    with (root / "log").open("w+") as log:
        child = subprocess.Popen(command, env={**os.environ, "SLMSAFETY_ROOT": str(root)}, stdout=log, stderr=log)
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            log.seek(0)
            raise SystemExit(f"{notebook.name} failed:\n{log.read()[-3000:]}")
    seconds, peak = time.perf_counter() - started, usage.ru_maxrss / 2**20
    print(f"| {notebook.stem} | {seconds:.0f} | {peak:.2f} |", flush=True)
    return seconds, peak


def draw(prompts: int) -> Simulated:
    rng = np.random.default_rng(SEED)
    sizes = load_cards().set_index("id")["params_m"]
    counts = published.printed("table6_confusion").groupby(["suite", "gpt"])["count"].sum()["SimpleSafety"]
    rates = with_assumed_suites(published.outcomes(), list(counts / counts.sum()), sizes, rng)
    drawn = simulate(rates.assign(n=rates["n"].clip(upper=prompts)), rng)
    cells = published.printed("table6_confusion").groupby("suite")["count"]
    tables = {published.SUITES[str(suite)]: cell.to_numpy().reshape(3, 3) for suite, cell in cells}
    judgments = pd.concat([drawn.judgments, second_judge(drawn.judgments, tables, rng)], ignore_index=True)
    return drawn._replace(judgments=judgments)


def write(drawn: Simulated, root: Path) -> None:
    """Write the tables; every reply and every judgment gets a text, which analysis must not read."""
    rng = np.random.default_rng(SEED)
    replies = drawn.judgments.drop_duplicates(list(REPLY_KEY))[list(REPLY_KEY)].assign(language="en")
    for name, frame in {**drawn._asdict(), "responses": typed(replies.assign(finish_reason="stop"), RESPONSES)}.items():
        for names, part in frame.groupby(list(TABLES[name].files)):
            if name in _TEXT:
                part = part.assign(**{_TEXT[name]: [rng.bytes(TEXT_BYTES).hex() for _ in range(len(part))]})
            Partition(root, TABLES[name], tuple(map(str, names))).replace(part)
    size = sum(path.stat().st_size for path in root.rglob("*.parquet"))
    print(f"{len(drawn.reply_metrics):,} rows of the first judges, {size / 2**20:.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
