"""Does a fine-tuned pair encoder beat the counts of the judge `offline` on sources that neither saw?

    python benchmarks/pair_encoder.py             each of gptfuzz, smol, gemma left out, about a quarter of an hour
    python benchmarks/pair_encoder.py --smallest  only try it, on a few of the project's own texts

all-MiniLM-L6-v2 reads request and reply as one pair (at most 32 tokens of the request, the first 48 and the last 32 of
the reply); its lower four layers are frozen, the upper two get low-rank adapters of rank 8 (about 110,000 numbers, 220
kB in 16 bits), and a linear layer answers the judge's first three questions. Counts and encoder are fitted to the same
rows with the same weights. The number is the area under the curve: how often a reply that answers gets the higher
probability (1: always, 0.5: as by chance). Of gptfuzz 2,500 rows at most are trained on, to keep the time.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np
import offline_rows
import pandas as pd
import torch
import train_offline_judge as counts
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import nn
from tqdm.auto import tqdm

from slmsafety.judging.offline.features import features
from slmsafety.judging.offline.labelled import KINDS
from slmsafety.judging.offline.questions import predict
from slmsafety.judging.offline.sentences import request
from slmsafety.models.encoder import sentence_encoder

REQUEST, HEAD, TAIL = 32, 48, 32
FROZEN, RANK, SCALE = 4, 8, 2.0
EPOCHS, RATE, BATCH, SEED, MOST = 2, 1e-3, 32, 0, 2500
ASKED = ("text", "answers", "refuses")
LEFT_OUT = ("gptfuzz", "smol", "gemma")


class Adapted(nn.Module):
    """A linear layer that stays as it is, and a low-rank change of it (Hu et al., 2022, LoRA)."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(RANK, layer.in_features) / math.sqrt(layer.in_features))
        self.up = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return the layer's output with the change added."""
        return self.layer(values) + values @ self.down.T @ self.up.T * SCALE


class Upper(nn.Module):
    """The encoder's upper layers with adapters, and a logit for each of ASKED."""

    def __init__(self, layers: Any) -> None:
        super().__init__()
        self.layers = layers.requires_grad_(False)
        for layer in layers:
            own = layer.attention.self
            own.query, own.key, own.value = Adapted(own.query), Adapted(own.key), Adapted(own.value)
            layer.attention.output.dense = Adapted(layer.attention.output.dense)
            layer.intermediate.dense, layer.output.dense = (
                Adapted(layer.intermediate.dense),
                Adapted(layer.output.dense),
            )
        self.head = nn.Linear(2 * 384, len(ASKED))

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return logits (n, len(ASKED)) from states (n, tokens, 384) and their mask (n, tokens)."""
        for layer in self.layers:
            states = run_layer(layer, states, mask)
        mean = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return self.head(torch.cat([states[:, 0], mean], 1))


def run_layer(layer: Any, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return a layer's output, whichever of a tensor and a tuple the library returns."""
    result = layer(states, (1 - mask[:, None, None, :]) * -1e9)
    return result[0] if isinstance(result, tuple) else result


def encoder() -> tuple[Any, Any]:
    """Return the tokenizer and a fresh copy of the model."""
    loaded = sentence_encoder()
    return loaded.model.tokenizer, loaded.model[0].auto_model.float().eval()


