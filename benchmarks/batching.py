"""Greedy generation in batches against one prompt at a time: the same prompts, the same real weights, one run.

Prints replies a second on both sides, their ratio, and whether every text is the same.
"""

from __future__ import annotations

import time

import pandas as pd
from sizes import size_parser

from slmsafety.generation.decoding import BatchLimits
from slmsafety.generation.settings import GenerationJob, GenerationSettings, generation_id
from slmsafety.generation.transformers_engine import generate
from slmsafety.models.cards import card
from slmsafety.models.load import load_causal_lm
from slmsafety.suites.catalogue import load_suite

MODEL = "smollm2-135m-it-q4"
SIZES = {"prompts": (32, 2), "new_tokens": (32, 4)}


def main() -> None:
    options = size_parser(__doc__, SIZES).parse_args()
    count, new_tokens = options.prompts, options.new_tokens
    source, settings = card(MODEL).source, GenerationSettings(max_new_tokens=new_tokens)
    loaded = load_causal_lm(source)
    prompts = load_suite("demo_direct").prompts.head(count)
    job = GenerationJob(settings, MODEL, generation_id(source, settings))
    list(generate(loaded, prompts.head(2), job, BatchLimits(2)))  # the first call is slower
    texts, seconds = {}, {}
    for batch_size in (1, count):
        started = time.perf_counter()
        rows = pd.concat(generate(loaded, prompts, job, BatchLimits(batch_size)))
        seconds[batch_size] = time.perf_counter() - started
        texts[batch_size] = rows.sort_values("instance_id")["response"].tolist()
        print(f"batch {batch_size}: {count / seconds[batch_size]:.2f} replies/s ({new_tokens} new tokens, float32)")
    print(f"ratio: {seconds[1] / seconds[count]:.1f}; same texts: {texts[1] == texts[count]}")


if __name__ == "__main__":
    main()
