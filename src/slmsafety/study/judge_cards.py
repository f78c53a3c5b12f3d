"""What judges are worth, a row each: on public replies with known labels, or on a study's own."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from slmsafety import __version__
from slmsafety.analysis.judges.coverage import coverage_curves
from slmsafety.analysis.judges.judge_card import COLUMNS, judge_card, judge_cards
from slmsafety.errors import InputError
from slmsafety.importers.judge_references import JudgedReplies, read_refusal_stability, read_xstest
from slmsafety.judging.base import MeasuringJudge
from slmsafety.judging.confidence import confidences
from slmsafety.judging.registry import JUDGES, MULTIPLE_CHOICE_JUDGE
from slmsafety.paths import data_path, project_root
from slmsafety.pipeline.run import progress_bar
from slmsafety.records.files import write_atomic
from slmsafety.records.schema import STATUSES
from slmsafety.study import Study

PUBLIC = {"xstest": read_xstest, "refusal_stability": read_refusal_stability}
OFFLINE = tuple(name for name in JUDGES if name != MULTIPLE_CHOICE_JUDGE)
TIMED = 200
"""Replies of a study that an offline judge is timed on."""
RESAMPLES, SEED = 2000, 0
# Weights are read with the first reply, and that is no part of judging.
_WARM_UP = pd.DataFrame({"prompt": ["Name a colour."], "response": ["Blue."], "expected": ["refuse"]})


class Cards(NamedTuple):
    """Cards under each other: `table` has data, part and reference before the columns of `judge_card`.

    `curves` are those of `coverage_curve` of the judges that give probabilities, with suite_title (data or suite) and
    judge. `folder` is where they are written, from the project's root.
    """

    table: pd.DataFrame
    curves: pd.DataFrame
    notes: tuple[str, ...]
    folder: Path


def public_cards() -> Cards:
    """Return the cards of the offline judges, and of those whose labels the files hold, on the public replies.

    Seconds are measured while judging. Raises InputError where SLMSAFETY_DATA does not name them.
    """
    tables, curves, notes, root = [], [], [], project_root()
    for name, read in PUBLIC.items():
        known = read(data_path(f"$SLMSAFETY_DATA/responses/{name}", root))
        rows = judged_rows(known)
        parts = {"all": rows} | {f"replies of {model}": group for model, group in rows.groupby("model", sort=False)}
        for part, group in parts.items():
            tables.append(_named(judge_card(group, RESAMPLES, SEED), known.title, part, known.reference))
        curves.append(coverage_curves(rows.assign(suite=known.title)))
        notes.append(f"{known.title}: {known.note}")
    drawn = pd.concat(curves, ignore_index=True).rename(columns={"suite": "suite_title"})
    return Cards(pd.concat(tables, ignore_index=True), drawn, tuple(notes), Path("build", "judge_card"))


def judged_rows(known: JudgedReplies, judges: Sequence[str] = OFFLINE) -> pd.DataFrame:
    """Return what `judge_card` reads: `judges`, with seconds, and every recorded judge, on every reply."""
    replies = known.replies
    shared = replies[["model", "reference"]].assign(group=replies["prompt_id"])
    frames = []
    for judge in judges:
        verdicts, seconds = timed(JUDGES[judge], replies)
        frames.append(shared.assign(judge=judge, seconds=seconds, **verdicts))
    for judge, labels in known.recorded.items():
        status = labels.notna().map({True: "ok", False: "unparsed"})
        frames.append(shared.assign(judge=judge, status=status, label=labels, confidence=np.nan))
    return pd.concat(frames, ignore_index=True)


def study_cards(study: Study) -> Cards:
    """Return the cards of a study's judges, one a suite, against hand labels or else against its first judge.

    An offline judge of an own run is timed on `TIMED` of the replies. Raises InputError where the study has neither.
    """
    found = study.compared.reference()
    rows, titles = found.rows, study.titles()
    timed = [judge for judge in rows["judge"].unique() if judge in OFFLINE and study.params.kind == "run"]
    seconds = {judge: _study_seconds(study, judge) for judge in timed}
    rows = rows.assign(seconds=rows["judge"].map(seconds).astype("float64"))
    table = judge_cards(rows, RESAMPLES, SEED)
    if table.empty:
        raise InputError(f"study {study.name}: no reply to a harmful prompt has a reference label ({found.name})")
    part = [titles.get(suite, suite) for suite in table["suite"]]
    curves = study.named(coverage_curves(rows))
    return Cards(_named(table, study.name, part, found.name), curves, found.notes, study.folder.relative_to(study.root))


def write_cards(cards: Cards, draw: Callable[[pd.DataFrame], Any]) -> list[Path]:
    """Write judge_card.csv and judge_card.json (with notes, seed and version); return their paths from the root.

    Where a judge gives probabilities, its curve of agreement against coverage is judge_coverage.csv, .png and .pdf;
    `draw` makes a matplotlib figure of the curves (`report.figures.judge_coverage`).
    """
    rows = json.loads(cards.table.to_json(orient="records", double_precision=10))
    about: dict[str, Any] = {"version": __version__, "resamples": RESAMPLES, "seed": SEED, "notes": cards.notes}
    text = json.dumps({**about, "cards": rows}, indent=1, ensure_ascii=False) + "\n"
    table = cards.table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    files = {"judge_card.csv": table.encode(), "judge_card.json": text.encode(), **_drawn(cards.curves, draw)}
    for name, content in files.items():
        write_atomic(project_root() / cards.folder / name, content)
    return [cards.folder / name for name in files]


def _drawn(curves: pd.DataFrame, draw: Callable[[pd.DataFrame], Any]) -> dict[str, bytes]:
    """The files of the curves, none where there are none."""
    if curves.empty:
        return {}
    figure, table = draw(curves), curves.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    files = {"judge_coverage.csv": table.encode()}
    for kind in ("png", "pdf"):
        with io.BytesIO() as made:
            figure.savefig(made, format=kind, dpi=200)
            files[f"judge_coverage.{kind}"] = made.getvalue()
    return files


def shown(cards: Cards) -> str:
    """Return the cards as text: for each part agreement, errors by direction, and the counts behind them."""
    blocks = []
    for (data, part, reference), card in cards.table.groupby(["data", "part", "reference"], sort=False):
        rows = card["rows"].iloc[0]
        lines = [f"{data}, {part}: {rows:,} replies; reference: {reference}"]
        lines += ["\n" + card.apply(form, axis=1).to_string(index=False) for form in (_agreement, _errors, _counts)]
        for row in card[card["n"] < card["rows"]].to_dict("records"):
            ends = [f"{row[f'n_{status}']} {status}" for status in STATUSES[1:] if row[f"n_{status}"]]
            lines.append(f"without a label, {row['judge']}: {', '.join(ends)}")
        blocks.append("\n".join(lines))
    return "\n\n\n".join([*blocks, *(f"note: {note}" for note in cards.notes)])


def _named(card: pd.DataFrame, data: str, part: str | list[str], reference: str) -> pd.DataFrame:
    return card.assign(data=data, part=part, reference=reference)[["data", "part", "reference", *COLUMNS]]


def timed(judge: MeasuringJudge, replies: pd.DataFrame, chunk: int = 100) -> tuple[dict[str, Any], float]:
    """Return a judge's status, label and its probability for each reply, in their order, and the seconds that one took.

    It judges `chunk` replies (prompt, response, expected) at a time.
    """
    chunks = []
    judge.measure(_WARM_UP)
    # The replies to a prompt lie beside each other, so that a judge can read the prompt once for all of them.
    ordered = replies.reset_index(drop=True).sort_values("prompt", kind="stable")
    started = time.perf_counter()
    with progress_bar(f"judge {judge.name}", len(ordered), 0) as bar:
        for start in range(0, len(ordered), chunk):
            chunks.append(judge.measure(ordered.iloc[start : start + chunk]))
            bar.update(len(chunks[-1]))
    seconds = (time.perf_counter() - started) / len(ordered)
    verdicts = pd.concat(chunks).set_axis(ordered.index).sort_index()
    label = verdicts["label"].astype("Int64")
    sure = confidences(verdicts["meta"], label) if "meta" in verdicts else np.nan
    said = {"status": verdicts["status"].to_numpy(), "label": label.array}
    return {**said, "confidence": np.asarray(sure)}, seconds


def _study_seconds(study: Study, judge: str) -> float:
    """The seconds that an offline judge takes for one of the study's replies to harmful prompts, by a sample."""
    prompts = study.table("prompts", ["prompt", "expected", "meta"])
    replies = study.table("responses", ["response", "finish_reason"]).dropna(subset="response")
    replies = replies[replies["finish_reason"] != "empty"].merge(
        prompts[prompts["expected"] == "refuse"], on=["suite", "instance_id"], validate="many_to_one"
    )
    return timed(JUDGES[judge], replies.sample(min(TIMED, len(replies)), random_state=SEED))[1]


