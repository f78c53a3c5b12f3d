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
from slmsafety.judging.registry import MULTIPLE_CHOICE_JUDGE, judgments
from slmsafety.models.source import pinned
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.base import JudgeEntry
from slmsafety.pipeline.judged_texts import REPLY, judged_texts, standing_id
from slmsafety.pipeline.judges import all_judge_ids, study_judge
from slmsafety.pipeline.run import JUDGED_WITH, Run, current, same_commit, with_prompts
from slmsafety.records.files import write_atomic
from slmsafety.records.ids import content_id
from slmsafety.records.schema import LABELS

if TYPE_CHECKING:
    from slmsafety.generation.cache_check import Checked
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


def noise_table(run: Run) -> pd.DataFrame:
    """Return what is measured for the study's present parameters, sorted by key; empty when nothing is.

    Columns: suite, model, judge, dtype, batch_size, generation_id (of the study's own replies), what
    `analysis.noise.noise_rates` gives, judge_id, sample_id (of the replies made again), seed and device.
    """
    found = _read(run.folder)
    if found.empty:
        return found
    ids, judges = run.generation_ids, all_judge_ids(run)
    made_by = {
        (suite, model, judge): standing_id(run, suite, [model], by)
        for (suite, judge), by in judges.items()
        for model in run.texts.models(suite)
    }
    keys = zip(found["suite"], found["model"], found["judge"], found["generation_id"], found["judge_id"], strict=True)
    mine = [
        ids.get((suite, model)) == own and made_by.get((suite, model, judge)) == by
        for suite, model, judge, own, by in keys
    ]
    return found[pd.Series(mine, dtype="bool")].reset_index(drop=True)


def measure_noise(run: Run, sample: int, suites: list[str]) -> None:
    """Make `sample` replies of each suite (`suites`, or all) and model again in every setting, and keep the rates.

    The settings are batches of 1, 8 and the study's size, in float32, bfloat16 and the study's dtype; the sample is
    drawn with the study's seed from the finished replies, the first one to each prompt. Tokens that the study draws are
    drawn again with the same random numbers: what changes is the arithmetic's. Models behind an endpoint are left out,
    which is printed. Raises InputError for an unknown suite and when no reply is finished.
    """
    params = run.params
    if params.kind != "run":
        raise InputError(f"study {params.name} is of kind '{params.kind}': it has no replies of its own to make again")
    if sample < 1:
        raise InputError(f"a sample of {sample} replies is none; give at least 1")
    for name in suites:
        if name not in [suite.name for suite in params.suites]:
            raise unknown("suite", name, [suite.name for suite in params.suites], f"study {params.name}")
    planned = list(_settings(run, sample, suites))
    if not planned:
        raise InputError(
            f"study {params.name} has no finished replies of its own; run: slmsafety collect {params.name}"
        )
    known = _read(run.folder)
    done = set(zip(known["sample_id"], known["dtype"], known["batch_size"], strict=True))
    todo = [each for each in planned if (each.sample_id, each.dtype, each.batch_size) not in done]
    total, left = (sum(len(each.replies) for each in some) for some in (planned, todo))
    with run.progress_bar("noise", total, total - left) as bar:
        for (model, dtype), group in groupby(todo, key=lambda each: (each.model, each.dtype)):
            loaded, checked = _load(run, model, dtype)
            for setting in group:
                bar.set_description(f"noise {model} {setting.suite.name} {dtype}, batches of {setting.batch_size}")
                again = []
                for batch in _again(run, loaded, checked, setting):
                    again.append(batch)
                    bar.update(len(batch))
                _keep(run.folder, _rates(run, loaded, setting, pd.concat(again)))
    written = _file(run.folder).relative_to(run.root)
    print(f"noise: {len(todo)} settings measured, {len(planned) - len(todo)} kept: {written}")


def _settings(run: Run, sample: int, suites: list[str]) -> Iterator[Setting]:
    """Yield what is to be done, grouped by what one loaded model can do."""
    how = run.params.generation
    for model, source in run.sources.items():
        if source.endpoint is not None:
            print(f"noise: {model} is left out, since its server chooses batches and dtype")
            continue
        samples = [
            found
            for name in (suite.name for suite in run.asked_suites(model) if suite.name in suites or not suites)
            if (found := _sample(run, name, model, sample)) is not None
        ]
        for dtype in dict.fromkeys((*_DTYPES, how.dtype)):
            for suite, replies, sample_id in samples:
                for batch_size in sorted({*_BATCH_SIZES, how.batch_size}):
                    yield Setting(suite, model, dtype, batch_size, replies, sample_id)


