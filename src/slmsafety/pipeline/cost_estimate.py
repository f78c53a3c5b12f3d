"""What judging a study will take before any of it is spent: calls, tokens, dollars and time, by judge and suite."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from slmsafety.errors import InputError
from slmsafety.judging.llm.cost import count_tokens, request_size
from slmsafety.judging.llm.judge import LlmJudge
from slmsafety.judging.registry import unsent
from slmsafety.judging.rubrics.base import HELM_TOKENS
from slmsafety.params.entries import SuiteParams
from slmsafety.params.judges.endpoint import EndpointJudge
from slmsafety.pipeline.endpoint_judges import language_model
from slmsafety.pipeline.judge import judge_todo
from slmsafety.pipeline.judges import study_judge
from slmsafety.pipeline.run import Run
from slmsafety.pipeline.status import expected_rows

# Where there is no text to count: tokens of a prompt, of a verdict, and seconds that a server takes for a call.
PROMPT_TOKENS, VERDICT_TOKENS, SECONDS = 100, 60, 2.0
# Tokens of a judge's prompt that is not here: AirBench's have about so many.
FRAME_TOKENS = 600
COLUMNS = ["judge", "suite", "calls", "counted", "input_tokens", "output_tokens", "dollars", "most_dollars", "minutes"]


class Calls(NamedTuple):
    """Calls still to be made: how many, how many of them on replies that are there, and their input tokens in all."""

    number: int
    counted: int
    tokens: float


def estimate(run: Run) -> pd.DataFrame:
    """Return what judging over endpoints will take, over what is not judged yet.

    Calls on replies that are there are counted, their tokens as `count_tokens` does; of the rest a prompt is taken to
    have PROMPT_TOKENS (or those of the suite's prompts on average), and a reply its token limit.

    Returns
    -------
    DataFrame
        A row for each language model and suite: judge, suite (str), calls, counted (calls on replies that are there),
        input_tokens, output_tokens (int), dollars (with verdicts of VERDICT_TOKENS), most_dollars (of the judge's
        limit; both US dollars, nan without a price) and minutes (from the limits a minute, or SECONDS a call).

    Raises
    ------
    InputError
        When no judge of the study is behind an endpoint.
    """
    rows = []
    for judge in (judge for judge in run.judges if isinstance(judge, EndpointJudge)):
        for suite in run.suites_of(judge):
            try:
                study_judge(run, judge, suite)
                asked = language_model(run, judge, suite)
            except InputError as error:
                print(
                    f"judge {judge.name} on {suite.name}: {error}; its prompts are taken to have {FRAME_TOKENS} tokens"
                )
                asked = None
            calls = _calls(run, judge, asked, suite)
            rows.append(_row(judge, suite.name, calls, HELM_TOKENS if asked is None else asked.max_tokens))
    paid = [judge.name for judge in run.judges if judge.modules and judge.costs_money(run.root)]
    if paid:
        print(f"not estimated: {', '.join(paid)}, whose modules say that they cost money")
    if not rows and not paid:
        raise InputError(f"study {run.params.name} has no judge behind an endpoint; its judges cost nothing")
    return pd.DataFrame(rows, columns=COLUMNS)


def _calls(run: Run, judge: EndpointJudge, asked: LlmJudge | None, suite: SuiteParams) -> Calls:
    """The calls of a judge on a suite; `asked` is None where its prompts are not here."""
    prompts = run.texts.prompts(suite.name).read(["prompt"])
    prompt_tokens = _mean_tokens(prompts["prompt"]) if len(prompts) else PROMPT_TOKENS
    frame = FRAME_TOKENS if asked is None else _frame_tokens(asked)
    number, counted, tokens = 0, 0, 0.0
    for model in run.judged_models(judge, suite.name):
        waiting, done = pd.DataFrame(columns=["suite", "response", "finish_reason"], dtype="str"), 0
        # An imported suite has its prompts: nothing is expected of one.
        total = run.texts.wanted(suite.name, model, len(prompts) or expected_rows(run, suite))
        if asked is not None and len(prompts):
            part = run.judgments(suite.name, judge.name, model)
            waiting, done = judge_todo(run, part, study_judge(run, judge, suite).ids)
        sent = waiting[~unsent(waiting, run.params.empty)]
        absent = total - len(waiting) - done
        rows = [{str(name): value for name, value in row.items()} for row in sent.to_dict("records")]
        tokens += sum(request_size(asked.body(row)).input for row in rows if asked is not None)
        if absent:
            tokens += absent * (frame + prompt_tokens + _reply_tokens(run, suite, model))
        number, counted = number + len(sent) + absent, counted + len(sent)
    return Calls(number, counted, tokens)


def _reply_tokens(run: Run, suite: SuiteParams, model: str) -> float:
    """The most tokens of a reply that is still to be made; of one that was imported its own length on average."""
    if run.params.kind == "run":
        return run.settings(suite, model).max_new_tokens
    return _mean_tokens(run.texts.replies(suite.name, model, [])["response"])


def _frame_tokens(asked: LlmJudge) -> float:
    """The tokens of a request around its prompt and reply, on average over the rubric's prompts."""
    return _mean_tokens(pd.Series([*asked.rubric.templates.values()], dtype="str"))


def _mean_tokens(texts: pd.Series) -> float:
    return float(texts.dropna().map(count_tokens).mean())


def _row(judge: EndpointJudge, suite: str, calls: Calls, most: int) -> list[object]:
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
