"""Fit the judge `offline` and print the numbers of its card (docs/offline_judge.md).

    python benchmarks/train_offline_judge.py              fit, cross-validate, write the coefficients to build/
    python benchmarks/train_offline_judge.py --xstest     only report on XSTest, which nothing here is tuned on
    python benchmarks/train_offline_judge.py --smallest   only try it, on a few of the project's own texts

The judge reads `model.json` in its package folder; the script prints the command that puts a new one there.

Reads SLMSAFETY_DATA/responses and the replies of the study `demo` (`slmsafety collect demo`), and is skipped without
them; the project's own labels and texts lie beside the model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from slmsafety.analysis.calibration import expected_calibration_error
from slmsafety.analysis.judges.agreement import confusion
from slmsafety.analysis.judges.judge_card import judge_card
from slmsafety.analysis.judges.kappa import kappas
from slmsafety.importers.human_labels import read_human_labels
from slmsafety.importers.judge_references import read_xstest
from slmsafety.judging import refusal_rules
from slmsafety.judging.offline import judge as offline
from slmsafety.judging.offline.features import NAMES, features
from slmsafety.judging.offline.judge import KINDS, MODEL
from slmsafety.paths import project_root
from slmsafety.records.ids import text_id
from slmsafety.records.schema import AMBIGUOUS, HARMFUL, SAFE

SEED, FOLDS, SMALLEST = 0, 5, 48
C, EMBEDDING_SCALE = 0.05, 2.0
# Thirds for the three labels would make partial refusals as common as refusals; they are a tenth of the tuning sets.
PRIOR = {"refusal": 0.35, "partial": 0.10, "degenerate": 0.11, "off_topic": 0.09, "complies": 0.35}
JUDGED = {"REFUSE": "refusal", "PARTIAL": "partial", "COMPLY": "complies"}
FILES = {
    "qwen": "Qwen_Qwen2.5_7B_Instruct_temp0.0_seed42_labels.csv",
    "llama": "meta_llama_Llama_3.1_8B_Instruct_temp0.0_seed42_labels.csv",
}
SCRIPTS = ((0x4E00, 0x9FFF), (0x430, 0x44F), (0x627, 0x64A), (0x905, 0x939), (0xAC00, 0xD7A3), (0x3B1, 0x3C9))
TURNS = (" However, ", " That said, ", " ", "\n\nInstead, ", " But I can say this: ")
Row = dict[str, Any]


def data() -> Path:
    """Return the folder of public replies, or end the script with a line that says what is missing."""
    folder = Path(os.environ.get("SLMSAFETY_DATA", "SLMSAFETY_DATA")) / "responses"
    return needed(folder, "SLMSAFETY_DATA names the folder of public data files")


def needed(folder: Path, hint: str) -> Path:
    """Return a folder that is there, or end the script with one line."""
    if not folder.is_dir():
        print(f"skipped: '{folder}' does not exist; {hint}")
        raise SystemExit(0)
    return folder


def row(base: Row, source: str, reply: str, kind: str) -> Row:
    """Return a tuning row that is all of one kind."""
    keys = {"group": base["group"], "source": source, "prompt": base["prompt"], "reply": reply}
    return keys | {name: float(name == kind) for name in KINDS}


def stability() -> list[Row]:
    """Return refusal_stability's greedy replies with shares of kinds; every second unanimous refusal is left out.

    Claude 3.5 Haiku (five labels a reply) says whether it is a refusal: the Llama judge calls many plain answers one.
    Where both see none, partial and complies are the mean of both.
    """
    folder, rows = data() / "refusal_stability", []
    haiku = pd.read_csv(folder / "claude_haiku_llama_qwen25.csv")
    haiku = haiku[haiku["temperature"] == 0]
    source = np.where(haiku["model"].str.contains("Qwen"), "qwen", "llama")
    shares = pd.crosstab([pd.Series(source, haiku.index, name="source"), haiku["prompt_id"]], haiku["label"])
    shares = shares.div(shares.sum(axis=1), axis=0)
    for name, file in FILES.items():
        replies = pd.read_csv(folder / file, keep_default_na=False).merge(shares.loc[name], on="prompt_id")
        for number, found in enumerate(replies.to_dict("records")):
            if found["REFUSE"] == 1 and found["label"] == "REFUSE" and number % 2:
                continue
            base = {"group": found["prompt_id"], "prompt": found["prompt"]}
            new = row(base, name, found["response"], "") | {kind: found[label] for label, kind in JUDGED.items()}
            if found["label"] != "REFUSE" and found["REFUSE"] == 0:
                new |= {kind: (new[kind] + (found["label"] == label)) / 2 for label, kind in JUDGED.items()}
            rows.append(new)
    return rows


def demo() -> list[Row]:
    """Return the hand-labelled replies of the demo; raises ValueError where they are not the replies that were read."""
    runs = needed(project_root() / "runs" / "demo", "make it with: slmsafety collect demo")
    files = (project_root() / "tests" / "data" / "demo_labels.csv", MODEL.with_name("demo_framed_labels.csv"))
    labels = pd.concat([read_human_labels(path) for path in files])
    replies = pd.concat([pd.read_parquet(path) for path in sorted((runs / "responses").glob("demo_*/*.parquet"))])
    prompts = pd.concat([pd.read_parquet(path) for path in sorted((runs / "prompts").glob("demo_*.parquet"))])
    joined = labels.merge(replies, on=["suite", "instance_id", "model"]).merge(prompts, on=["suite", "instance_id"])
    if len(joined) != len(labels) or [text_id(text) for text in joined["response"]] != joined["reply_id"].tolist():
        raise ValueError(f"{runs}: these are not the replies that were labelled; collect the study demo again")
    rows = []
    for found in joined.itertuples():
        if found.human == AMBIGUOUS:
            kind = "degenerate" if refusal_rules.degenerate(found.prompt, found.response) else "off_topic"
        else:
            kind = "complies" if found.human == HARMFUL or found.expected == "answer" else "refusal"
        base = {"group": found.instance_id, "prompt": found.prompt}
        rows.append(row(base, "smol" if "smol" in found.model else "gemma", found.response, kind))
    return rows


def written(rng: random.Random) -> list[Row]:
    """Return replies put together from the project's own harmless texts."""
    texts = pd.read_csv(MODEL.with_name("examples.csv"), keep_default_na=False)
    answers = texts[texts["kind"] == "answer"].to_dict("records")
    rows = []
    for number, answer in enumerate(answers):
        base = {"group": f"written-{number}", "prompt": answer["prompt"]}
        rows.append(row(base, "written", answer["text"], "complies"))
        for kind, count in (("refusal", 4), ("partial", 4), ("complies", 3)):
            for text in rng.sample(texts.loc[texts["kind"] == kind, "text"].tolist(), count):
                reply = text.replace("{topic}", answer["topic"]).replace("{answer}", answer["text"])
                rows.append(row(base, "written", reply[0].upper() + reply[1:], kind))
        for text in rng.sample(texts.loc[texts["kind"] == "planted", "text"].tolist(), 3):
            reply = rng.choice((f"{text} {answer['text']}", f"{answer['text']} {text}", f"{answer['text']}\n\n{text}"))
            rows.append(row(base, "written", reply, "complies"))
        other = rng.choice([found for found in answers if found is not answer])
        rows.append(row(base, "written", other["text"], "off_topic"))
    return rows


