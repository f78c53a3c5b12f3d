"""What judging a study will take before any of it is spent: calls, tokens, dollars and time, by judge and suite."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.judging.llm.cost import request_tokens, text_tokens
from slmsafety.judging.llm.judge import LlmJudge
from slmsafety.judging.registry import sends_empty
from slmsafety.judging.rubrics.base import HELM_TOKENS
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judge import JudgeParams
from slmsafety.params.study import StudyParams
from slmsafety.pipeline.collect import expected_rows
from slmsafety.pipeline.judge import judge_id, judge_todo, llm_judge
from slmsafety.pipeline.run import generation_ids, settings
from slmsafety.pipeline.shards import Place
from slmsafety.records.schema import JUDGMENTS, PROMPTS
from slmsafety.records.store import Partition

# Where there is no text to count: tokens of a prompt, of a verdict, and seconds that a server takes for a call.
PROMPT_TOKENS, VERDICT_TOKENS, SECONDS = 100, 60, 2.0
# Tokens of a judge's prompt that is not here: AirBench's have about so many.
FRAME_TOKENS = 600
NONE = pd.DataFrame({"finish_reason": []}), 0
COLUMNS = ["judge", "suite", "calls", "counted", "input_tokens", "output_tokens", "dollars", "most_dollars", "minutes"]


class Calls(NamedTuple):
    """Calls still to be made: how many, how many of them on replies that are there, and their input tokens in all."""

    number: int
    counted: int
    tokens: float


def estimate(params: StudyParams, folder: Path, root: Path) -> pd.DataFrame:
    """Return judge, suite, calls, counted, input_tokens, output_tokens, dollars, most_dollars and minutes.

    One row for each language model and suite, over what is not judged yet. `counted` calls are on replies that are
    there, a quarter of their characters taken as tokens; of the rest a prompt is taken to have PROMPT_TOKENS (or its
    own length), and a reply its token limit. `dollars` takes verdicts of VERDICT_TOKENS, `most_dollars` of the judge's
    limit; both are nan without a price. `minutes` follow from the limits a minute, or from SECONDS a call.
    """
    rows = []
    for judge in (judge for judge in params.judges if judge.endpoint is not None):
        for suite in (suite for suite in params.suites if judge.reads(suite.name)):
            try:
                configured = llm_judge(judge, suite.name, root)
            except InputError as error:
                print(
                    f"judge {judge.name} on {suite.name}: {error}; its prompts are taken to have {FRAME_TOKENS} tokens"
                )
                configured = None
            calls = _calls(params, folder, root, judge, configured, suite)
            rows.append(
                _row(judge, suite.name, calls, HELM_TOKENS if configured is None else configured.rubric.max_tokens)
            )
    if not rows:
        raise InputError(f"study {params.name} has no judge behind an endpoint; its judges cost nothing")
    return pd.DataFrame(rows, columns=COLUMNS)


def _calls(
    params: StudyParams, folder: Path, root: Path, judge: JudgeParams, configured: LlmJudge | None, suite: SuiteParams
) -> Calls:
    prompts = Partition(folder, PROMPTS, (suite.name,)).read(["prompt"])
    total = len(prompts) or expected_rows(suite, root)
    prompt_tokens = text_tokens(prompts["prompt"].str.len().mean()) if len(prompts) else PROMPT_TOKENS
    frame = FRAME_TOKENS if configured is None else _frame_tokens(configured)
    ids = generation_ids(params, root)
    key = "" if configured is None else judge_id(judge, suite.name, params.empty, root)
    number, counted, tokens = 0, 0, 0.0
    for model in params.judged_models(judge):
        there, done = NONE if configured is None else _there(folder, suite.name, judge, model, ids, key)
        sent = there if sends_empty(params.empty, suite.name) else there[there["finish_reason"] != "empty"]
        absent = total - len(there) - done
        rows = [{str(name): value for name, value in row.items()} for row in sent.to_dict("records")]
        tokens += sum((request_tokens(configured.body(row)) for row in rows if configured is not None), 0.0)
        tokens += absent * (frame + prompt_tokens + settings(params, suite, model).max_new_tokens)
        number, counted = number + len(sent) + absent, counted + len(sent)
    return Calls(number, counted, tokens)


def _there(
    folder: Path,
    suite: str,
    judge: JudgeParams,
    model: str,
    ids: dict[tuple[str, str], str],
    key: str,
) -> tuple[pd.DataFrame, int]:
    """The replies that are there and wait for the judge, and the number that it has judged."""
    if not Partition(folder, PROMPTS, (suite,)).parquet.exists():
        return NONE
    return judge_todo(Partition(folder, JUDGMENTS, (suite, judge.name, model)), ids[suite, model], key, Place(), ())


def _frame_tokens(configured: LlmJudge) -> float:
    """The tokens of a request around its prompt and reply, on average over the rubric's prompts."""
    templates = configured.rubric.templates.values()
    return text_tokens(sum(map(len, templates)) / len(templates))


def _row(judge: JudgeParams, suite: str, calls: Calls, most: int) -> list[object]:
    verdicts = calls.number * min(VERDICT_TOKENS, most)
    price = judge.price
    dollars = float("nan") if price is None else price.cost(calls.tokens, verdicts)
    most_dollars = float("nan") if price is None else price.cost(calls.tokens, calls.number * most)
    minutes = max(
        calls.number * SECONDS / judge.concurrency / 60,
        calls.number / (judge.requests_per_minute or float("inf")),
        # Limits count the tokens that a request may get, as the client does.
        (calls.tokens + calls.number * most) / (judge.tokens_per_minute or float("inf")),
    )
    counts = [calls.number, calls.counted, round(calls.tokens), verdicts]
    return [judge.name, suite, *counts, dollars, most_dollars, minutes]
