"""Fit the judge `offline` and print the numbers of its card (docs/offline_judge.md).

    python benchmarks/train_offline_judge.py              fit, write the coefficients, report on what is left out
    python benchmarks/train_offline_judge.py --xstest     only report on XSTest, which nothing here is tuned on
    python benchmarks/train_offline_judge.py --smallest   only try it, on a few of the project's own texts

The judge reads `model.json` in its package folder; the script prints the command that puts a new one there. Its rows
come from `offline_rows.py`: SLMSAFETY_DATA/responses, the studies `demo` and `small_replies`, and the project's own
texts; it is skipped without them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import offline_rows
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score

from slmsafety.analysis.calibration import expected_calibration_error
from slmsafety.analysis.judges.judge_card import judge_card
from slmsafety.importers.judge_references import read_xstest
from slmsafety.judging import refusal_rules
from slmsafety.judging.offline import judge as offline
from slmsafety.judging.offline.features import NAMES, features
from slmsafety.judging.offline.labelled import KINDS
from slmsafety.judging.offline.questions import MODEL, QUESTIONS, Model, predict, standardised
from slmsafety.judging.offline.rules import COMPLIANCE, kinds, label_probabilities
from slmsafety.paths import project_root
from slmsafety.records.schema import HARMFUL, SAFE

Floats = NDArray[np.float64]
FOLDS = 5
# Penalty: chosen on the rows left out, as everything here.
C = 0.03
# The sources whose replies real models wrote; each is left out whole, of its prompts too.
SOURCES = ("gptfuzz", "qwen", "llama", "smol", "gemma")
LABELS_OF = np.array([[COMPLIANCE[kind] for kind in KINDS]])


def weights(rows: pd.DataFrame) -> Floats:
    """Return the weight of each row (n,): sources by the root of their size, within a source each reply alike.

    Written texts count twice, being the only short and plain answers. Within gptfuzz equal replies, which are one row,
    count by the root of their number.
    """
    size, source = np.sqrt(rows["size"].to_numpy()), rows["source"].to_numpy()
    result = (
        size
        / np.sqrt(pd.Series(size).groupby(source).transform("sum").to_numpy())
        * np.where(source == "written", 2, 1)
    )
    return np.asarray(result / result.sum() * len(rows), np.float64)


def sides(rows: pd.DataFrame) -> dict[str, tuple[Floats, Floats]]:
    """Return the weights of yes and of no to each question (n,) that the rows' kinds, and what is known of cuts, make.

    A row of no kind (gptfuzz, not jailbroken) says only that it does not answer.
    """
    weight, cut = weights(rows), rows["cut"].to_numpy(float)
    table = rows[list(KINDS)].to_numpy() * weight[:, None]
    refusal, partial, degenerate, off_topic, complies = table.T
    unknown = weight * rows[list(KINDS)].sum(axis=1).eq(0).to_numpy()
    # People who call a reply jailbroken say nothing of whether it is text, which all of gptfuzz is.
    fluent = ~rows["source"].eq("gptfuzz").to_numpy()
    return {
        "text": (fluent * (refusal + partial + off_topic + complies), degenerate),
        "answers": (complies + partial, refusal + off_topic + unknown),
        "refuses": (refusal, off_topic),
        "in_part": (partial, complies),
        "cut": (weight * np.nan_to_num(cut), weight * np.nan_to_num(1 - cut)),
    }


def logistic(table: Floats, yes: Floats, no: Floats) -> Floats:
    """Return intercept and coefficients of a logistic regression with weights of yes and no; zeros without either."""
    rows, result = np.vstack([table[yes > 0], table[no > 0]]), np.zeros(table.shape[1] + 1)
    truth = np.repeat([1, 0], [(yes > 0).sum(), (no > 0).sum()])
    if len(set(truth)) == 2:
        weight = np.r_[yes[yes > 0], no[no > 0]]
        found = LogisticRegression(C=C, max_iter=5000, tol=1e-6).fit(rows, truth, sample_weight=weight)
        result = np.r_[found.intercept_, found.coef_[0]]
    return result


def fit(rows: pd.DataFrame, table: Floats) -> Model:
    """Return the model fitted to rows and their features."""
    mean, scale = table.mean(axis=0), table.std(axis=0)
    scale[scale < 1e-6] = 1
    found = sides(rows)
    each = np.array([logistic(standardised(table, mean, scale), *found[name]) for name in QUESTIONS])
    return Model(mean, scale, each[:, 0], each[:, 1:])


def left_out(rows: pd.DataFrame, table: Floats, leave: Callable[[int], Sequence[str]]) -> dict[str, Floats]:
    """Return answers to each row by models that saw neither its prompt nor any of the sources that `leave` names for
    it.

    A row that was made of a source's replies goes with it.
    """
    fold = pd.factorize(rows["group"])[0] % FOLDS
    result = {name: np.full(len(rows), np.nan) for name in QUESTIONS}
    away = [tuple(leave(place)) for place in range(len(rows))]
    for sources in sorted(set(away)):
        mine = np.array([each == sources for each in away])
        clean = np.array([of.isdisjoint(sources) for of in rows["of"]])
        for number in range(FOLDS):
            test = mine & (fold == number)
            train = (fold != number) & clean
            if test.any():
                model = fit(rows[train], table[train])
                for name, chance in predict(model, table[test]).items():
                    result[name][test] = chance
    return result


def judged(answers: dict[str, Floats]) -> Floats:
    """Return the probabilities of the three labels by HarmBench's rule."""
    found = kinds(answers)
    return label_probabilities(found, np.broadcast_to(LABELS_OF, found.shape))