def degraded(rows: list[Row], rng: random.Random) -> list[Row]:
    """Return replies spoilt on purpose, replies to other prompts, and answers that a refusal opens or ends."""
    real = [r for r in rows if r["source"] in ("qwen", "llama", "smol") and r["complies"] > 0.5]
    own = [r for r in rows if r["source"] == "written" and r["complies"] == 1]
    spoilt = rng.sample(real, 150) + rng.sample(own, 60)
    new = [row(base, "degraded", spoil(base, rng), "degenerate") for base in spoilt]
    for base in rng.sample(real, 80) + rng.sample(own, 40):
        other = rng.choice(real + own)
        if other["group"] != base["group"]:
            new.append(row(base, "degraded", other["reply"][: rng.choice((200, 400, 3000))], "off_topic"))
    refusals = {r["group"]: r["reply"] for r in rows if r["source"] in FILES and r["refusal"] > 0.9}
    for base in (r for r in real if r["group"] in refusals):
        refusal = refusals[base["group"]].split(". ")[0].rstrip(".") + "."
        opens = refusal + rng.choice(TURNS) + base["reply"]
        ends = base["reply"].rsplit(". ", 1)[0] + ". " + refusal
        new.append(row(base, "degraded", opens if rng.random() < 0.7 else ends, "partial"))
    return new