def _agreement(row: pd.Series) -> pd.Series:
    """A judge's line of agreement."""
    return pd.Series(
        {
            "judge": row["judge"],
            "n": row["n"],
            "coverage": f"{row['coverage']:.3f}",
            "exact": _number(row["exact"]),
            "kappa": _interval(row, "kappa"),
            "unweighted": _interval(row, "kappa_unweighted"),
            "recall h/a/s": "/".join(_number(row[f"recall_{name}"], 2) for name in ("harmful", "ambiguous", "safe")),
            "$/1000": _number(row["price_per_1000"], 2),
            "s/1000": _number(row["seconds_per_1000"], 1),
        }
    )


def _errors(row: pd.Series) -> pd.Series:
    """A judge's line of errors; the reference's label comes first in a direction."""
    return pd.Series(
        {
            "judge": row["judge"],
            "ar reference": _number(row["ar_reference"]),
            "ar judge": _number(row["ar_judge"]),
            "boundary": _number(row["boundary"]),
            "flips": _number(row["flips"]),
            "safe->harmful": row["safe_as_harmful"],
            "harmful->safe": row["harmful_as_safe"],
            "p symmetric": "-" if pd.isna(row["flip_symmetry_p"]) else f"{row['flip_symmetry_p']:.2g}",
        }
    )


def _counts(row: pd.Series) -> pd.Series:
    """A judge's line of counts: for each label of the reference, how often it said harmful/ambiguous/safe."""
    names = ("harmful", "ambiguous", "safe")
    cells = {f"{true} as h/a/s": "/".join(str(row[f"{true}_as_{said}"]) for said in names) for true in names}
    return pd.Series({"judge": row["judge"], **cells})


def _interval(row: pd.Series, name: str) -> str:
    low, high = (_number(row[f"{name}_{end}"]) for end in ("low", "high"))
    return f"{_number(row[name])} ({low}-{high})" if low != "-" else _number(row[name])


def _number(value: float, digits: int = 3) -> str:
    return "-" if pd.isna(value) else f"{value:.{digits}f}"
