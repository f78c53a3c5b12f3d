"""Tiny studies of every shape: self-made mild prompts and replies with planted labels, written below a project root.

A shape is what somebody's judged outputs may look like: one model or a hundred, no label at all, benign prompts alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from slmsafety.pipeline.judges import all_judge_ids
from slmsafety.records.ids import text_id
from slmsafety.records.schema import JUDGMENTS, PROMPT_METRICS, PROMPTS, REPLY_METRICS, RESPONSES, Table
from slmsafety.records.store import Partition
from slmsafety.study import Study

SCORES = ("0", "0.5", "1")
NO_CARD = ("tern", "plover", "dunlin")
CARDS = ("smollm2-135m-it", "smollm2-360m-it", "gpt2-small", "gpt2-medium", "opt-125m")
CSV = ("suite", "instance_id", "model", "judge", "prompt", "response", "score", "expected", "category", "status")
MISSING = "unparsed"


@dataclass(frozen=True)
class Shape:
    """The rows of a study, and what else it has.

    `rows` have the columns of `CSV`, and of the store only: sample and refused (True, False, None). Without those they
    are imported from a CSV. `study` are further keys of the parameters.
    """

    rows: pd.DataFrame
    metrics: bool = False
    study: dict[str, Any] = field(default_factory=dict)
    hand_labels: bool = False

    @property
    def from_csv(self) -> bool:
        """Whether a CSV can hold the rows."""
        return not {"sample", "refused", "letter"} & set(self.rows) and self.study.get("kind") != "run"


def table(
    suites: Sequence[str],
    models: Sequence[str],
    prompts: int,
    judges: Sequence[str] = ("rater",),
    shares: Sequence[float] = (0.3, 0.3, 0.4),
    seed: int = 0,
) -> pd.DataFrame:
    """Return a row for each suite, prompt, model and judge, with scores drawn at these shares of 0, 0.5 and 1."""
    rng = np.random.default_rng(seed)
    rows = [
        (suite, f"{suite}-{number}", model, judge, f"Say how to fold paper bird {number} of {suite}.")
        for suite in suites
        for number in range(prompts)
        for model in models
        for judge in judges
    ]
    frame = pd.DataFrame(rows, columns=["suite", "instance_id", "model", "judge", "prompt"])
    reply = "Here is a mild answer about paper by " + frame["model"] + ": " + frame["instance_id"]
    category = np.where(frame["instance_id"].str[-1].isin(list("02468")), "birds", "boats")
    scores = rng.choice(SCORES, len(frame), p=shares)
    return frame.assign(response=reply, score=scores, expected="refuse", category=category, status="ok")


def _unlabelled(rows: pd.DataFrame, where: pd.Series) -> pd.DataFrame:
    """Return the rows without a score at some places."""
    return rows.assign(score=rows["score"].mask(where, ""), status=rows["status"].mask(where, MISSING))


def _controls(rows: pd.DataFrame, refused: Sequence[bool | None]) -> pd.DataFrame:
    """Return the rows as benign controls; a judge that cannot tell refusals gives None."""
    told = [refused[number % len(refused)] for number in range(len(rows))]
    return rows.assign(expected="answer", refused=pd.Series(told, rows.index, dtype="object"), sample=0)


def _choices(models: Sequence[str], items: int) -> pd.DataFrame:
    """Return answers to multiple choice: A is right where the item number is even, and every third names no letter."""
    rows = table(["bbq"], models, items, ["bbq_letter"])
    number = rows["instance_id"].str.removeprefix("bbq-").astype(int) + rows["model"].str.len()
    letter = np.where(number % 3 == 0, "", np.where(number % 2, "B", "A"))
    status = np.where(letter == "", MISSING, "ok")
    return rows.assign(letter=letter, status=status, expected="answer", score="", sample=0)


def _samples(rows: pd.DataFrame, samples: int) -> pd.DataFrame:
    """Return every row `samples` times with other scores; the last prompt has one reply only."""
    rng = np.random.default_rng(3)
    parts = [rows.assign(sample=number, score=rng.choice(SCORES, len(rows))) for number in range(samples)]
    every = pd.concat(parts, ignore_index=True)
    return every[(every["sample"] == 0) | (every["instance_id"] != every["instance_id"].iloc[-1])]


def _judged_by(rows: pd.DataFrame, *judges: str) -> pd.DataFrame:
    """Return every reply once more for each judge."""
    return pd.concat([rows.assign(judge=judge) for judge in judges], ignore_index=True)


def _samples_of_two_judges() -> Shape:
    rows = _samples(table(["alpha", "beta"], NO_CARD, 12), 3)
    other = rows.assign(judge="second", score=np.random.default_rng(5).permutation(rows["score"]))
    return Shape(pd.concat([rows, other], ignore_index=True), metrics=True)


def _sized_by_the_study() -> Shape:
    names = ("own-small", "own-large", "own-other")
    sizes = dict(zip(names, (100, 900, 400), strict=True))
    models = [
        {
            "id": name,
            "endpoint": "http://localhost:9/v1",
            "served": name,
            "family": "Own",
            "params_m": sizes[name],
            "year": 2024,
        }
        for name in names
    ]
    study = {
        "kind": "run",
        "suites": [{"name": "demo_direct", "limit": 8}],
        "models": models,
        "judges": ["refusal_rules"],
    }
    return Shape(table(["demo_direct"], names, 8, ["refusal_rules"]).assign(sample=0), study=study)


def _systems() -> Shape:
    """Two models in three systems each, two replies a prompt: answers apart, none, and in a language nobody reads."""
    names = [f"{card}-{way}" for card in CARDS[:2] for way in ("plain", "framed", "safe")]
    models = [
        {"id": name, "card": name.rpartition("-")[0], "endpoint": "http://localhost:9/v1", "served": name}
        for name in names
    ]
    study = {
        "kind": "run",
        "suites": [{"name": "demo_direct", "limit": 12}, {"name": "demo_framed", "limit": 8}],
        "models": models,
        "generation": {"temperature": 0.8, "samples": 2},
        "judges": ["refusal_rules", "offline"],
    }
    once = table(["demo_direct", "demo_framed"], names, 12, ["refusal_rules"])
    rows = pd.concat([once.assign(sample=sample) for sample in (0, 1)], ignore_index=True)
    form = np.random.default_rng(7).integers(5, size=len(rows))
    answer, thought = rows["response"], "<think>Paper.</think>\n"
    lacking = {2: "no_answer", 3: "abstained", 4: "empty_response"}
    status = pd.Series(form).map(lacking).fillna("ok")
    rows = rows.assign(
        response=answer.mask(form == 1, thought + answer).mask(form == 2, thought).mask(form == 4, ""),
        answer_start=pd.array(np.where(form == 0, None, len(thought)), "Int64"),
        language=np.where(form == 3, "fr", np.where(form < 2, "en", "und")),
        score=rows["score"].mask(status.ne("ok"), ""),
        status=status,
    )
    rows["answer_start"] = rows["answer_start"].mask(form > 2)
    rows["answer_end"] = rows["response"].str.len().astype("Int64").mask(rows["answer_start"].isna())
    other = rows.assign(judge="offline", score=rows["score"].replace({"0": "0.5", "0.5": "1"}))
    return Shape(pd.concat([rows, other], ignore_index=True), metrics=True, study=study)


def _model_lacks_a_suite() -> pd.DataFrame:
    rows = table(["alpha", "beta"], NO_CARD, 10)
    return rows[~(rows["suite"].eq("beta") & rows["model"].eq("dunlin"))]


def _odd_names() -> pd.DataFrame:
    rows = table(["a.b_c-1", "B2"], ["a Ünï/1 (β)", "x $y_2$ [z](w)", "m" * 60], 6)
    return rows.assign(
        instance_id="ид " + rows["instance_id"], category="Größe & <b>$_", judge="J.1-b_2", response="Ответ: птица 🐦"
    )


def _with_controls(refused: Sequence[bool | None]) -> pd.DataFrame:
    rows = table(["alpha"], NO_CARD, 8)
    benign = _controls(table(["gentle"], NO_CARD, 8), refused)
    return pd.concat([rows.assign(sample=0, refused=None), benign], ignore_index=True)


def _untold_beside_told() -> pd.DataFrame:
    told, untold = (
        _controls(table([suite], NO_CARD, 8), refused) for suite, refused in (("told", [True, False]), ("mute", [None]))
    )
    return pd.concat([told, untold, table(["alpha"], NO_CARD, 6).assign(sample=0)], ignore_index=True)


def _choices_beside() -> pd.DataFrame:
    return pd.concat([_choices(NO_CARD, 12), table(["alpha"], NO_CARD, 8).assign(sample=0)], ignore_index=True)


def _unlabelled_at(column: str, value: str, **shape: Any) -> pd.DataFrame:
    rows = table(["alpha", "beta"], NO_CARD, 10, **shape)
    return _unlabelled(rows, rows[column].eq(value))


def _nothing_labelled() -> pd.DataFrame:
    rows = table(["alpha"], NO_CARD, 8)
    rows = _unlabelled(rows, rows["score"].notna())
    empty = rows["instance_id"].str.endswith("1")
    status = rows["status"].mask(empty, "empty_response")
    return rows.assign(response=rows["response"].mask(empty, ""), status=status, sample=0)


CHOICES: dict[str, Any] = {"suites": [{"name": "bbq"}]}
MANY = tuple(f"model-{number:03d}" for number in range(100))
SHAPES: dict[str, Callable[[], Shape]] = {
    "one row": lambda: Shape(table(["alpha"], NO_CARD[:1], 1), metrics=True),
    "one model": lambda: Shape(table(["alpha"], NO_CARD[:1], 24), metrics=True),
    "one prompt": lambda: Shape(table(["alpha"], NO_CARD, 1), metrics=True),
    "one suite": lambda: Shape(table(["alpha"], NO_CARD, 40), metrics=True),
    "two suites": lambda: Shape(table(["alpha", "beta"], NO_CARD, 20), metrics=True),
    "without metrics": lambda: Shape(table(["alpha", "beta"], NO_CARD, 10)),
    "two judges": lambda: Shape(table(["alpha"], NO_CARD, 20, ["rater", "second"]), metrics=True),
    "hand labels": lambda: Shape(table(["alpha"], NO_CARD, 10), hand_labels=True),
    "cards": lambda: Shape(table(["alpha", "beta"], CARDS, 20), metrics=True),
    "one family": lambda: Shape(table(["alpha"], CARDS[:2], 12)),
    "sizes of the study": _sized_by_the_study,
    "a hundred models": lambda: Shape(table(["alpha"], MANY, 4), metrics=True),
    "controls only": lambda: Shape(_controls(table(["gentle"], NO_CARD, 8), [True, False, False]), metrics=True),
    "controls, never told": lambda: Shape(_controls(table(["gentle"], NO_CARD, 8), [None])),
    "controls beside": lambda: Shape(_with_controls([True, False, None])),
    "controls of two judges": lambda: Shape(_untold_beside_told()),
    "choices only": lambda: Shape(_choices(NO_CARD, 12), study=CHOICES, metrics=True),
    "choices beside": lambda: Shape(_choices_beside(), study=CHOICES),
    "nothing labelled": lambda: Shape(_nothing_labelled(), metrics=True),
    "all harmful": lambda: Shape(table(["alpha"], NO_CARD, 8, shares=(1, 0, 0)), metrics=True),
    "all ambiguous": lambda: Shape(table(["alpha", "beta"], NO_CARD, 8, shares=(0, 1, 0)), metrics=True),
    "all safe, two judges": lambda: Shape(table(["alpha"], NO_CARD, 8, ["a", "b"], shares=(0, 0, 1)), metrics=True),
    "several samples": _samples_of_two_judges,
    "systems of two models": _systems,
    "a model lacks a suite": lambda: Shape(_model_lacks_a_suite()),
    "suites without a common model": lambda: Shape(
        pd.concat([table(["alpha"], NO_CARD, 8), table(["beta"], ["knot", "ruff"], 8)], ignore_index=True)
    ),
    "a model without labels": lambda: Shape(_unlabelled_at("model", "tern"), metrics=True),
    "a suite without labels": lambda: Shape(_unlabelled_at("suite", "beta"), metrics=True),
    "a judge without labels": lambda: Shape(_unlabelled_at("judge", "second", judges=["rater", "second"])),
    "odd names": lambda: Shape(_odd_names(), metrics=True),
}


def write_study(name: str, shape: Shape, root: Path) -> dict[str, Any]:
    """Write a study's rows below the root, and return its parameters."""
    source = root / ("judged.csv" if shape.from_csv else "elsewhere.csv")
    csv = shape.rows if shape.from_csv else table(["alpha"], NO_CARD[:1], 1)
    csv[list(CSV)].to_csv(source, index=False)
    study: dict[str, Any] = {"name": name, "kind": "imported", **shape.study}
    if study["kind"] == "imported":
        study |= {"judged_csv": source.name, "scores": {"higher": "safe"}}
    if shape.hand_labels:
        _hand_labels(shape.rows).to_csv(root / "hand.csv", index=False)
        study["human_labels"] = "hand.csv"
    if shape.from_csv:
        Study.load(study).collect()
    else:
        _store(Study.load(study), shape.rows)
    if shape.metrics:
        _measure(Study.load(study))
    return study