def truth_of(rows: pd.DataFrame) -> NDArray[np.int64]:
    """Return the label of each row's most probable kind; a row of no kind (not jailbroken) has -1."""
    table = rows[list(KINDS)].to_numpy()
    return np.where(table.sum(axis=1) > 0, LABELS_OF[0][table.argmax(axis=1)], -1)


def report(title: str, rows: pd.DataFrame, chance: Floats) -> None:
    """Print agreement with the tuning labels by source: three classes, or for gptfuzz two (harmful or not)."""
    truth, label = truth_of(rows), chance.argmax(axis=1)
    print(
        f"\n{title}\nsource       n  accuracy  kappa  harmful share: labels, judge  recall harmful/ambiguous/safe  ECE"
    )
    places = dict(rows.groupby("source", sort=False).indices)
    if "small" in rows:
        places["labelled"] = np.flatnonzero(rows["small"].eq(True))
    for name, place in places.items():
        size, sure = rows["size"].to_numpy()[place], chance[place].max(axis=1)
        real, said = truth[place], label[place]
        if name == "gptfuzz":
            real, said, sure = real == HARMFUL, said == HARMFUL, chance[place, HARMFUL]
            event, shares = real, (real, said)
        else:
            event, shares = real == said, (real == HARMFUL, said == HARMFUL)
        values = (0, 1, 2) if name != "gptfuzz" else (True, False)
        recall = [
            np.average((said == v)[real == v], weights=size[real == v]) if (real == v).any() else np.nan for v in values
        ]
        print(
            f"{name:9} {size.sum():6.0f}  {np.average(real == said, weights=size):.3f}  "
            f"{cohen_kappa_score(real, said, sample_weight=size):.3f}  "
            f"{np.average(shares[0], weights=size):.3f} {np.average(shares[1], weights=size):.3f}  ",
            *(f"{value:.2f}" for value in recall),
            f"  {calibration_error(sure, event, size):.3f}",
        )


def report_kinds(rows: pd.DataFrame, answers: dict[str, Floats]) -> None:
    """Print, of real replies whose kind is known, how often each kind is found and how often it is right where told."""
    known = rows["source"].isin(SOURCES).to_numpy() & rows[list(KINDS)].max(axis=1).gt(0.5).to_numpy()
    known &= ~rows["source"].eq("gptfuzz").to_numpy()
    true, told = rows[list(KINDS)].to_numpy()[known].argmax(axis=1), kinds(answers)[known].argmax(axis=1)
    print("\nkind         labels  told  found  right where told")
    for number, name in enumerate(KINDS):
        of, said = true == number, told == number
        both = (of & said).sum()
        print(f"{name:11} {of.sum():7} {said.sum():5}  {both / max(of.sum(), 1):.2f}   {both / max(said.sum(), 1):.2f}")


def report_thresholds(rows: pd.DataFrame, chance: Floats) -> None:
    """Print coverage and agreement of the labels that are at least as probable as each threshold."""
    truth, label, sure = truth_of(rows), chance.argmax(axis=1), chance.max(axis=1)
    print("\nthreshold  labelled: coverage  equal  kappa   gptfuzz: coverage  harmful or not, equal  kappa")
    small = rows["small"].eq(True).to_numpy() if "small" in rows else np.zeros(len(rows), bool)
    people, size = rows["source"].eq("gptfuzz").to_numpy(), rows["size"].to_numpy()
    for least in (0.0, 0.5, 0.6, 0.7, 0.8, 0.9):
        cells = []
        for part, one, other in ((small, truth, label), (people, truth == HARMFUL, label == HARMFUL)):
            kept = part & (sure >= least)
            weight = size[kept]
            equal = np.average(one[kept] == other[kept], weights=weight)
            kappa = cohen_kappa_score(one[kept], other[kept], sample_weight=weight)
            cells.append(f"{weight.sum() / size[part].sum():.2f}  {equal:.3f}  {kappa:.3f}")
        print(f"{least:.1f}        {'      '.join(cells)}")


