"""Other engines on the prompts of generation.py, each run by the interpreter of its own environment.

Not a script of its own: generation.py calls `main` with the arguments ENGINE TASK.json. The task holds the model's
folder, its GGUF file, the prompts as rendered texts and as token ids, the longest first, the number of new tokens, the
ids that end a reply, the threads, the settings to try (batch size, or sequences in parallel), and which of how many
processes this is. They begin each setting together. Beside the task, result-PROCESS.json holds for each setting when
it began and ended, without loading, and the texts.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[[int], tuple[float, list[str]]]


def transformers(task: dict[str, Any]) -> Run:
    """transformers' own generate in float32, on left-padded batches; the setting is their size."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(task["threads"])
    model = AutoModelForCausalLM.from_pretrained(task["folder"], dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(task["folder"])
    wanted = {"max_new_tokens": task["new_tokens"], "do_sample": False, "eos_token_id": task["ends"]}

    def run(batch_size: int) -> tuple[float, list[str]]:
        started, texts = time.perf_counter(), []
        for start in range(0, len(task["ids"]), batch_size):
            prompts = task["ids"][start : start + batch_size]
            width = len(prompts[0])  # the longest
            ids = torch.tensor([[tokenizer.pad_token_id] * (width - len(one)) + one for one in prompts])
            mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in prompts])
            with torch.inference_mode():
                found = model.generate(ids, attention_mask=mask, pad_token_id=tokenizer.pad_token_id, **wanted)
            texts += tokenizer.batch_decode(found[:, width:], skip_special_tokens=True)
        return time.perf_counter() - started, texts

    return run


def lm_eval(task: dict[str, Any]) -> Run:
    """lm-evaluation-harness: HFLM.generate_until in float32; the setting is its batch size."""
    import torch
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    torch.set_num_threads(task["threads"])
    model = HFLM(pretrained=task["folder"], dtype="float32", device="cpu")
    model.model.generation_config.eos_token_id = task["ends"]
    wanted = {"until": [], "max_gen_toks": task["new_tokens"], "do_sample": False}

    def run(batch_size: int) -> tuple[float, list[str]]:
        model.batch_size_per_gpu = batch_size
        requests = [Instance("generate_until", {}, (text, wanted), row) for row, text in enumerate(task["texts"])]
        started = time.perf_counter()
        texts = [str(text) for text in model.generate_until(requests, disable_tqdm=True)]
        return time.perf_counter() - started, texts

    return run


