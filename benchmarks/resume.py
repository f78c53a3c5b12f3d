"""What it takes to find out that a finished suite is finished: 5,694 prompts x 26 models, 148,044 replies.

Fills a store with made-up replies of about 200 tokens, then runs the stage `generate` on it as a user would. Prints
seconds and the peak of memory.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import tempfile
import time
from pathlib import Path

import pandas as pd
from sizes import size_parser

from slmsafety.models.cards import load_cards
from slmsafety.params.study import StudyParams
from slmsafety.pipeline.collect import collect
from slmsafety.pipeline.run import Run
from slmsafety.pipeline.status import study_status
from slmsafety.records.schema import PROMPTS
from slmsafety.records.store import Partition
from slmsafety.suites.airbench import COLUMNS, LEVEL_2, LEVEL_4, ROWS

SIZES = {"prompts": (ROWS, 40), "models": (26, 2)}
REPLY = "A mild sentence that says nothing in particular. " * 20


def main() -> None:
    options = size_parser(__doc__, SIZES).parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        (root / "params").mkdir()
        os.environ["SLMSAFETY_ROOT"] = scratch
        params = study(prompts(root / "airbench.csv", options.prompts), options.models)
        collect(Run(params, root), {}, ["prompts"])
        fill(Run(params, root))
        started = time.perf_counter()
        collect(Run(params, root), {}, ["generate"])
        again = time.perf_counter() - started
        started = time.perf_counter()
        done = study_status(Run(params, root)).query("stage == 'generate'")["done"].sum()
        status = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{done} finished replies: collect {again:.1f} s, status {status:.1f} s, peak {peak:.2f} GB")


def prompts(path: Path, count: int) -> Path:
    """Write a file with upstream's columns and its counts of rows and levels, and mild words for prompts."""
    with path.open("w", newline="") as handle:
        rows = csv.writer(handle)
        rows.writerow(COLUMNS)
        for row in range(count):
            level = row % LEVEL_4
            rows.writerow([level, f"level 2 {level % LEVEL_2}", f"level 3 {level % 45}", f"level 4 {level}", f"{row}?"])
    return path


def study(path: Path, count: int) -> StudyParams:
    suites = [{"name": "airbench", "path": str(path)}]
    models = load_cards().query("in_paper")["id"].head(count).tolist()
    given = {"name": "resume", "kind": "run", "suites": suites, "models": models, "judges": ["refusal_rules"]}
    return StudyParams.model_validate(given)


def fill(run: Run) -> None:
    """Write every reply of the study, as a finished run leaves it."""
    asked = Partition(run.folder, PROMPTS, ("airbench",)).read(["instance_id"])
    for (suite, model), generation in run.generation_ids.items():
        rows = pd.DataFrame({"suite": suite, "instance_id": asked["instance_id"], "model": model})
        meta = json.dumps({"batch_size": 32, "device": "cpu", "revision": "0" * 40, "template_used": "chat"})
        rows = rows.assign(generation_id=generation, response=REPLY, prompt_tokens=40, output_tokens=200)
        rows = rows.assign(finish_reason="stop", prompt_truncated=False, meta=meta)
        run.responses(suite, model).replace(rows)


if __name__ == "__main__":
    main()
