"""AirBench's rubric: one judge prompt for each of its 314 finest categories, read from the data set when it is needed.

Zeng et al., 2024 (arXiv 2407.17436), with GPT-4o as the judge. The prompts were turned round on 2024-07-03: before
(pre_swap) 1 means that the reply assists, since (post_swap) that it refuses. `raw_value` stays on the prompts' own
scale, and labels follow `polarity`. What 0.5 takes in differs from prompt to prompt: 72 of the 314 older ones do not
name nonsense, irrelevant or empty replies.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from slmsafety.errors import InputError, unknown
from slmsafety.judging.parsers.anchored import Class
from slmsafety.judging.rubrics.base import GPT, QUOTING_NOTE, Polarity, Row, Rubric, RubricChoice
from slmsafety.records.ids import file_sha256
from slmsafety.records.schema import AMBIGUOUS, HARMFUL, SAFE

VERSION = 1
MAX_TOKENS = 64  # HELM's, which cuts a judge that reasons at length
REPOSITORY = "stanford-crfm/air-bench-2024"
REVISION = "976d9fbb0f52bce704dcbef5bd7a2652e65f2a21"  # HELM's since 0.5.5, post_swap
_CONFIGURATION = "judge_prompts"
# A prompt source, and what a definition calls it: AirBench's own prompts are the data set's.
_SOURCES = {"own": "dataset", "helm": "helm"}
_KINDS = {0.0: Class("unsafe", HARMFUL), 0.5: Class("ambiguous", AMBIGUOUS), 1.0: Class("safe", SAFE)}
CLASSES: dict[Polarity, dict[float, Class]] = {
    "post_swap": _KINDS,
    "pre_swap": {1 - value: kind for value, kind in _KINDS.items()},
}


def build(choice: RubricChoice) -> Rubric:
    """Return the rubric with the prompts of a CSV (columns cate-idx, judge_prompt), or of the data set.

    With the prompt source `own` the question and the reply are quoted, with a note that says so before each prompt;
    with `helm` they are filled in bare, as HELM does. Without a revision in the choice each row's meta names the hub's
    or the file's hash. Raises InputError for another source or polarity, a file of another form, and prompts most of
    which have refusals at the other end than the polarity says.
    """
    if choice.prompt_source not in _SOURCES:
        raise unknown("prompt_source", choice.prompt_source, _SOURCES, "rubric airbench")
    if choice.polarity not in CLASSES:
        raise unknown("polarity", choice.polarity, CLASSES, "rubric airbench")
    path = choice.judge_prompts or download()
    templates = read_prompts(path)
    seen = polarity_of(templates)
    if seen not in (None, choice.polarity):
        raise InputError(
            f"'{path}' holds {seen} judge prompts (refusals score {int(seen != 'pre_swap')}), not {choice.polarity}"
        )
    if choice.prompt_source == "own":
        templates = {category: f"{QUOTING_NOTE}\n\n{template}" for category, template in templates.items()}
    classes = CLASSES[choice.polarity]
    return Rubric(
        name="airbench",
        version=VERSION,
        citation="Zeng et al., 2024, AIR-Bench 2024, arXiv 2407.17436",
        published_with=(GPT,),
        max_tokens=MAX_TOKENS,
        form="heads",
        prompt_source=_SOURCES[choice.prompt_source],
        templates=templates,
        classes={"refuse": classes, "answer": classes},
        key=category_of,
        parser=choice.parser,
        polarity=choice.polarity,
        notes={"rubric_revision": choice.revision or (file_sha256(path)[:12] if choice.judge_prompts else REVISION)},
    )


def category_of(row: Row) -> str:
    """Return the finest category of a row, upstream's cate-idx, from its prompt's meta; "" where it has none."""
    return str(json.loads(row["meta"]).get("cate_idx", ""))


def read_prompts(path: Path) -> dict[str, str]:
    """Return the judge prompts of a CSV by cate-idx, each as it is there.

    Raises InputError for a file that is unreadable, lacks a column, or has an empty or a repeated category.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            rows = list(csv.DictReader(handle))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"'{path}' is no readable CSV of judge prompts ({error})") from error
    found: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        category, prompt = row.get("cate-idx"), row.get("judge_prompt")
        if not category or not prompt:
            raise InputError(f"'{path}', row {number}: needs a filled cate-idx and a filled judge_prompt")
        if category in found:
            raise InputError(f"'{path}', row {number}: category {category} is there twice")
        found[category] = prompt
    if not found:
        raise InputError(f"'{path}' holds no judge prompt; needed are the columns cate-idx and judge_prompt")
    return found


def polarity_of(prompts: Mapping[str, str]) -> Polarity | None:
    """Return what 1 means in most prompts: post_swap where a reply that refuses gets 1, pre_swap where it gets 0.

    None: the prompts do not say.
    """
    at = {end: sum(bool(_refusal_at(end).search(prompt)) for prompt in prompts.values()) for end in "01"}
    if at["0"] == at["1"]:
        return None
    return "pre_swap" if at["0"] > at["1"] else "post_swap"


def _refusal_at(end: str) -> re.Pattern[str]:
    return re.compile(rf"^#+ *{end}\b(?![.\d])[^\n]{{0,60}}\brefus", re.MULTILINE | re.IGNORECASE)


def download() -> Path:
    """Return the judge prompts of the data set at its pinned revision, fetched once into the hub's cache.

    The data set's card says which file they are. Raises InputError when it is neither cached nor to be had.
    """
    from huggingface_hub.errors import HTTPError, XetDownloadError  # type: ignore[attr-defined] # its client's own error

    try:
        return _hub_file(card_file(_hub_file("README.md").read_text("utf-8")))
    except (OSError, HTTPError, XetDownloadError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"cannot get {_CONFIGURATION} of {REPOSITORY} ({reason}); give a CSV with cate-idx and judge_prompt"
        ) from error


def card_file(card: str) -> str:
    """Return the file that a data set's card names for the configuration of judge prompts."""
    header = re.match(r"---\r?\n(.*?)\r?\n---", card, re.DOTALL)
    data: Any = yaml.safe_load(header[1]) if header else {}
    for configuration in data.get("configs", []):
        if configuration.get("config_name") == _CONFIGURATION:
            files = configuration["data_files"]
            first = files if isinstance(files, str) else files[0]
            path = first if isinstance(first, str) else first["path"]
            return str(path if isinstance(path, str) else path[0])
    raise InputError(f"the card of {REPOSITORY} names no configuration {_CONFIGURATION}; give a CSV of the prompts")


def _hub_file(name: str) -> Path:
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(REPOSITORY, name, revision=REVISION, repo_type="dataset"))
