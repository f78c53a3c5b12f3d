"""Greedy replies of a real SLM, here and elsewhere: the same prompts, the same weights, the same threads, one run.

    SLMSAFETY_DATA=... python benchmarks/generation.py --lm-eval-python LM_EVAL/bin/python \\
        --llama-python LLAMA/bin/python --openvino-python OPENVINO/bin/python

Prompts: a seeded sample of HarmBench's 400 and Simple Safety Tests' 100, contextual rows included. Weights:
SmolLM2-135M-Instruct, 4-bit, dequantised to float32 here, in (a), (b) and (c); (d) and (e) read the 4-bit file. Against

a. one prompt at a time through `model.generate`, as HELM's client does: every k-th prompt of the sample by length, and
   its seconds times (all new tokens / its new tokens);
b. transformers' own `model.generate` on left-padded batches of prompts sorted by length;
c. lm-evaluation-harness's HFLM.generate_until;
d. llama.cpp and e. OpenVINO GenAI.

b-e at the best of `--batch-sizes` (prompts in a batch, or sequences in parallel), each in one process with all threads
and in as many processes as there are threads, each with one thread and every k-th prompt by length. All get the same
prompts, the same token limit, and end at the same tokens. c-e run only where an interpreter is given. Each has an
environment of its own (`python -m venv`), with
    lm-evaluation-harness: pip install torch transformers accelerate "lm-eval>=0.4.13" (versions of requirements.lock)
    llama.cpp:             pip install llama-cpp-python (compiles for some minutes)
    OpenVINO GenAI:        pip install openvino-genai
Seconds are without loading; of several processes, from the first one's start to the last one's end. Texts are compared
with ours: float32 engines should agree on all, 4-bit ones do not, as near ties fall differently.

The share of the dense rate: the matrix products that the prompts and replies ask for, those of a start that all prompts
share counted for every prompt, against the rate of torch.matmul with all threads at the model's layer shapes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from sizes import data_files, size_parser

from slmsafety.generation.decoding import BatchLimits, DecodeConfig, greedy
from slmsafety.generation.render import render
from slmsafety.generation.settings import GenerationJob, GenerationSettings, generation_id
from slmsafety.generation.transformers_engine import generate
from slmsafety.models.cards import card
from slmsafety.models.gguf import from_package
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.packages import SMOLLM2, package_file
from slmsafety.models.tokens import eos_token_ids
from slmsafety.pipeline.shards import Shard, sharded
from slmsafety.pipeline.workers import Report, run_workers
from slmsafety.suites.catalogue import load_suite

MODEL, SEED, WARM_UP = "smollm2-135m-it-q4", 0, 2
SIZES = {
    "prompts": (200, 4),
    "new_tokens": (128, 4),
    "threads": (2, 1),
    "workers": (2, 1),
    "batch_size": (100, 4),
    "alone": (8, 1),
}
FILES = {
    "harmbench": "harmbench/harmbench_behaviors_text_all.csv",
    "sst": "sst/SimpleSafetyTests_test_cases.csv",
}
RIVALS = {
    "transformers": "transformers' generate",
    "lm_eval": "lm-evaluation-harness",
    "llama_cpp": "llama.cpp, Q4_1",
    "openvino": "OpenVINO GenAI, Q4_1",
}
BATCH_SIZES = (4, 8, 16, 32, 64, 128)


class Row(NamedTuple):
    """One line of the table."""

    engine: str
    setting: str
    seconds: float
    agree: str


def main() -> None:
    options = _options()
    prompts = _prompts(options.prompts)
    torch.set_num_threads(options.threads)
    loaded = load_causal_lm(card(MODEL).source)
    texts, tokens, seconds = _ours(prompts, options)
    setting = (
        f"{options.workers} workers x {options.threads // options.workers} threads, batches of {options.batch_size}"
    )
    _tell("slmsafety", seconds)
    rows = [Row("slmsafety", setting, seconds, "")]
    rendered = [
        render(prompt, loaded.tokenizer, GenerationSettings(), loaded.context_length) for prompt in prompts["prompt"]
    ]
    ids = [one.ids for one in rendered]
    rows.append(_one_at_a_time(loaded, ids, texts, tokens, options))
    task = {
        "folder": str(from_package(SMOLLM2)),
        "gguf": str(package_file(SMOLLM2)),
        "texts": [loaded.tokenizer.decode(one) for one in ids],
        "ids": ids,
        "new_tokens": options.new_tokens,
        "ends": eos_token_ids(loaded.model, loaded.tokenizer),
        "settings": options.batch_sizes,
    }
    for engine, name in RIVALS.items():
        python = getattr(options, engine)
        if python is None:
            print(f"{name}: skipped, as no interpreter that has it is given")
        else:
            rows.append(_rival(engine, python, task, texts, options.threads)._replace(engine=name))
    print(
        f"{len(ids)} prompts, {sum(map(len, ids))} tokens; {sum(tokens)} new tokens, at most {options.new_tokens} each"
    )
    asked = _products(loaded, sum(map(len, ids)), len(ids), sum(tokens))
    possible = _matmul_rate(loaded, options.batch_size)
    print("\n| engine | setting | replies/s | slmsafety is so many times as fast | same texts | of the dense rate |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        rate, ratio, share = len(ids) / row.seconds, row.seconds / seconds, asked / row.seconds / possible
        print(f"| {row.engine} | {row.setting} | {rate:.2f} | {ratio:.2f} | {row.agree} | {share:.0%} |")
    print(
        f"\nthe dense rate: {possible / 1e9:.0f} GFLOP/s, {options.threads} threads, torch.matmul at the model's layer "
        f"shapes and {options.batch_size} rows"
    )


def _options() -> argparse.Namespace:
    parser = size_parser(__doc__, SIZES)
    parser.set_defaults(transformers=sys.executable)
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=BATCH_SIZES, metavar="N", help=str(BATCH_SIZES))
    for engine, name in (("lm_eval", "lm-eval"), ("llama_cpp", "llama"), ("openvino", "openvino")):
        parser.add_argument(f"--{name}-python", dest=engine, metavar="PYTHON")
    return parser.parse_args()


def _prompts(count: int) -> pd.DataFrame:
    """Return the sample, in an order that says nothing about lengths."""
    files = data_files(list(FILES.values()))
    suites = [load_suite(name, file).prompts for name, file in zip(FILES, files, strict=True)]
    return pd.concat(suites).sample(count, random_state=SEED)


def _ours(prompts: pd.DataFrame, options: argparse.Namespace) -> tuple[list[str], list[int], float]:
    """Return the texts and numbers of new tokens in the order of the prompts, and the seconds of all workers."""
    with tempfile.TemporaryDirectory() as folder:
        prompts.to_parquet(Path(folder, "prompts.parquet"))
        run_workers(partial(_worker, folder, options), options.workers, lambda rows, text: None)
        parts = [pd.read_parquet(file) for file in sorted(Path(folder).glob("replies-*.parquet"))]
        clocks = [json.loads(file.read_text()) for file in sorted(Path(folder).glob("clock-*.json"))]
    replies = pd.concat(parts).set_index(["suite", "instance_id"])
    replies = replies.loc[pd.MultiIndex.from_frame(prompts[["suite", "instance_id"]])]
    seconds = max(end for _, end in clocks) - min(start for start, _ in clocks)
    return replies["response"].tolist(), replies["output_tokens"].tolist(), seconds


def _worker(folder: str, options: argparse.Namespace, worker: int, report: Report) -> None:
    """Generate one worker's share of the prompts; the clocks start together, once every worker is ready."""
    source, settings = card(MODEL).source, GenerationSettings(max_new_tokens=options.new_tokens)
    prompts = sharded(pd.read_parquet(Path(folder, "prompts.parquet")), Shard(worker, options.workers))
    loaded, identity = load_causal_lm(source), generation_id(source, settings)
    run = partial(generate, loaded, limits=BatchLimits(options.batch_size))
    warm_up = GenerationJob(GenerationSettings(max_new_tokens=2), MODEL, identity)
    list(run(prompts.head(WARM_UP), warm_up))  # the first call is slower
    Path(folder, f"ready-{worker}").touch()
    while len(list(Path(folder).glob("ready-*"))) < options.workers:
        time.sleep(0.01)
    started = time.time()
    replies = pd.concat(run(prompts, GenerationJob(settings, MODEL, identity)))
    Path(folder, f"clock-{worker}.json").write_text(json.dumps([started, time.time()]))
    replies.to_parquet(Path(folder, f"replies-{worker}.parquet"))


