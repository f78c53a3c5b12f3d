"""The metrics against one-at-a-time code: texts a second and the ratio, each pair in the same run on the same texts.

    SLMSAFETY_DATA=... python benchmarks/metrics.py

Texts: a seeded sample of the replies that the public data hold, no text twice. One at a time is what the libraries'
own examples do: `nlp(text)`, `encoder.encode(text)`, the `loss` of a causal LM for one text, with all threads. Ours is
what the stage calls; under "workers" in processes of one thread each that share the texts, from the first one's start
to the last one's end, without loading.

The language model's pass is also held against the dense matrix products of its own layers: `linear` with the weights
of every linear layer on as many rows as the batch has tokens. Nothing is faster than those products alone (100 %).
"""

from __future__ import annotations

import csv
import os
import string
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sizes import data_files, size_parser
from torch.nn.functional import linear

from slmsafety.metrics.fluency import perplexities
from slmsafety.metrics.readability import flesch_kincaid, syllables, words
from slmsafety.metrics.similarity import embed
from slmsafety.metrics.syntax import parse
from slmsafety.metrics.tokens import count_tokens
from slmsafety.models.encoder import dependency_parser, gpt2_tokenizer, sentence_encoder
from slmsafety.models.load import load_causal_lm
from slmsafety.models.packages import SMOLLM2
from slmsafety.models.source import Source
from slmsafety.pipeline.workers import Report, run_workers

FILES = tuple(f"responses/xstest/xstest_v2_completions_{name}_gpteval.csv" for name in ("gpt4", "llama2new"))
CORES = len(os.sched_getaffinity(0))
SIZES = {
    "texts": (600, 8),
    "few": (60, 4),
    "threads": (CORES, 1),
    "workers": (CORES, 1),
    "length": (512, 32),
    "largest_batch": (8, 1),
    "by_workers": (3, 1),
}
BY_WORKERS = ("parse", "embed", "perplexity")
SEED = 0
Measure = Callable[[list[str]], object]


