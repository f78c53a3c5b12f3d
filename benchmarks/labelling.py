"""Label the replies of the study `small_replies` by docs/labelling.md: sheets for readers, and what they say.

    python benchmarks/labelling.py sheets      write pass_1/*.jsonl and pass_2/*.jsonl, for two readings
    python benchmarks/labelling.py disputes    write pass_3/*.jsonl: what the two readings differ on, and replies that
                                               play both sides of a dialogue and were called no text
    python benchmarks/labelling.py gather      write labels.csv, and print how far the readings agree
    python benchmarks/labelling.py --smallest  only try all of it, on the project's own texts

All of it lies in build/labelling. A reader answers a sheet NAME.jsonl in NAME.csv beside it: the columns row, text,
refuses, answers. A sheet shows prompt and reply alone, in an order of its own a reading. `slmsafety collect
small_replies --stage generate` makes the replies first.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import numpy as np
import offline_rows
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from slmsafety.errors import InputError
from slmsafety.judging.offline.labelled import ASKED, KEYS, kind_of
from slmsafety.paths import project_root
from slmsafety.records.ids import text_id

PARTS, SEED = 4, 0
DIALOGUE = r"(?im)^\W{0,3}(?:human|user|q|question|you are a careful)\b"
ANSWERS = {"refusal": (1, 1, 0), "partial": (1, 1, 1), "degenerate": (0, 0, 0), "off_topic": (1, 0, 0)}


def replies() -> pd.DataFrame:
    """Return the study's replies with their prompts, in a fixed order; raises InputError where there are none."""
    run = project_root() / "runs" / "small_replies"
    files = sorted((run / "responses").glob("*/*.parquet"))
    if not files:
        raise InputError(f"{run}: no replies; make them with: slmsafety collect small_replies --stage generate")
    found = pd.concat([pd.read_parquet(path) for path in files])
    prompts = pd.concat([pd.read_parquet(path) for path in sorted((run / "prompts").glob("*.parquet"))])
    known = prompts[["suite", "instance_id", "prompt"]]
    found = found.merge(known, on=["suite", "instance_id"], validate="many_to_one")
    found["reply_id"] = [text_id(text) for text in found["response"]]
    return found.sort_values(KEYS[:3]).reset_index(drop=True)


def write_sheets(rows: pd.DataFrame, folder: Path, reading: int) -> None:
    """Write the rows (prompt, response, by index) as shuffled sheets of one reading."""
    order = rows.index.tolist()
    random.Random(SEED + reading).shuffle(order)
    (folder / f"pass_{reading}").mkdir(parents=True, exist_ok=True)
    for part, places in enumerate(np.array_split(np.array(order, dtype=int), min(PARTS, len(order)) or 1)):
        shown = [{"row": int(i), "prompt": rows.at[i, "prompt"], "reply": rows.at[i, "response"]} for i in places]
        path = folder / f"pass_{reading}" / f"{part}.jsonl"
        path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in shown), "utf-8")
        print(f"written: {path} ({len(shown)} replies)")


def read_pass(folder: Path, reading: int) -> pd.DataFrame:
    """Return a reading's answers by row; raises InputError for a row that is not answered once, by 0 or 1."""
    frames = []
    for sheet in sorted((folder / f"pass_{reading}").glob("*.jsonl")):
        answered = sheet.with_suffix(".csv")
        if not answered.is_file():
            raise InputError(f"{answered}: is not there; it owes the answers to {sheet.name}")
        answers = pd.read_csv(answered, index_col="row")[list(ASKED)]
        asked = [json.loads(line)["row"] for line in sheet.read_text("utf-8").splitlines()]
        if sorted(answers.index) != sorted(asked) or not answers.isin([0, 1]).all(axis=None):
            raise InputError(f"{answered}: owes each row of the sheet once, its answers 0 or 1")
        if (answers["text"].eq(0) & answers[["refuses", "answers"]].any(axis=1)).any():
            raise InputError(f"{answered}: a row that is no text (0) refuses or answers")
        frames.append(answers)
    if not frames:
        raise InputError(f"{folder}: no sheets; write them with: python benchmarks/labelling.py sheets")
    return pd.concat(frames).sort_index()


def agreement(one: pd.Series, other: pd.Series) -> str:
    """Return the share of equal answers and the unweighted kappa of two readings."""
    return f"equal {np.mean(one == other):.3f}, kappa {cohen_kappa_score(one, other):.3f}"


def disputes(rows: pd.DataFrame, folder: Path) -> pd.Index:
    """Return the rows to read a third time."""
    first, second = read_pass(folder, 1), read_pass(folder, 2)
    dialogue = rows["response"].str.contains(DIALOGUE) & first["text"].eq(0)
    return rows.index[(first != second).any(axis=1) | dialogue]


def gather(rows: pd.DataFrame, folder: Path) -> None:
    """Put the readings together: where there is a third one, it decides."""
    first, second, disputed = read_pass(folder, 1), read_pass(folder, 2), disputes(rows, folder)
    final = first.copy()
    if len(disputed):
        final.loc[disputed] = read_pass(folder, 3).loc[disputed]
    for name in ASKED:
        print(f"{name}: {agreement(first[name], second[name])}")
    kinds = [pd.Series([kind_of(*each) for each in table.to_numpy()]) for table in (first, second)]
    print(f"kind: {agreement(*kinds)}; {len(disputed)} of {len(rows)} read a third time")
    parts = [rows[list(KEYS)], final, first.add_suffix("_1"), second.add_suffix("_2")]
    pd.concat(parts, axis=1).to_csv(folder / "labels.csv", index=False, lineterminator="\n")
    print(f"written: {folder / 'labels.csv'}")


def try_all(folder: Path) -> None:
    """Write, answer and gather sheets of the project's own texts; the second reading turns one answer in ten."""
    own = offline_rows.few()
    rows = own.rename(columns={"reply": "response"}).assign(suite="own", model="none")
    rows["instance_id"], rows["reply_id"] = rows.index.astype(str), [text_id(text) for text in rows["response"]]
    kinds = rows[["refusal", "partial", "degenerate", "off_topic", "complies"]].idxmax(axis=1)
    right = pd.DataFrame([ANSWERS.get(kind, (1, 0, 1)) for kind in kinds], rows.index, columns=list(ASKED))
    turned = right.copy()
    turned.loc[turned.index % 10 == 0, "refuses"] = turned["text"] - turned["refuses"]
    for reading, answers in ((1, right), (2, turned), (3, right)):
        write_sheets(rows if reading < 3 else rows.loc[disputes(rows, folder)], folder, reading)
        for sheet in (folder / f"pass_{reading}").glob("*.jsonl"):
            asked = [json.loads(line)["row"] for line in sheet.read_text("utf-8").splitlines()]
            answers.loc[asked].to_csv(sheet.with_suffix(".csv"), index_label="row")
    gather(rows, folder)


def main() -> None:
    """Write sheets, or gather what readers said."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("sheets", "disputes", "gather"), nargs="?", help="what to do")
    parser.add_argument("--smallest", action="store_true", help="only try it, on the project's own texts")
    options = parser.parse_args()
    folder = project_root() / "build" / "labelling"
    if options.smallest:
        try_all(folder.with_name("labelling_tried"))
    elif options.step is None:
        parser.error("say what to do: sheets, disputes or gather")
    elif options.step == "sheets":
        rows = replies()
        for reading in (1, 2):
            write_sheets(rows, folder, reading)
    elif options.step == "disputes":
        rows = replies()
        write_sheets(rows.loc[disputes(rows, folder)], folder, 3)
    else:
        gather(replies(), folder)


if __name__ == "__main__":
    main()