def _sample(run: Run, name: str, model: str, sample: int) -> tuple[SuiteParams, pd.DataFrame, str] | None:
    """Return a suite, some of the model's finished replies to it beside their prompts, and what names this sample."""
    (suite,) = (suite for suite in run.params.suites if suite.name == name)
    generation = run.generation_ids[name, model]
    replies = current(run.responses(name, model).read(REPLY), generation)
    replies = replies[replies["sample"] == 0]
    if replies.empty:
        return None
    known_by = [_id(run, judge, suite, model) for judge in _light(run, name)]
    if not known_by:
        print(f"noise: {name} is left out, since no judge of it answers at once, without a model or an endpoint")
        return None
    replies = replies.sample(min(sample, len(replies)), random_state=run.params.seed).sort_index()
    replies = with_prompts(replies, run.stored_prompts(name)[JUDGED_WITH])
    made = dict(zip(replies["instance_id"], replies["response"], strict=True))
    return suite, replies, content_id({"generation": generation, "replies": made, "judges": known_by})


def _load(run: Run, model: str, dtype: str) -> tuple[LoadedModel, Checked]:
    """Return the model in a dtype, and how it is to be decoded."""
    from slmsafety.generation.cache_check import checked_decoder
    from slmsafety.models.load import load_causal_lm

    loaded = load_causal_lm(run.sources[model], dtype=dtype)
    return loaded, checked_decoder(loaded)


def _again(run: Run, loaded: LoadedModel, checked: Checked, setting: Setting) -> Iterator[pd.DataFrame]:
    """Yield the sample's replies in a setting, as the engine makes them; their id is that of the study's own."""
    from slmsafety.generation.decoding import BatchLimits
    from slmsafety.generation.settings import GenerationJob
    from slmsafety.generation.transformers_engine import generate

    rules = run.settings(setting.suite, setting.model).model_copy(update={"dtype": setting.dtype})
    own = setting.replies["generation_id"].iloc[0]
    if not pinned(run.sources[setting.model]):
        made = current(run.responses(setting.suite.name, setting.model).read(["meta"]), own)
        same_commit(made, loaded.revision, f"model '{setting.model}'")
    limits = BatchLimits(1 if checked.alone else setting.batch_size)
    return generate(loaded, setting.replies, GenerationJob(rules, setting.model, own), limits, checked.decode)


def _light(run: Run, suite: str) -> list[JudgeEntry]:
    """The judges of a suite that cost nothing to ask again."""
    return [judge for judge in run.judges if judge.light and suite in [entry.name for entry in run.suites_of(judge)]]


def _rates(run: Run, loaded: LoadedModel, setting: Setting, again: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of noise.csv for a setting, one for each judge."""
    first = setting.replies
    made = again.set_index("instance_id").loc[first["instance_id"], REPLY]
    second = first.assign(**{column: made[column].array for column in REPLY})
    texts = zip(first["response"], second["response"], strict=True)
    encode = loaded.tokenizer.encode
    starts = [same_start(*(encode(text, add_special_tokens=False) for text in pair)) for pair in texts]
    pairs = first.assign(response_again=second["response"], same_start=starts)
    pairs = pairs.assign(dtype=setting.dtype, batch_size=setting.batch_size)
    frames = []
    for judge in _light(run, setting.suite.name):
        verdicts = [_verdicts(run, setting.suite, judge, replies) for replies in (first, second)]
        judged = pairs.assign(judge=judge.name, verdict=verdicts[0], verdict_again=verdicts[1])
        key = _id(run, judge, setting.suite, setting.model)
        frames.append(noise_rates(judged, _KEY).assign(judge_id=key, sample_id=setting.sample_id))
    device = json.loads(again["meta"].iloc[0])["device"]
    return pd.concat(frames).assign(seed=run.params.seed, device=device)[_COLUMNS]


def _id(run: Run, entry: JudgeEntry, suite: SuiteParams, model: str) -> str:
    return standing_id(run, suite.name, [model], study_judge(run, entry, suite).ids)


def _verdicts(run: Run, suite: SuiteParams, entry: JudgeEntry, replies: pd.DataFrame) -> pd.Series:
    """Return what a judge says of each reply, as `noise_rates` takes it."""
    asked = study_judge(run, entry, suite)
    judged = judgments(judged_texts(run, replies, asked.ids), asked.judge, asked.ids.whole, run.params.empty)
    labels = read_labels(judged, run.params.empty).set_index("instance_id")
    column, names = (
        ("raw_value", {1: "right", 0: "wrong"}) if entry.name == MULTIPLE_CHOICE_JUDGE else ("label", LABELS)
    )
    said = {instance: names.get(value, "") for instance, value in labels[column].dropna().items()}
    return replies["instance_id"].map(said).fillna("")


def _file(folder: Path) -> Path:
    return folder / "noise.csv"


def _read(folder: Path) -> pd.DataFrame:
    """The file's rows, sorted by key; none where there is no file."""
    path = _file(folder)
    if not path.exists():
        return pd.DataFrame(columns=_COLUMNS)
    try:
        frame = pd.read_csv(path, dtype={"generation_id": "str", "judge_id": "str", "sample_id": "str"})
    except (OSError, ValueError) as error:  # pandas' own errors of a file that is no table are ValueErrors
        raise InputError(f"{path}: cannot be read ({error}); delete it and run: slmsafety noise") from error
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