def llama_cpp(task: dict[str, Any]) -> Run:
    """llama.cpp on the 4-bit file: as many sequences in parallel as the setting says, free places refilled at once."""
    import llama_cpp
    import numpy as np

    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(task["gguf"].encode(), llama_cpp.llama_model_default_params())
    vocabulary = llama_cpp.llama_model_get_vocab(model)
    words, ends = llama_cpp.llama_vocab_n_tokens(vocabulary), set(task["ends"])
    longest = max(len(ids) for ids in task["ids"]) + task["new_tokens"]
    window = -(-longest // 256) * 256  # llama.cpp rounds up to this
    piece = ctypes.create_string_buffer(256)

    def text(tokens: list[int]) -> str:
        lengths = (llama_cpp.llama_token_to_piece(vocabulary, token, piece, 256, 0, False) for token in tokens)
        return b"".join(piece.raw[:length] for length in lengths).decode(errors="replace")

    def run(parallel: int) -> tuple[float, list[str]]:
        chosen = llama_cpp.llama_context_default_params()
        chosen.n_ctx, chosen.n_seq_max, chosen.kv_unified = parallel * window, parallel, False
        chosen.n_batch = chosen.n_ubatch = 512
        chosen.n_threads = chosen.n_threads_batch = task["threads"]
        context = llama_cpp.llama_init_from_model(model, chosen)
        memory = llama_cpp.llama_get_memory(context)
        batch = llama_cpp.llama_batch_init(chosen.n_batch, 0, 1)

        def decode(tokens: list[tuple[int, int, int, bool]]) -> list[int]:
            """Take (token, position, sequence, wanted?) and return the best next token after each wanted one."""
            batch.n_tokens = len(tokens)
            for place, (token, position, sequence, wanted) in enumerate(tokens):
                batch.token[place], batch.pos[place], batch.logits[place] = token, position, wanted
                batch.n_seq_id[place], batch.seq_id[place][0] = 1, sequence
            if llama_cpp.llama_decode(context, batch):
                raise RuntimeError("llama_decode failed")
            rows = [place for place, (*_, wanted) in enumerate(tokens) if wanted]
            logits = (llama_cpp.llama_get_logits_ith(context, row) for row in rows)
            return [int(np.ctypeslib.as_array(row, (words,)).argmax()) for row in logits]

        started = time.perf_counter()
        new: list[list[int]] = [[] for _ in task["ids"]]
        waiting = sorted(range(len(new)), key=lambda row: len(task["ids"][row]))
        running: dict[int, int] = {}
        while waiting or running:
            for sequence in sorted(set(range(parallel)) - set(running)):
                if not waiting:
                    break
                running[sequence] = waiting.pop()
                ids = task["ids"][running[sequence]]
                tokens = [(token, place, sequence, place == len(ids) - 1) for place, token in enumerate(ids)]
                for start in range(0, len(tokens), chosen.n_batch):
                    best = decode(tokens[start : start + chosen.n_batch])
                new[running[sequence]] += best
            for sequence, row in list(running.items()):
                if new[row][-1] in ends or len(new[row]) == task["new_tokens"]:
                    llama_cpp.llama_memory_seq_rm(memory, sequence, -1, -1)
                    del running[sequence]
            if running:
                states = [(new[row][-1], len(task["ids"][row]) + len(new[row]) - 1) for row in running.values()]
                steps = [(*state, sequence, True) for state, sequence in zip(states, running, strict=True)]
                for row, token in zip(running.values(), decode(steps), strict=True):
                    new[row].append(token)
        texts = [text([token for token in tokens if token not in ends]) for tokens in new]
        seconds = time.perf_counter() - started
        llama_cpp.llama_batch_free(batch)
        llama_cpp.llama_free(context)
        return seconds, texts

    return run


def openvino(task: dict[str, Any]) -> Run:
    """OpenVINO GenAI on the 4-bit file in f32: continuous batching of as many sequences as the setting says."""
    import openvino_genai

    def run(sequences: int) -> tuple[float, list[str]]:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.max_num_seqs, scheduler.max_num_batched_tokens, scheduler.cache_size = sequences, 2048, 2
        scheduler.enable_prefix_caching = False
        hints = {"INFERENCE_NUM_THREADS": task["threads"], "INFERENCE_PRECISION_HINT": "f32"}
        pipeline = openvino_genai.LLMPipeline(task["gguf"], "CPU", scheduler_config=scheduler, **hints)
        config = openvino_genai.GenerationConfig(max_new_tokens=task["new_tokens"], apply_chat_template=False)
        started = time.perf_counter()
        texts = [str(text) for text in pipeline.generate(task["texts"], config).texts]
        return time.perf_counter() - started, texts

    return run


ENGINES = {"transformers": transformers, "lm_eval": lm_eval, "llama_cpp": llama_cpp, "openvino": openvino}


def main() -> None:
    engine, task_file = sys.argv[1:]
    folder, task = Path(task_file).parent, json.loads(Path(task_file).read_text())
    os.environ["OMP_NUM_THREADS"] = str(task["threads"])
    run = ENGINES[engine](task)
    results = {}
    for setting in task["settings"]:
        Path(folder, f"ready-{setting}-{task['process']}").touch()
        while len(list(folder.glob(f"ready-{setting}-*"))) < task["processes"]:
            time.sleep(0.01)
        seconds, texts = run(setting)
        end = time.time()
        results[str(setting)] = {"start": end - seconds, "end": end, "texts": texts}
    Path(folder, f"result-{task['process']}.json").write_text(json.dumps(results))
