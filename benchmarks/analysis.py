"""All of RQ1-RQ5 on a simulated study of the paper's size: 26 models, five suites, 741,312 rows. Seconds and memory.

    OMP_NUM_THREADS=2 python benchmarks/analysis.py [--prompts 100] [--threads 2]

The study is drawn (`simulate.py`: the rates of Table A1, assumed ones for Simple Safety Tests and BBQ,
planted effects), written to a temporary store with a text beside each verdict, and read back as an imported study. Then
the functions that the notebooks call are timed one after the other. Peak memory is the process's, reset before each
part. The classifiers' own fit time is a column of its own. What it computes is of drawn labels: no result.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from simulate import Simulated, second_judge, simulate, with_assumed_suites

from slmsafety import published
from slmsafety.analysis import outcomes, rankings
from slmsafety.analysis.bounds import bounds, pair_orders
from slmsafety.analysis.drivers import (
    ambiguity_effects,
    association_checks,
    associations,
    metric_rows,
    model_metadata,
    variance_explained,
)
from slmsafety.analysis.drivers.ambiguity_model import ambiguity_model
from slmsafety.analysis.prediction import checks, classifiers, evaluation, features, splits
from slmsafety.analysis.treatments import adjusted_score, treatment_scores
from slmsafety.models.cards import load_cards
from slmsafety.records.schema import REPLY_KEY, RESPONSES, TABLES, typed
from slmsafety.records.store import Partition
from slmsafety.study import Study

SEED, TEXT_BYTES = 1337, 200
_TEXT = {"judgments": "raw_text", "responses": "response"}
SUITES = ("airbench", "salad", "harmbench", "sst", "bbq")


class Clock:
    """Runs parts of the analysis and keeps each one's seconds, classifier fits apart, and peak memory."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, float, float]] = []
        self.fits = 0.0
        self._fit = classifiers.fit

    def fit(self, *arguments: Any) -> classifiers.Fitted:
        """Fit as `classifiers.fit` does, and add up its seconds."""
        fitted = self._fit(*arguments)
        self.fits += fitted.seconds
        return fitted

    def run(self, part: str, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Return what the work returns for the arguments, after printing the part's line."""
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        self.fits, started = 0.0, time.perf_counter()
        result = work(*arguments, **named)
        seconds = time.perf_counter() - started
        peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        self.rows.append((part, seconds - self.fits, self.fits, int(peak.split()[1]) / 2**20))
        print("| {} | {:.1f} | {:.1f} | {:.2f} |".format(*self.rows[-1]), flush=True)
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, help="at most so many prompts of each suite, for a quick try")
    parser.add_argument(
        "--smallest", dest="prompts", action="store_const", const=100, help="100 prompts of each suite, to try it"
    )
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    clock = Clock()
    evaluation.fit = checks.fit = clock.fit
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SLMSAFETY_ROOT"] = folder
        (Path(folder) / "params").mkdir()
        (Path(folder) / "none.csv").touch()
        print("| part | seconds | classifiers' fits | peak GB |\n|---|---|---|---|")
        drawn = clock.run("drawing the study", draw, options.prompts)
        clock.run("writing its store", write, drawn, Path(folder) / "runs/simulated")
        del drawn
        before = len(clock.rows)
        kind = {"name": "simulated", "kind": "imported", "judged_csv": "none.csv"}
        analyse(Study.load(kind | {"suites": [{"name": name} for name in SUITES]}), clock, options.threads)
    parts = pd.DataFrame(clock.rows[before:], columns=["part", "seconds", "fits", "peak"])
    print(
        "| all of RQ1-RQ5 | {:.1f} | {:.1f} | {:.2f} |".format(*parts[["seconds", "fits"]].sum(), parts["peak"].max())
    )


def draw(prompts: int | None) -> Simulated:
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


