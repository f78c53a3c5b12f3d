"""Where the answer stands in replies of a tiny real model that has learnt to reason, with marks that no text shows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from slmsafety.generation.decoding import BatchLimits
from slmsafety.generation.settings import GenerationJob, GenerationSettings
from slmsafety.generation.transformers_engine import generate
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.source import Source
from slmsafety.records.schema import RESPONSES, check

OPEN, CLOSE = "[THINK]", "[/THINK]"
# What is asked, and what the model has learnt to say: marks that are special tokens, and tags that are text.
SAYS = {
    "ab": f"{OPEN}cdc{CLOSE}eff",
    "ba": "<gh>ij</gh>kl",
    "fe": "mno",
    "il": f"{OPEN}cdcdcdcdcdcdcdcdcdcd",
}


def tokenizer(template: str | None = None, named: bool = True) -> PreTrainedTokenizerFast:
    letters = {letter: number for number, letter in enumerate(["<|end|>", "Ġ", *"abcdefghijklmno<>/thinkT"])}
    made = Tokenizer(models.BPE(vocab={token: n for n, token in enumerate(dict.fromkeys(letters))}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(OPEN, special=True), AddedToken(CLOSE, special=True)])
    marks = {"additional_special_tokens": [OPEN, CLOSE]} if named else {}
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>", **marks)
    fast.chat_template = template
    return fast


def taught(folder: Path, says: dict[str, str], template: str | None = None, named: bool = True) -> LoadedModel:
    """A tiny model trained on these few texts until it says them; `named`: its tokenizer lists its special tokens."""
    texts = tokenizer(template, named)
    torch.manual_seed(1)
    shape = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    special = {"bos_token_id": None, "eos_token_id": 0, "pad_token_id": 0}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(texts), max_position_embeddings=64, **shape, **special))
    rows = [[*texts.encode(asked + said, add_special_tokens=False), 0] for asked, said in says.items()]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    wanted = torch.tensor([row + [-100] * (longest - len(row)) for row in rows])
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(300):
        loss = model(ids, labels=wanted, attention_mask=(wanted >= 0).long()).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    texts.save_pretrained(folder)
    return load_causal_lm(Source(folder=folder))


def answers(loaded: LoadedModel, asked: list[str], most: int = 18) -> list[tuple[str, str | None]]:
    """Each reply's text, and its answer: None for all of it, "" for none."""
    prompts = pd.DataFrame({"suite": "tiny", "instance_id": [f"q{n}" for n in range(len(asked))], "prompt": asked})
    job = GenerationJob(GenerationSettings(max_new_tokens=most), "m", "id")
    rows = pd.concat(list(generate(loaded, prompts, job, BatchLimits(8)))).sort_values("instance_id")
    rows = check(rows, RESPONSES, "test")
    return [
        (text, None if pd.isna(start) else text[start:end])
        for text, start, end in zip(rows["response"], rows["answer_start"], rows["answer_end"], strict=True)
    ]


@pytest.mark.parametrize("named", [True, False])
def test_marks_that_are_special_tokens_count_though_the_text_lacks_them(tmp_path: Path, named: bool) -> None:
    found = answers(taught(tmp_path, SAYS, named=named), [*SAYS])
    assert found == [("cdceff", "eff"), ("<gh>ij</gh>kl", None), ("mno", None), ("cdcdcdcdcdcdcdcdc", "")]


@pytest.mark.parametrize(
    ("said", "answer"),
    [(f"cdc{CLOSE}ef", "ef"), ("cdcdcdcdcdcdcdcdcdcdcdcd", ""), (f"cdc{CLOSE}", "")],
)
def test_reasoning_that_the_chat_template_opens(tmp_path: Path, said: str, answer: str) -> None:
    """Without its closing tag nothing in the reply tells that it was cut within the reasoning."""
    template = "{{ messages[0]['content'] }}{% if add_generation_prompt %}" + OPEN + "{% endif %}"
    loaded = taught(tmp_path, {f"ab{OPEN}": said}, template)
    assert [part for _, part in answers(loaded, ["ab"])] == [answer]