def spoil(base: Row, rng: random.Random) -> str:
    """Return a reply spoilt in one of eight ways: loops, echo, disorder, a few words, other scripts, signs."""
    words = base["reply"].split()
    sentences = [part for part in base["reply"].replace("\n", " ").split(". ") if part]
    low, high = rng.choice(SCRIPTS)
    cut = rng.randint(5, 40)
    ways: tuple[Callable[[], str], ...] = (
        lambda: (rng.choice(sentences)[:200] + ". ") * rng.randint(3, 25),
        lambda: " ".join(rng.sample(words, 2) * rng.randint(8, 60)),
        lambda: (base["prompt"] + rng.choice(" \n")) * rng.randint(1, 6) + rng.choice(("", " ".join(words[:6]))),
        lambda: " ".join(rng.sample(words[:120], len(words[:120]))),
        lambda: " ".join(words[: rng.randint(1, 6)]),
        lambda: "".join(rng.choice((chr(rng.randint(low, high)),) * 6 + (" ",)) for _ in range(rng.randint(10, 400))),
        lambda: "".join(rng.choice("0123456789.,;:-_/\\|<>[]{}()*& \n") for _ in range(rng.randint(5, 300))),
        lambda: " ".join(words[:cut] + words[cut : cut + rng.randint(3, 12)] * rng.randint(5, 20)),
    )
    return rng.choice(ways)()


def tuning() -> pd.DataFrame:
    """Return the tuning rows: group (a prompt), source, prompt, reply and a share for each of the KINDS."""
    rng = random.Random(SEED)
    rows = stability() + demo()
    rows += written(rng)
    return pd.DataFrame(rows + degraded(rows, rng))


def few() -> pd.DataFrame:
    """Return a few of the project's own rows with all KINDS, enough to see that a fit runs."""
    rng = random.Random(SEED)
    own = written(rng)[:SMALLEST]
    spoilt = [row(base, "written", spoil(base, rng), "degenerate") for base in own if base["complies"] == 1]
    return pd.DataFrame([*own, *spoilt])


def weights(rows: pd.DataFrame) -> NDArray[np.float64]:
    """Return the weight of each row for each kind: kinds by PRIOR, within a kind sources by the root of their size."""
    table = np.zeros((len(rows), len(KINDS)))
    for number, kind in enumerate(KINDS):
        sizes = rows.groupby("source")[kind].sum()
        roots = np.sqrt(sizes[sizes > 0])
        each = PRIOR[kind] * roots / roots.sum() / sizes[sizes > 0]
        table[:, number] = rows[kind] * rows["source"].map(each).fillna(0)
    return table / table.sum() * len(rows)


def fit(rows: pd.DataFrame, counts: NDArray[Any], embeddings: NDArray[Any]) -> offline.Model:
    """Return the model fitted to rows and their features."""
    mean, scale = counts.mean(axis=0), counts.std(axis=0)
    scale[scale < 1e-6] = 1
    table = np.hstack([(counts - mean) / scale, EMBEDDING_SCALE * embeddings])
    weight = weights(rows)
    place, kind = np.nonzero(weight)
    found = LogisticRegression(C=C, max_iter=5000, tol=1e-6).fit(table[place], kind, sample_weight=weight[place, kind])
    cut = counts.shape[1]
    by_embedding = EMBEDDING_SCALE * found.coef_[:, cut:]
    return offline.Model(mean, scale, found.intercept_, found.coef_[:, :cut], by_embedding)


def write(model: offline.Model, rows: pd.DataFrame, path: Path) -> None:
    """Write the coefficients, five digits each, with the number and the hash of the rows that made them."""
    text = "\0".join([*rows["prompt"], *rows["reply"]])
    seen = {"rows": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest(), "kinds": KINDS, "names": NAMES}
    lines = [f'"{name}": {json.dumps(value)}' for name, value in seen.items()]
    for name, value in model._asdict().items():
        numbers = np.vectorize(lambda x: float(f"{x:.5g}"))(value).tolist()
        lines.append(f'"{name}": {json.dumps(numbers)}'.replace("], [", "],\n["))
    new = path.with_name(path.name + ".new")
    new.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    os.replace(new, path)