def main() -> None:
    options = size_parser(__doc__, SIZES).parse_args()
    files = data_files(FILES)
    torch.set_num_threads(options.threads)
    lm, encoder, nlp = load_causal_lm(Source(package=SMOLLM2)), sentence_encoder().model, dependency_parser().nlp
    tokenizer = gpt2_tokenizer().tokenizer
    many = _texts(files, options.texts)
    few = many[: options.few]
    lengths = [len(ids) for ids in lm.tokenizer(few)["input_ids"]]
    print(f"{len(many)} replies; {len(few)} (mean {sum(lengths) / len(few):.0f} tokens) for the rows with *")
    print(f"{options.threads} threads, or {options.workers} workers of one thread\n")
    print(f"{'texts a second':28} {'one at a time':>14} {'ours':>9} {'ratio':>6} {'workers':>9} {'ratio':>6}")

    def row(name: str, texts: list[str], single: Callable[[str], object], ours: Measure, kind: str = "") -> float:
        """Print a line; return the seconds of the workers, where there are any."""
        alone, together = _seconds(lambda: [single(text) for text in texts]), _seconds(lambda: ours(texts))
        cells = f"{name:28} {len(texts) / alone:14.1f} {len(texts) / together:9.1f} {alone / together:6.2f}"
        shares = kind in BY_WORKERS[: options.by_workers]
        shared = _by_workers(kind, texts, options.workers) if shares else float("nan")
        print(cells + (f" {len(texts) / shared:9.1f} {alone / shared:6.2f}" if shares else ""), flush=True)
        return shared

    row("GPT-2 tokens", many, lambda text: len(tokenizer(text)["input_ids"]), partial(_counted, tokenizer))
    row("Flesch-Kincaid, fog", many, lambda text: _grade([text]), _grade)
    shared = row("parse (five metrics)", many, nlp, lambda texts: parse(texts, nlp), "parse")
    piped = _seconds(lambda: list(nlp.pipe(many)))
    cells = f"{'':16} {len(many) / shared:9.1f} {piped / shared:6.2f}"
    print(f"{'  nlp.pipe, one process':28} {len(many) / piped:14.1f} {cells}")
    row("embedding *", few, lambda text: encoder.encode(text), lambda texts: embed(texts, encoder), "embed")
    row("perplexity *", few, partial(_loss, lm), lambda texts: perplexities(texts, lm), "perplexity")

    print("\nthe language model's pass, in % of the dense rate of its own layers")
    layers = [part.weight for part in lm.model.modules() if isinstance(part, torch.nn.Linear)]
    for length in (options.length * 2 // 5 + 1, options.length):
        for batch in (1, 2, 4, 8)[: options.largest_batch.bit_length()]:
            texts = [" one" * (length - 1) + f" {last}" for last in string.ascii_lowercase[:batch]]
            inputs = {layer.shape[1]: torch.randn(batch * length, layer.shape[1]) for layer in layers}
            with torch.inference_mode():
                dense, ours = _alternating(
                    lambda inputs=inputs: [linear(inputs[layer.shape[1]], layer) for layer in layers],
                    lambda texts=texts: perplexities(texts, lm),
                )
            print(f"{batch} x {length} tokens: {batch * length / ours:6.0f} tokens/s, {dense / ours:.0%}", flush=True)


def _alternating(*ways: Callable[[], object], rounds: int = 3) -> list[float]:
    """The best seconds of each way, in turns, so that a busy moment hits them alike."""
    best = [float("inf")] * len(ways)
    for _ in range(rounds):
        for place, way in enumerate(ways):
            best[place] = min(best[place], _seconds(way))
    return best


def _seconds(way: Callable[[], object]) -> float:
    started = time.perf_counter()
    way()
    return time.perf_counter() - started


def _loss(lm: Any, text: str) -> float:
    ids = lm.tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        return float(lm.model(ids, labels=ids).loss.exp())


def _counted(tokenizer: Any, texts: list[str]) -> list[int]:
    return count_tokens(texts, tokenizer)


def _grade(texts: list[str]) -> list[float]:
    return [flesch_kincaid([syllables(word) for word in words(text)], 1) for text in texts]


def _measure(kind: str) -> Measure:
    """What a worker does, with its model loaded."""
    if kind == "parse":
        nlp = dependency_parser().nlp
        return lambda texts: parse(texts, nlp)
    if kind == "embed":
        encoder = sentence_encoder().model
        return lambda texts: embed(texts, encoder)
    lm = load_causal_lm(Source(package=SMOLLM2))
    return lambda texts: perplexities(texts, lm)


def _by_workers(kind: str, texts: list[str], workers: int) -> float:
    """The seconds that workers take for the texts."""
    spans: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        work = partial(_work, kind, sorted(texts, key=len), workers, Path(folder))
        run_workers(work, workers, lambda _, text: spans.append([float(part) for part in text.split()]))
    return max(end for _, end in spans) - min(start for start, _ in spans)


def _work(kind: str, texts: list[str], workers: int, folder: Path, worker: int, report: Report) -> None:
    """One worker: its share of the texts, once all workers have loaded."""
    measure, mine = _measure(kind), texts[worker::workers]
    measure(mine[:2])
    (folder / str(worker)).touch()
    while len(list(folder.iterdir())) < workers:
        time.sleep(0.01)
    started = time.time()
    measure(mine)
    report(len(mine), f"{started} {time.time()}")


def _texts(files: list[Path], number: int) -> list[str]:
    found: dict[str, None] = {}
    for path in files:
        with path.open(encoding="utf-8", newline="") as file:
            found |= dict.fromkeys(row["completion"] for row in csv.DictReader(file))
    texts = sorted(text for text in found if text.strip())
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(SEED)).tolist()
    return [texts[place] for place in order[:number]]


if __name__ == "__main__":
    main()
