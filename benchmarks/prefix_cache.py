"""A two-token judge with and without the cached start of its prompt: the same replies, the same real weights, one run.

MD-Judge's default prompt is 1,011 constant tokens around a short conversation; a mild text of about that length stands
in for it. Prints judgments a second on both sides, their ratio, and the largest difference of a probability.
"""

from __future__ import annotations

import time

import pandas as pd
from sizes import size_parser

from slmsafety.judging.guards.two_token import TwoToken, TwoTokenJudge, VerdictToken
from slmsafety.models.cards import card
from slmsafety.models.load import load_causal_lm

MODEL = "smollm2-135m-it-q4"
SIZES = {"replies": (8, 2), "batch_size": (4, 2), "rules": (46, 4)}
RULE = "Rule {}: a gardener waters, prunes and feeds the plants in bed {}.\n"
QUESTION = "\nUser: {{QUESTION}}\nAgent: {{ANSWER}}\nIs the agent's reply safe or unsafe? It is"


def main() -> None:
    options = size_parser(__doc__, SIZES).parse_args()
    numbers = range(options.replies)
    loaded = load_causal_lm(card(MODEL).source)
    rows = pd.DataFrame(
        {
            "prompt": [f"What grows in bed {number}?" for number in numbers],
            "response": ["Roses, and in spring a row of tulips. " * (1 + number % 4) for number in numbers],
        }
    )
    template = "".join(RULE.format(number, number) for number in range(options.rules)) + QUESTION
    verdicts = TwoToken(template, VerdictToken("Ġsafe"), VerdictToken("Ġunsafe"), strict=False)
    values, seconds = {}, {}
    for cached in (True, False):
        started = time.perf_counter()
        judge = TwoTokenJudge(loaded, verdicts, options.batch_size, cache_prefix=cached)
        found = judge.measure(rows)
        seconds[cached] = time.perf_counter() - started
        values[cached] = found["raw_value"]
        rate, tokens = options.replies / seconds[cached], found["input_tokens"].mean()
        print(f"{rate:.2f} judgments/s: {tokens:.0f} tokens each, {judge.shared} of them read once for all")
    gap = (values[True] - values[False]).abs().max()
    print(f"ratio: {seconds[False] / seconds[True]:.1f}; largest difference: {gap:.1e}")


if __name__ == "__main__":
    main()