def _one_at_a_time(
    loaded: LoadedModel, ids: list[list[int]], texts: list[str], tokens: list[int], options: argparse.Namespace
) -> Row:
    """Generate prompts of all lengths alone, and return what all would take at that speed."""
    by_length = sorted(range(len(ids)), key=lambda row: len(ids[row]))
    step = max(1, len(ids) // options.alone)
    rows, eos = by_length[step // 2 :: step], eos_token_ids(loaded.model, loaded.tokenizer)
    config, new = greedy(DecodeConfig(options.new_tokens, eos, loaded.tokenizer.pad_token_id)), {}
    started = time.perf_counter()
    for row in rows:
        with torch.inference_mode():
            output: Any = loaded.model.generate(torch.tensor([ids[row]]), generation_config=config)  # type: ignore[operator]
        new[row] = output.sequences[0, len(ids[row]) :].tolist()
    seconds = time.perf_counter() - started
    said = {row: loaded.tokenizer.decode(new[row], skip_special_tokens=True) for row in rows}
    agree = f"{sum(said[row] == texts[row] for row in rows)}/{len(rows)}"
    scale = sum(tokens) / sum(tokens[row] for row in rows)
    return Row("one at a time", f"{len(rows)} prompts, scaled by new tokens", seconds * scale, agree)


def _rival(engine: str, python: str, task: dict[str, Any], texts: list[str], threads: int) -> Row:
    """Run a rival in its own environment, in one process and in one for each thread, and return its best setting."""
    by_length = sorted(range(len(texts)), key=lambda row: -len(task["ids"][row]))
    tried: dict[str, tuple[float, list[str]]] = {}
    for processes in sorted({1, threads}):
        shares = [by_length[process::processes] for process in range(processes)]
        results = _side_by_side(engine, python, task, shares, threads // processes)
        for setting in results[0]:
            said = {
                row: text
                for one, share in zip(results, shares, strict=True)
                for row, text in zip(share, one[setting]["texts"], strict=True)
            }
            seconds = max(one[setting]["end"] for one in results) - min(one[setting]["start"] for one in results)
            name = f"{setting} in {processes} x {threads // processes}"
            tried[name] = seconds, [said[row] for row in range(len(texts))]
            _tell(f"{engine}, {name} processes x threads", seconds)
    best = min(tried, key=lambda setting: tried[setting][0])
    agree = sum(theirs.strip() == ours.strip() for theirs, ours in zip(tried[best][1], texts, strict=True))
    every = ", ".join(f"{setting}: {seconds:.0f} s" for setting, (seconds, _) in tried.items())
    return Row(engine, f"{best} processes x threads ({every})", tried[best][0], f"{agree}/{len(texts)}")


def _tell(what: str, seconds: float) -> None:
    """Print a time as soon as it is known: all of them together can take an hour."""
    print(f"{what}: {seconds:.1f} s", file=sys.stderr, flush=True)


def _side_by_side(
    engine: str, python: str, task: dict[str, Any], shares: list[list[int]], threads: int
) -> list[dict[str, Any]]:
    """Run a process for each share of the prompts, and return what each wrote."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = str(Path(__file__).parent)
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for process, share in enumerate(shares):
            mine = {name: [task[name][row] for row in share] for name in ("texts", "ids")}
            given = Path(folder, f"task-{process}.json")
            mine = {**task, **mine, "threads": threads, "process": process, "processes": len(shares)}
            given.write_text(json.dumps(mine))
            command = [python, "-c", "from generation_rivals import main; main()", engine, str(given)]
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment))
        while any(process.poll() is None for process in running) and not any(process.poll() for process in running):
            time.sleep(0.1)
        if any(process.poll() for process in running):  # the others would wait for it
            for process in running:
                process.kill()
            raise SystemExit(f"{engine} failed")
        return [json.loads(Path(folder, f"result-{process}.json").read_text()) for process in range(len(shares))]


def _weights(loaded: LoadedModel) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return the weights that each token is multiplied with, and those that make logits."""
    head: Any = loaded.model.get_output_embeddings()
    layers = [m.weight for m in loaded.model.modules() if isinstance(m, torch.nn.Linear) and m is not head]
    return layers, head.weight


def _products(loaded: LoadedModel, prompt_tokens: int, replies: int, new_tokens: int) -> float:
    """Return the floating-point operations of the products with weights: logits only for tokens that get a next one."""
    layers, head = _weights(loaded)
    through = prompt_tokens + new_tokens - replies
    return 2.0 * (through * sum(weight.numel() for weight in layers) + new_tokens * head.numel())


def _matmul_rate(loaded: LoadedModel, rows: int) -> float:
    """Return floating-point operations a second of so many rows times each weight of the model, once round."""
    layers, head = _weights(loaded)
    pairs = [(torch.randn(rows, weight.shape[1]), weight.detach().T) for weight in (*layers, head)]
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        for left, right in pairs:
            torch.matmul(left, right)
        best = min(best, time.perf_counter() - started)
    return 2.0 * rows * sum(right.numel() for _, right in pairs) / best


if __name__ == "__main__":
    main()