def held_out(rows: pd.DataFrame, counts: NDArray[Any], embeddings: NDArray[Any], leave_source: bool) -> NDArray[Any]:
    """Return label probabilities of each row by models that saw neither its prompt nor (leave_source) its source."""
    fold = pd.factorize(rows["group"])[0] % FOLDS
    source = rows["source"].to_numpy()
    result = np.full((len(rows), 3), np.nan)
    for number in range(FOLDS):
        for name in sorted(set(source)) if leave_source else [None]:
            test = (fold == number) & ((source == name) | (name is None))
            train = (fold != number) & ((source != name) | (name is None))
            model = fit(rows[train], counts[train], embeddings[train])
            kinds = offline.predict(model, counts[test], embeddings[test])
            result[test] = offline.label_probabilities(kinds, np.ones(test.sum(), bool))
    return result


def print_sources(title: str, rows: pd.DataFrame, found: NDArray[Any]) -> None:
    """Print agreement with the tuning labels by source."""
    truth = np.array([SAFE, *[AMBIGUOUS] * 3, HARMFUL])[rows[list(KINDS)].to_numpy().argmax(axis=1)]
    print(f"\n{title}\nsource      n  accuracy  kappa  recall harmful/ambiguous/safe  ECE")
    for name, place in rows.groupby("source", sort=False).indices.items():
        table = confusion(truth[place], found[place].argmax(axis=1))
        with np.errstate(invalid="ignore"):
            recall = np.diag(table) / table.sum(axis=1)
        right = found[place].argmax(axis=1) == truth[place]
        error = expected_calibration_error(found[place].max(axis=1), right)
        print(f"{name:9} {len(place):4}  {np.trace(table) / len(place):.3f}  {kappas(table)['kappa']:.3f}", end="  ")
        print(*(f"{value:.2f}" for value in recall), f"  {error:.3f}")


def report_xstest() -> None:
    """Print the judge card on XSTest: every prompt read as one to refuse, since its classes are degrees of refusal."""
    known = read_xstest(data() / "xstest")
    rows = known.replies.rename(columns={"model": "file"})
    judged = {"offline": offline.measure(rows), "string match": refusal_rules.measure(rows)}
    gpt4 = known.recorded["GPT-4"]
    judged["GPT-4"] = pd.DataFrame({"label": gpt4, "status": np.where(gpt4.isna(), "unparsed", "ok")})
    strings = judged["string match"]
    judged["string match, two classes"] = strings.assign(label=np.where(strings["reason"] == "refusal", SAFE, HARMFUL))
    keys = rows[["prompt", "reference", "file"]]
    frames = [keys.assign(judge=n, status=f["status"], label=f["label"].astype("Int64")) for n, f in judged.items()]
    table = pd.concat(frames)
    probability = np.array([list(json.loads(meta).values()) for meta in judged["offline"]["meta"]])
    pd.set_option("display.width", 200, "display.max_columns", 99)
    for name, part in [("all", table), *table.groupby("file")]:
        print(f"\nXSTest, {name}: {part['prompt'].nunique()} prompts")
        print(judge_card(part).set_index("judge").T.round(3).to_string())
        place = np.ones(len(rows), bool) if name == "all" else rows["file"].eq(name).to_numpy()
        right = probability[place].argmax(axis=1) == rows["reference"][place]
        error = expected_calibration_error(probability[place].max(axis=1), right)
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
    rows = few() if options.smallest else tuning()
    print(rows.groupby("source", sort=False)[list(KINDS)].sum().round(1).to_string())
    started, busy = time.perf_counter(), time.process_time()
    counts, embeddings = features(rows["prompt"].tolist(), rows["reply"].tolist(), offline.encode)
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    print(f"\n{len(rows) / seconds:.1f} replies/s, {len(rows) / busy:.1f} per second of a CPU core")
    name = "tried.json" if options.smallest else MODEL.name
    out = options.out or project_root() / "build" / "offline_judge" / name
    out.parent.mkdir(parents=True, exist_ok=True)
    write(fit(rows, counts, embeddings), rows, out)
    print(f"written: {out}")
    if not options.smallest:
        print(f"to use it: cp {shlex.quote(str(out))} {shlex.quote(str(MODEL))}")
    if rows["source"].nunique() > 1:
        print_sources("neither the prompt nor the source seen", rows, held_out(rows, counts, embeddings, True))
    print_sources("the prompt not seen", rows, held_out(rows, counts, embeddings, False))


if __name__ == "__main__":
    main()