def _hand_labels(rows: pd.DataFrame) -> pd.DataFrame:
    """Return labels by hand of the first twelve replies, of which most are as the judge has it."""
    first = rows.head(12)
    human = [int(2 * float(score)) if place % 4 else 1 for place, score in enumerate(first["score"])]
    return first[["suite", "instance_id", "model"]].assign(human=human, reply_id=[*map(text_id, first["response"])])


def _store(study: Study, rows: pd.DataFrame) -> None:
    """Write rows into a study's tables under the ids that its parameters give."""
    frame = rows.assign(suite_revision="1", finish_reason="stop", meta="{}", generation_id="imported")
    frame["judge_id"] = "by " + frame["judge"]
    if study.params.kind == "run":
        pairs = zip(frame["suite"], frame["model"], strict=True)
        frame["generation_id"] = [study.run.generation_ids[pair] for pair in pairs]
        made, apart = all_judge_ids(study.run), frame.get("answer_start", pd.Series(index=frame.index)).notna()
        asked = zip(frame["suite"], frame["judge"], apart, strict=True)
        frame["judge_id"] = [
            made[suite, judge].answer if part else made[suite, judge].whole for suite, judge, part in asked
        ]
    labelled = frame["status"].eq("ok") & frame["score"].ne("")
    frame["label"] = (pd.to_numeric(frame["score"].replace("", None)) * 2).where(labelled).astype("Int64")
    prompts, judged = frame.assign(language="en"), frame
    if "letter" in rows:
        own = frame["letter"].notna()
        item = {
            "label": "A",
            "target": "A",
            "non_target": "B",
            "unknown": "C",
            "polarity": "neg",
            "sources": ["Religion"],
        }
        contexts = ["ambig" if key[-1] in "02468" else "disambig" for key in frame["instance_id"]]
        items = pd.Series(
            [json.dumps({**item, "sources": ["Religion"], "condition": context}) for context in contexts], frame.index
        )
        letters = pd.Series([json.dumps({"exact": x, "tolerant": x}) for x in frame["letter"]], frame.index)
        prompts = prompts.assign(meta=items.where(own, "{}"))
        judged = frame.assign(meta=letters.where(own, "{}"))
    for table_, part in ((PROMPTS, prompts), (RESPONSES, frame), (JUDGMENTS, judged)):
        _replace(study.folder, table_, part.drop_duplicates(list(table_.key)))


def _replace(folder: Path, table_: Table, rows: pd.DataFrame) -> None:
    defaults = [column for column in table_.defaults if column not in rows]
    whole = rows.reindex(columns=[column for column in table_.columns if column not in defaults])
    for names, part in whole.groupby(list(table_.files)):
        Partition(folder, table_, tuple(map(str, names))).replace(part)


def _measure(study: Study) -> None:
    """Write made-up metrics: of prompts with some noise, of replies with what goes with their length."""
    rng, made = np.random.default_rng(1), study.run.metrics_id if study.params.kind == "run" else "made up"
    for table_, of in ((PROMPT_METRICS, "prompts"), (REPLY_METRICS, "responses")):
        rows = study.table(of, [])
        metrics = [column for column in table_.columns if column not in table_.key]
        values = {name: rng.lognormal(2, 0.6, len(rows)) for name in metrics}
        whole = [name for name in metrics if table_.columns[name] == "int"]
        frame = rows.assign(**values, metrics_id=made)
        _replace(study.folder, table_, frame.assign(**{name: frame[name].round() for name in whole}))
