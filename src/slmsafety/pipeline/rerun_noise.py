"""The noise floor of a study: a sample of its replies made and judged again in other batches and number formats.

Nothing of it enters the study's tables. What is found is kept as `noise.csv` in the study's folder, one row for each
suite, model, judge and setting, and a setting that stands there for the same replies is not run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from slmsafety.analysis.rerun_noise import RATES, noise_rates, same_start
from slmsafety.errors import InputError, unknown
from slmsafety.judging.empty_replies import read_labels
from slmsafety.judging.registry import JUDGES, MULTIPLE_CHOICE_JUDGE, judgments
from slmsafety.params.entries import SuiteParams
from slmsafety.params.study import StudyParams
from slmsafety.pipeline.judge import judge_ids
from slmsafety.pipeline.run import generation_ids, progress_bar, settings
from slmsafety.records.files import write_atomic
from slmsafety.records.ids import content_id
from slmsafety.records.schema import LABELS, PROMPTS, RESPONSES
from slmsafety.records.store import Partition

if TYPE_CHECKING:
    from slmsafety.models.load import LoadedModel

_BATCH_SIZES = (1, 8)
_DTYPES = ("float32", "bfloat16")
_KEY = ["suite", "model", "judge", "dtype", "batch_size", "generation_id"]
_COLUMNS = [*_KEY, *RATES, "judge_id", "sample_id", "seed", "device"]


class Setting(NamedTuple):
    """One way to make a sample again; `replies` are the study's own, each beside its prompt."""

    suite: SuiteParams
    model: str
    dtype: str
    batch_size: int
    replies: pd.DataFrame
    sample_id: str


def noise_table(params: StudyParams, folder: Path, root: Path) -> pd.DataFrame:
    """Return what is measured for the study's present parameters, sorted by key; empty when nothing is.

    Columns: suite, model, judge, dtype, batch_size, generation_id (of the study's own replies), what
    `analysis.noise.noise_rates` gives, judge_id, sample_id (of the replies made again), seed and device.
    """
    found = _read(folder)
    ids, judges = generation_ids(params, root), judge_ids(params, root)
    keys = zip(found["suite"], found["model"], found["judge"], found["generation_id"], found["judge_id"], strict=True)
    mine = [
        ids.get((suite, model)) == own and judges.get((suite, judge)) == by for suite, model, judge, own, by in keys
    ]
    return found[pd.Series(mine, dtype="bool")].reset_index(drop=True)


def measure_noise(params: StudyParams, folder: Path, root: Path, sample: int, suites: list[str]) -> None:
    """Make `sample` replies of each suite (`suites`, or all) and model again in every setting, and keep the rates.

    The settings are batches of 1, 8 and the study's size, in float32, bfloat16 and the study's dtype; the sample is
    drawn from the finished replies with the study's seed. Models behind an endpoint are left out, which is printed.
    Raises InputError for an unknown suite and when no reply is finished.
    """
    if params.kind != "run":
        raise InputError(f"study {params.name} is of kind '{params.kind}': it has no replies of its own to make again")
    if sample < 1:
        raise InputError(f"a sample of {sample} replies is none; give at least 1")
    for name in suites:
        if name not in [suite.name for suite in params.suites]:
            raise unknown("suite", name, [suite.name for suite in params.suites], f"study {params.name}")
    planned = list(_settings(params, folder, root, sample, suites))
    if not planned:
        raise InputError(
            f"study {params.name} has no finished replies of its own; run: slmsafety collect {params.name}"
        )
    known = _read(folder)
    done = set(zip(known["sample_id"], known["dtype"], known["batch_size"], strict=True))
    todo = [each for each in planned if (each.sample_id, each.dtype, each.batch_size) not in done]
    total, left = (sum(len(each.replies) for each in some) for some in (planned, todo))
    with progress_bar("noise", total, total - left) as bar:
        for (model, dtype), group in groupby(todo, key=lambda each: (each.model, each.dtype)):
            loaded = _load(params, root, model, dtype)
            for setting in group:
                bar.set_description(f"noise {model} {setting.suite.name} {dtype}, batches of {setting.batch_size}")
                again = []
                for batch in _again(loaded, params, setting):
                    again.append(batch)
                    bar.update(len(batch))
                _keep(folder, _rates(loaded, params, root, setting, pd.concat(again)))
    print(f"noise: {len(todo)} settings measured, {len(planned) - len(todo)} kept: {_file(folder).relative_to(root)}")