def analyse(study: Study, clock: Clock, threads: int) -> None:
    """Time what the notebooks compute, in their order."""
    rng, run = np.random.default_rng(SEED), clock.run
    run("a notebook's first cell", study.about)
    labels = run("the labels again", study.labels)
    scored = run("RQ1 scores", study.scores)
    run("RQ1 rank agreement, 2,000 draws", rankings.rank_agreement, scored, rng)
    run("RQ1 size within families", rankings.size_steps, scored)
    run("RQ2 distributions", study.distributions)
    run("RQ2 decisiveness", outcomes.decisiveness, scored)
    run("RQ2 BBQ accuracy", study.accuracies)
    run("RQ2 BBQ bias", study.biases)
    treated = run("RQ3 treatments", treatment_scores, scored)
    treated["rank"] = rankings.rank_within_suites(treated)
    ranges = run("RQ3 rank ranges", rankings.rank_ranges, treated)
    run("RQ3 pair orders", pair_orders, scored)
    run("RQ3 agreement of two judges", study.compared.pair)
    tables = [run(f"RQ4 reading {name}", study.table, name) for name in ("prompt_metrics", "reply_metrics")]
    run("RQ4 distributions of metrics", metric_rows.metric_summary, *tables)
    rows = run("RQ4 rows of replies", metric_rows.reply_rows, labels, *tables)
    del labels, tables
    associate(rows, ranges, clock, rng)
    prompts = study.prompt_counts()
    rates = model_metadata.pooled(scored, prompts)
    families = scored.drop_duplicates("model").set_index("model")["family"]
    encodings = {"as reported": study.reported_features(), "true architecture": study.true_features()}
    run("RQ4 metadata", model_metadata.encoded_ranges, encodings, rates, families)
    time_prediction(study, rows, clock, classifiers.Fitting(SEED, threads))
    run("RQ5 bounds and rank sets", bounds, scored)
    run("RQ5 adjusted scores", adjusted_score, scored)


def associate(rows: pd.DataFrame, ranges: pd.DataFrame, clock: Clock, rng: np.random.Generator) -> None:
    """Time Figure 5 and what stands beside it."""
    run, steps = clock.run, ambiguity_effects.PROMPT_STEPS
    means = run("RQ4 means of prompts", associations.prompt_means, rows)
    run("RQ4 associations", associations.correlations_by_suite, associations.metric_points(means), rows)
    run("RQ4 checks of associations", association_checks.association_checks, means, rng)
    run("RQ4 explained of prompts", variance_explained.explained_prompts, means)
    run("RQ4 explained of models", variance_explained.explained_models, variance_explained.model_quality(rows), ranges)
    model = run("RQ4 logistic model", ambiguity_model, rows)
    run("RQ4 odds ratios", ambiguity_effects.odds_ratios, model)
    run("RQ4 models at a common quality", ambiguity_effects.standardized_rates, model, rows)
    model = run("RQ4 logistic model of prompts", ambiguity_model, rows, list(steps))
    run("RQ4 steps of a prompt", ambiguity_effects.metric_changes, model, steps)


def time_prediction(study: Study, rows: pd.DataFrame, clock: Clock, fitting: classifiers.Fitting) -> None:
    """Time Tables 1-3 and what they rest on (one split for the fewer metrics)."""
    run = clock.run
    replies = run("RQ4 rows of prediction", features.labelled_replies, rows, study.true_features())
    cards = study.named(replies[["model"]].drop_duplicates().astype("str")).set_index("model")
    unseen = splits.held_out_models(cards.assign(tuned=study.true_features()["Tuned"]))
    plan = run("RQ4 splits", splits.paper_splits, replies, unseen, ["sst"], fitting.seed)
    tables = {
        name: run(f"RQ4 {name}", evaluation.prediction_table, replies, parts, fitting) for name, parts in plan.items()
    }
    within, best = plan["table1_within_suite"], evaluation.best_classifiers(tables["table1_within_suite"])
    run("RQ4 fewer metrics, one split", checks.baselines, replies, within, best, fitting)
    run("RQ4 importance", checks.importance, replies, within, best, fitting)
    run("RQ4 leakage", checks.leakage, replies, within, best, fitting)


if __name__ == "__main__":
    main()