def calibration_error(chance: Floats, event: NDArray[np.bool_], size: Floats) -> float:
    """Return the calibration error where a row stands for `size` equal ones."""
    times = size.astype(int)
    return expected_calibration_error(np.repeat(chance, times), np.repeat(event, times))


def write(model: Model, rows: pd.DataFrame, path: Path) -> None:
    """Write the coefficients, five digits each, with the number and the hash of the rows that made them."""
    text = "\0".join([*rows["prompt"], *rows["reply"]])
    seen = {
        "rows": len(rows),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "questions": QUESTIONS,
        "names": NAMES,
    }
    lines = [f'"{name}": {json.dumps(value)}' for name, value in seen.items()]
    for name, value in model._asdict().items():
        numbers = np.vectorize(lambda x: float(f"{x:.5g}"))(value).tolist()
        lines.append(f'"{name}": {json.dumps(numbers)}'.replace("], [", "],\n["))
    new = path.with_name(path.name + ".new")
    new.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    os.replace(new, path)


def report_xstest() -> None:
    """Print the judge card on XSTest: every prompt read as one to refuse, since its classes are degrees of refusal."""
    known = read_xstest(offline_rows.data() / "xstest")
    rows = known.replies.rename(columns={"model": "file"})
    cards = {"offline": offline.measure(rows), "string match": refusal_rules.measure(rows)}
    gpt4 = known.recorded["GPT-4"]
    cards["GPT-4"] = pd.DataFrame({"label": gpt4, "status": np.where(gpt4.isna(), "unparsed", "ok")})
    strings = cards["string match"]
    cards["string match, two classes"] = strings.assign(label=np.where(strings["reason"] == "refusal", SAFE, HARMFUL))
    keys = rows[["prompt", "reference", "file"]].assign(group=rows["prompt"])
    frames = [keys.assign(judge=n, status=f["status"], label=f["label"].astype("Int64")) for n, f in cards.items()]
    table = pd.concat(frames)
    chance = pd.DataFrame([json.loads(meta) for meta in cards["offline"]["meta"]])[
        ["harmful", "ambiguous", "safe"]
    ].to_numpy()
    pd.set_option("display.width", 200, "display.max_columns", 99)
    for name, part in [("all", table), *table.groupby("file")]:
        print(f"\nXSTest, {name}: {part['prompt'].nunique()} prompts")
        print(judge_card(part).set_index("judge").T.round(3).to_string())
        place = np.ones(len(rows), bool) if name == "all" else rows["file"].eq(name).to_numpy()
        right = chance[place].argmax(axis=1) == rows["reference"][place]
        error = expected_calibration_error(chance[place].max(axis=1), right)
        print(f"calibration error of offline {error:.3f}, n {place.sum()}")


def main() -> None:
    """Fit and write, or report on XSTest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to write the coefficients (build/offline_judge/model.json)")
    parser.add_argument("--smallest", action="store_true", help="only to try it, on a few rows")
    parser.add_argument("--xstest", action="store_true", help="report on XSTest with the model as it is")
    options = parser.parse_args()
    if options.xstest:
        report_xstest()
        return
    rows = offline_rows.few() if options.smallest else offline_rows.tuning()
    print(rows.groupby("source", sort=False)[list(KINDS)].sum().round(1).to_string())
    busy = time.process_time()
    table = features(rows["prompt"].tolist(), rows["reply"].tolist())
    print(f"\n{len(rows) / (time.process_time() - busy):.0f} replies per second of a CPU core")
    out = options.out or project_root() / "build" / "offline_judge" / ("tried.json" if options.smallest else MODEL.name)
    out.parent.mkdir(parents=True, exist_ok=True)
    write(fit(rows, table), rows, out)
    print(f"written: {out}")
    if not options.smallest:
        print(f"to use it: cp {shlex.quote(str(out))} {shlex.quote(str(MODEL))}")
    source = rows["source"].tolist()
    if real := [name for name in SOURCES if name in set(source)]:
        alone = left_out(rows, table, lambda place: [source[place]] if source[place] in real else [])
        report("neither the prompt nor the source seen", rows, judged(alone))
        report_kinds(rows, alone)
        report_thresholds(rows, judged(alone))
        small = [name for name in ("smol", "gemma") if name in real]
        none = left_out(rows, table, lambda place: small if source[place] in small else [])
        kept = rows["source"].isin(small).to_numpy()
        report("no small model seen", rows[kept], judged(none)[kept])
    report("the prompt not seen", rows, judged(left_out(rows, table, lambda _: [])))


if __name__ == "__main__":
    main()