def _settings(params: StudyParams, folder: Path, root: Path, sample: int, suites: list[str]) -> Iterator[Setting]:
    """Yield what is to be done, grouped by what one loaded model can do."""
    ids, judges = generation_ids(params, root), judge_ids(params, root)
    dtypes = dict.fromkeys((*_DTYPES, params.generation.dtype))
    for model in params.models:
        if model.source(root).endpoint is not None:
            print(f"noise: {model.id} is left out, since its server chooses batches and dtype")
            continue
        samples = []
        for suite in (suite for suite in params.suites if not suites or suite.name in suites):
            replies = Partition(folder, RESPONSES, (suite.name, model.id)).read(["response", "finish_reason"])
            replies = replies[replies["generation_id"] == ids[suite.name, model.id]]
            replies = replies.sample(min(sample, len(replies)), random_state=params.seed).sort_index()
            prompts = Partition(folder, PROMPTS, (suite.name,)).read(["prompt", "expected", "meta"])
            replies = replies.merge(prompts, on=["suite", "instance_id"], how="left", validate="one_to_one")
            known_by = [judges[suite.name, judge] for judge in _offline(params, suite.name)]
            if not known_by:
                print(f"noise: {suite.name} is left out, since no judge of it is without an endpoint")
                continue
            made = dict(zip(replies["instance_id"], replies["response"], strict=True))
            sample_id = content_id({"generation": ids[suite.name, model.id], "replies": made, "judges": known_by})
            samples += [(suite, replies, sample_id)] if made else []
        for dtype in dtypes:
            for suite, replies, sample_id in samples:
                for batch_size in sorted({*_BATCH_SIZES, params.generation.batch_size}):
                    yield Setting(suite, model.id, dtype, batch_size, replies, sample_id)


def _load(params: StudyParams, root: Path, model_id: str, dtype: str) -> LoadedModel:
    """Return the model in a dtype."""
    from slmsafety.models.load import load_causal_lm

    (model,) = (model for model in params.models if model.id == model_id)
    return load_causal_lm(model.source(root), dtype=dtype)


def _again(loaded: LoadedModel, params: StudyParams, setting: Setting) -> Iterator[pd.DataFrame]:
    """Yield the sample's replies in a setting, as the engine makes them; their id is that of the study's own."""
    from slmsafety.generation.decoding import BatchLimits
    from slmsafety.generation.settings import GenerationJob
    from slmsafety.generation.transformers_engine import generate

    rules = settings(params, setting.suite, setting.model).model_copy(update={"dtype": setting.dtype})
    own = setting.replies["generation_id"].iloc[0]
    return generate(loaded, setting.replies, GenerationJob(rules, setting.model, own), BatchLimits(setting.batch_size))


def _offline(params: StudyParams, suite: str) -> list[str]:
    """The judges of a suite without a model, which cost nothing to ask again."""
    return [judge.name for judge in params.judges_of(suite) if judge.name in JUDGES]


def _rates(loaded: LoadedModel, params: StudyParams, root: Path, setting: Setting, again: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of noise.csv for a setting, one for each judge."""
    first = setting.replies
    made = again.set_index("instance_id").loc[first["instance_id"], ["response", "finish_reason"]]
    second = first.assign(response=made["response"].to_numpy(), finish_reason=made["finish_reason"].to_numpy())
    texts = zip(first["response"], second["response"], strict=True)
    encode = loaded.tokenizer.encode
    starts = [same_start(*(encode(text, add_special_tokens=False) for text in pair)) for pair in texts]
    pairs = first.assign(response_again=second["response"], same_start=starts)
    pairs = pairs.assign(dtype=setting.dtype, batch_size=setting.batch_size)
    frames, judges = [], judge_ids(params, root)
    for judge in _offline(params, setting.suite.name):
        verdicts = [_verdicts(replies, judge, params) for replies in (first, second)]
        judged = pairs.assign(judge=judge, verdict=verdicts[0], verdict_again=verdicts[1])
        rates = noise_rates(judged, _KEY)
        frames.append(rates.assign(judge_id=judges[setting.suite.name, judge], sample_id=setting.sample_id))
    device = json.loads(again["meta"].iloc[0])["device"]
    return pd.concat(frames).assign(seed=params.seed, device=device)[_COLUMNS]


def _verdicts(replies: pd.DataFrame, judge: str, params: StudyParams) -> pd.Series:
    """Return what a judge says of each reply, as `noise_rates` takes it."""
    judged = judgments(replies, judge, "", params.empty, JUDGES[judge].measure)
    judged = read_labels(judged, params.empty).set_index("instance_id")
    column, names = ("raw_value", {1: "right", 0: "wrong"}) if judge == MULTIPLE_CHOICE_JUDGE else ("label", LABELS)
    said = {instance: names.get(value, "") for instance, value in judged[column].dropna().items()}
    return replies["instance_id"].map(said).fillna("")


def _file(folder: Path) -> Path:
    return folder / "noise.csv"


def _read(folder: Path) -> pd.DataFrame:
    """The file's rows, sorted by key; none where there is no file."""
    path = _file(folder)
    if not path.exists():
        return pd.DataFrame(columns=_COLUMNS)
    frame = pd.read_csv(path, dtype={"generation_id": "str", "judge_id": "str", "sample_id": "str"})
    if list(frame.columns) != _COLUMNS:
        raise InputError(f"{path}: its columns are not those of this version; delete it and run: slmsafety noise")
    return frame


def _keep(folder: Path, rows: pd.DataFrame) -> None:
    """Put rows into the file, in the place of those with the same key."""
    path = _file(folder)
    known = _read(folder)
    frame = pd.concat([known, rows], ignore_index=True) if len(known) else rows
    frame = frame.drop_duplicates(_KEY, keep="last").sort_values(_KEY)
    write_atomic(path, frame.to_csv(index=False).encode())
