"""Public replies with labels of people or of other judges, to hold judges against: XSTest and refusal_stability."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.importers.csv_text import read_csv_text
from slmsafety.records.schema import AMBIGUOUS, HARMFUL, SAFE

XSTEST_LABELS = {"1_full_compliance": HARMFUL, "2_full_refusal": SAFE, "3_partial_refusal": AMBIGUOUS}
XSTEST_MODELS = {"gpt4": "GPT-4", "llama2new": "Llama 2"}
_XSTEST_COLUMNS = ("id", "prompt", "completion", "annotation_1", "annotation_2", "final_label", "gpt4_label")
STABILITY_LABELS = {"COMPLY": HARMFUL, "PARTIAL": AMBIGUOUS, "REFUSE": SAFE}
# The model's file, and what Haiku's file calls it.
STABILITY_MODELS = {
    "Qwen2.5 7B": ("Qwen_Qwen2.5_7B_Instruct_temp0.0_seed42_labels.csv", "Qwen_Qwen2.5_7B_Instruct"),
    "Llama 3.1 8B": (
        "meta_llama_Llama_3.1_8B_Instruct_temp0.0_seed42_labels.csv",
        "meta-llama/Llama-3.1-8B-Instruct",
    ),
}


class JudgedReplies(NamedTuple):
    """Replies with a reference label, and what recorded judges called them.

    Attributes
    ----------
    title : str
        The name of the set.
    reference : str
        Whose labels count as right.
    note : str
        What to know before the numbers are believed.
    replies : DataFrame
        suite (whose rubric the reference follows), model, prompt_id, prompt, expected, response: text; reference:
        Int64, 0 harmful, 1 ambiguous, 2 safe.
    recorded : dict of str to Series
        For each judge a label (Int64) for each of the replies, in their order; missing where the file holds no label.
    """

    title: str
    reference: str
    note: str
    replies: pd.DataFrame
    recorded: dict[str, pd.Series]


def read_xstest(folder: Path) -> JudgedReplies:
    """Read XSTest's completions of GPT-4 and Llama 2 with the labels of people and of GPT-4 (Röttger et al., 2024).

    Parameters
    ----------
    folder : Path
        The folder with upstream's two files xstest_v2_completions_*_gpteval.csv.

    Returns
    -------
    JudgedReplies
        900 replies. The three classes are degrees of refusal, of safe and unsafe prompts alike: every prompt counts as
        one to refuse.

    Raises
    ------
    InputError
        Naming a file that lacks something, and the row of a final label that is none.
    """
    frames = []
    for key, model in XSTEST_MODELS.items():
        path = folder / f"xstest_v2_completions_{key}_gpteval.csv"
        rows = read_csv_text(path, _XSTEST_COLUMNS).assign(model=model)
        rows["reference"] = _known(rows["final_label"], XSTEST_LABELS, path)
        frames.append(rows.rename(columns={"id": "prompt_id", "completion": "response"}))
    rows = pd.concat(frames, ignore_index=True).assign(suite="xstest", expected="refuse")
    judges = {"GPT-4": "gpt4_label", "reader 1": "annotation_1", "reader 2": "annotation_2"}
    recorded = {name: _labels(rows[column], XSTEST_LABELS) for name, column in judges.items()}
    return JudgedReplies(
        "XSTest",
        "the people's final label",
        "no judge here was tuned on it; the final label was made from those of the two readers",
        _replies(rows),
        recorded,
    )


def read_refusal_stability(folder: Path) -> JudgedReplies:
    """Read the greedy replies of refusal_stability (876 prompts, two models) with the labels of its two judges.

    Parameters
    ----------
    folder : Path
        The folder with the two models' files of labels, and Haiku's.

    Returns
    -------
    JudgedReplies
        The reference is Claude 3.5 Haiku (seed 42), the recorded judge a Llama 3.1 whose size its documents disagree
        on.

    Raises
    ------
    InputError
        Naming a file that lacks something, or a reply without exactly one label of Haiku's.
    """
    path = folder / "claude_haiku_llama_qwen25.csv"
    haiku = read_csv_text(path, ("model", "prompt_id", "temperature", "seed", "label"))
    haiku = haiku[haiku["temperature"].astype(float).eq(0) & haiku["seed"].eq("42")]
    haiku = haiku.assign(reference=_known(haiku["label"], STABILITY_LABELS, path))
    frames = []
    for model, (file, name) in STABILITY_MODELS.items():
        rows = read_csv_text(folder / file, ("prompt_id", "prompt", "response", "label")).assign(model=model)
        right = haiku.loc[haiku["model"] == name, ["prompt_id", "reference"]]
        if sorted(right["prompt_id"]) != sorted(rows["prompt_id"]):
            raise InputError(f"{path}: does not hold one label (temperature 0, seed 42) for each reply in {file}")
        frames.append(rows.merge(right, on="prompt_id", validate="one_to_one"))
    rows = pd.concat(frames, ignore_index=True).assign(suite="harmbench", expected="refuse")
    return JudgedReplies(
        "refusal_stability",
        "Claude 3.5 Haiku",
        "the reference is a judge, no person, and `offline` was fitted on these very labels: its row is flattered",
        _replies(rows),
        {"Llama 3.1": _labels(rows["label"], STABILITY_LABELS)},
    )


def _replies(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[["suite", "model", "prompt_id", "prompt", "expected", "response", "reference"]].astype(
        {"reference": "Int64"}
    )


def _labels(written: pd.Series, labels: dict[str, int]) -> pd.Series:
    return written.str.strip().map(labels).astype("Int64")


def _known(written: pd.Series, labels: dict[str, int], path: Path) -> pd.Series:
    """The labels of a column that may hold nothing else."""
    found = _labels(written, labels)
    if found.isna().any():
        line = int(found.index[found.isna()][0])
        raise unknown("label", str(written[line])[:40], labels, f"{path}, row {line + 1}")
    return found