def pair(tokenizer: Any, prompt: str, reply: str) -> tuple[list[int], int]:
    """Return the tokens of request and reply, and where the reply's begin."""
    asked = tokenizer(request(prompt)[-2000:], add_special_tokens=False)["input_ids"][-REQUEST:]
    ends = reply if len(reply) <= 6000 else reply[:3000] + reply[-3000:]
    told = tokenizer(ends, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
    if len(told) > HEAD + TAIL:
        told = [*told[:HEAD], tokenizer.sep_token_id, *told[-TAIL:]]
    first = [tokenizer.cls_token_id, *asked, tokenizer.sep_token_id]
    return [*first, *told, tokenizer.sep_token_id], len(first)


def padded(rows: list[NDArray[Any]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows of unequal length as one tensor, and its mask."""
    longest = max(map(len, rows))
    values = torch.zeros((len(rows), longest, *rows[0].shape[1:]), dtype=torch.from_numpy(rows[0]).dtype)
    mask = torch.zeros((len(rows), longest))
    for number, row in enumerate(rows):
        values[number, : len(row)], mask[number, : len(row)] = torch.from_numpy(row), 1
    return values, mask


def lower_states(rows: pd.DataFrame) -> list[NDArray[np.float16]]:
    """Return what the frozen layers make of each pair: (tokens, 384)."""
    tokenizer, model = encoder()
    pairs = [pair(tokenizer, *texts) for texts in zip(rows["prompt"], rows["reply"], strict=True)]
    order, result = np.argsort([len(ids) for ids, _ in pairs]), [np.zeros((0, 384), np.float16)] * len(pairs)
    with torch.no_grad():
        for start in tqdm(range(0, len(order), BATCH), desc="lower layers"):
            places = order[start : start + BATCH]
            ids, mask = padded([np.array(pairs[place][0]) for place in places])
            types = torch.stack([(torch.arange(ids.shape[1]) >= pairs[place][1]).long() for place in places])
            states = model.embeddings(input_ids=ids, token_type_ids=types * mask.long())
            for layer in model.encoder.layer[:FROZEN]:
                states = run_layer(layer, states, mask)
            for number, place in enumerate(places):
                result[place] = states[number, : len(pairs[place][0])].half().numpy()
    return result


def batches(
    states: list[NDArray[np.float16]], places: NDArray[np.int64], rng: np.random.Generator
) -> list[NDArray[Any]]:
    """Return the places in random batches of similar lengths."""
    length, shuffled = np.array([len(each) for each in states]), rng.permutation(places)
    pools = [shuffled[start : start + 16 * BATCH] for start in range(0, len(shuffled), 16 * BATCH)]
    ordered = [pool[np.argsort(length[pool], kind="stable")] for pool in pools]
    parts = [pool[start : start + BATCH] for pool in ordered for start in range(0, len(pool), BATCH)]
    return [parts[place] for place in rng.permutation(len(parts))]


def trained(states: list[Any], yes: counts.Floats, no: counts.Floats, places: NDArray[np.int64]) -> Upper:
    """Return the upper layers fitted to rows with the weights of yes and of no to each question (n, len(ASKED))."""
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    model = Upper(encoder()[1].encoder.layer[FROZEN:]).train()
    free = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(free, lr=RATE, weight_decay=0.01)
    work = [part for _ in range(EPOCHS) for part in batches(states, places, rng)]
    for step, part in enumerate(tqdm(work, desc="fit")):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 50) * (1 - step / len(work))
        values, mask = padded([states[place] for place in part])
        logits = model(values.float(), mask)
        up, down = (torch.tensor(side[part], dtype=torch.float) for side in (yes, no))
        loss = (up * nn.functional.softplus(-logits) + down * nn.functional.softplus(logits)).sum() / (up + down).sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(free, 1.0)
        optimizer.step()
    return model.eval()


def answers(model: Upper, states: list[Any], places: NDArray[np.int64]) -> counts.Floats:
    """Return the logit of `answers` for rows."""
    result = np.zeros(len(places))
    with torch.no_grad():
        for start in range(0, len(places), BATCH):
            values, mask = padded([states[place] for place in places[start : start + BATCH]])
            result[start : start + BATCH] = model(values.float(), mask)[:, ASKED.index("answers")].numpy()
    return result


def compare(rows: pd.DataFrame, left_out: tuple[str, ...]) -> None:
    """Print the area under the curve of counts, encoder and both together on each source left out."""
    table, states = features(rows["prompt"].tolist(), rows["reply"].tolist()), lower_states(rows)
    source = rows["source"].to_numpy()
    rng = np.random.default_rng(SEED)
    print("left out   rows  counts  encoder  both    seconds to fit the encoder")
    for name in left_out:
        train = np.flatnonzero([name not in of for of in rows["of"]])
        some = set(rng.permutation(train[source[train] == "gptfuzz"])[:MOST])
        part = np.array([place for place in train if source[place] != "gptfuzz" or place in some])
        sides = counts.sides(rows)
        yes, no = (np.column_stack([sides[question][side] for question in ASKED]) for side in (0, 1))
        started = time.perf_counter()
        model = trained(states, yes, no, part)
        took = time.perf_counter() - started
        test = np.flatnonzero((source == name) & rows["degenerate"].lt(0.5))
        chance = predict(counts.fit(rows.iloc[train], table[train]), table[test])["answers"].clip(1e-6, 1 - 1e-6)
        scores = {"counts": np.log(chance / (1 - chance)), "encoder": answers(model, states, test)}
        scores["both"] = scores["counts"] + scores["encoder"]
        truth = rows.iloc[test][["complies", "partial"]].sum(axis=1).gt(0.5)
        areas = [roc_auc_score(truth, score, sample_weight=rows["size"].iloc[test]) for score in scores.values()]
        print(f"{name:9} {len(test):5}  ", *(f"{area:.3f} " for area in areas), f" {took:.0f}", flush=True)


def main() -> None:
    """Compare, or try it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smallest", action="store_true", help="only to try it, on a few rows")
    if parser.parse_args().smallest:
        rows = offline_rows.few()
        half = np.arange(len(rows)) % 2 == 0
        rows["source"] = np.where(half, "one", "other")
        rows["of"] = [frozenset({name}) for name in rows["source"]]
        compare(rows, ("one",))
    else:
        rows = offline_rows.tuning()
        print(rows.groupby("source", sort=False)[list(KINDS)].sum().round(0).to_string())
        compare(rows, LEFT_OUT)


if __name__ == "__main__":
    main()
