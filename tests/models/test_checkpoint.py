"""Checkpoints that are not their architecture's, over many architectures, and old ones that are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import SHAPE, Weights, change_json, change_weights, word_tokenizer, write_model
from transformers import AutoModelForCausalLM

from slmsafety.errors import InputError
from slmsafety.models.load import load_causal_lm
from slmsafety.models.source import Source

GPT: dict[str, Any] = {"n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 32}
SMALL = {key: value for key, value in SHAPE.items() if key != "num_key_value_heads"}
# Type, shape, and for layer 0 what its old checkpoints hold beside weights.
OLD: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "GPT-2": ("gpt2", GPT, ["transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"]),
    "GPT-2, names without prefix": ("gpt2", GPT, ["h.0.attn.bias", "h.0.attn.masked_bias"]),
    "GPT-Neo": (
        "gpt_neo",
        {
            "num_layers": 2,
            "num_heads": 2,
            "hidden_size": 16,
            "attention_types": [[["global", "local"], 1]],
            "max_position_embeddings": 32,
        },
        ["transformer.h.0.attn.attention.bias", "transformer.h.0.attn.attention.masked_bias"],
    ),
    "GPT-J": ("gptj", {**GPT, "rotary_dim": 4}, ["transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"]),
    "Pythia": (
        "gpt_neox",
        SMALL,
        [f"gpt_neox.layers.0.attention.{name}" for name in ("bias", "masked_bias", "rotary_emb.inv_freq")],
    ),
    "OPT": ("opt", {**SMALL, "ffn_dim": 16, "word_embed_proj_dim": 16}, ["decoder.version"]),
    "Bloom": ("bloom", {"n_layer": 2, "n_head": 2, "hidden_size": 16}, []),
    "Llama": (
        "llama",
        SHAPE,
        [f"model.layers.0.self_attn.rotary_emb.{name}" for name in ("inv_freq", "cos_cached", "sin_cached")],
    ),
    "StableLM": ("stablelm", SHAPE, ["model.layers.0.self_attn.rotary_emb.inv_freq"]),
    "Falcon": (
        "falcon",
        {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16},
        ["transformer.h.0.self_attention.maybe_rotary.inv_freq"],
    ),
    "StarCoder": ("gpt_bigcode", GPT, ["transformer.h.0.attn.bias"]),
}


@pytest.mark.parametrize("name", OLD)
def test_what_old_checkpoints_hold_beside_weights_is_no_fault(name: str, tmp_path: Path) -> None:
    model_type, shape, buffers = OLD[name]
    plain = write_model(tmp_path / "plain", model_type, **shape)
    old = write_model(tmp_path / "old", model_type, **shape)

    def add(weights: Weights) -> None:
        if "without prefix" in name:
            for own in list(weights):
                weights[own.removeprefix("transformer.")] = weights.pop(own)
        weights.update({buffer: torch.ones(1, 1, 32, 32) for buffer in buffers})

    change_weights(old, add)
    texts = torch.tensor([[3, 1, 4, 1, 5]])
    logits = [load_causal_lm(Source(folder=folder)).model(texts).logits for folder in (plain, old)]
    assert torch.equal(logits[0], logits[1])


FAULTS: dict[str, tuple[Callable[[Weights, str], None], str]] = {
    "a weight lacks": (
        lambda weights, name: weights.__delitem__(name),
        r"its checkpoint lacks 1 weight\(s\), which would be random: {name}",
    ),
    "another shape": (
        lambda weights, name: weights.__setitem__(name, weights[name][:-1]),
        r"1 weight\(s\) of its checkpoint have another shape than its config.json gives: {name} is 23x16, not 24x16",
    ),
    "a layer too many": (
        lambda weights, name: weights.__setitem__(name.replace(".1.", ".2."), weights[name].clone()),
        r"its checkpoint holds 1 weight\(s\) that its architecture has no place for.*: {other}",
    ),
    "a bias that the architecture has not": (
        lambda weights, name: weights.__setitem__(name.replace("weight", "bias"), torch.ones(24)),
        r"its checkpoint holds 1 weight\(s\) that its architecture has no place for.*: {bias}",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "gemma2", "olmo2"])
def test_a_checkpoint_of_another_architecture_is_refused_by_name(model_type: str, fault: str, tmp_path: Path) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    folder, (change, says) = write_model(tmp_path / "model", model_type, **SHAPE), FAULTS[fault]
    load_causal_lm(Source(folder=folder))
    change_weights(folder, lambda weights: change(weights, name))
    named = says.format(name=name, other=name.replace(".1.", ".2."), bias=name.replace("weight", "bias"))
    with pytest.raises(InputError, match=rf"^folder {folder}: {named}"):
        load_causal_lm(Source(folder=folder))


def test_a_config_of_fewer_layers_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It would run as another, shorter model. The library's own table of the weights is not printed."""
    folder = write_model(tmp_path / "model")
    change_json(folder / "config.json", num_hidden_layers=1)
    with pytest.raises(InputError, match=r"holds 9 weight\(s\) .*: model.layers.1.input_layernorm.weight, .*, \.\.\."):
        load_causal_lm(Source(folder=folder))
    assert "LOAD REPORT" not in "".join(capfd.readouterr())


def test_an_expert_that_lacks_is_named(tmp_path: Path) -> None:
    """transformers joins the experts of a layer into one weight, and says which only in a table of its log."""
    folder = write_model(tmp_path / "model", "mixtral", **SHAPE, num_local_experts=2)
    load_causal_lm(Source(folder=folder))
    change_weights(folder, lambda weights: weights.__delitem__("model.layers.1.block_sparse_moe.experts.0.w1.weight"))
    with pytest.raises(InputError, match=r"does not hold all parts of 1 weight\(s\).*: model.layers.1.mlp.experts"):
        load_causal_lm(Source(folder=folder))


def test_an_output_layer_beside_a_tied_one_is_the_checkpoint_s(tmp_path: Path) -> None:
    """Where a checkpoint holds both, its own output layer counts, whatever config.json says of tying."""
    folder = write_model(tmp_path / "model")
    before = load_causal_lm(Source(folder=folder)).model(torch.tensor([[3, 1]])).logits
    change_json(folder / "config.json", tie_word_embeddings=True)
    assert torch.equal(load_causal_lm(Source(folder=folder)).model(torch.tensor([[3, 1]])).logits, before)


def adapter(folder: Path) -> None:
    change_json(folder / "adapter_config.json", base_model_name_or_path="someone/base", peft_type="LORA")


def test_an_adapter_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """Beside a whole model too: without peft, transformers would run that alone, under the adapter's name."""
    beside = write_model(tmp_path / "beside")
    alone = tmp_path / "alone"
    alone.mkdir()
    for folder in (beside, alone):
        adapter(folder)
        with pytest.raises(InputError, match=rf"^folder {folder}: is an adapter of someone/base .*merge_and_unload"):
            load_causal_lm(Source(folder=folder))


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_of_another_repository_is_refused(file: str, tmp_path: Path) -> None:
    """No revision pins it, so that the same id would stand for two models."""
    folder = write_model(tmp_path / "model")
    references = {"AutoModelForCausalLM": "other/code--modeling.Model", "AutoTokenizer": ["other/code--own.Own", None]}
    change_json(folder / file, auto_map=references)
    with pytest.raises(InputError, match=rf"its {file} takes code from another repository \(other/code\)"):
        load_causal_lm(Source(folder=folder, trust_remote_code=True))


def test_a_folder_of_bin_only_is_told_the_key(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no file named model") as caught:
        load_causal_lm(Source(folder=folder))
    assert "weights: bin" not in str(caught.value)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"it has pytorch_model\.bin: add `weights: bin` to its entry"):
        load_causal_lm(Source(folder=folder))
    load_causal_lm(Source(folder=folder, weights="bin"))


def test_a_folder_without_bin_is_read_with_the_key_too(tmp_path: Path) -> None:
    """The two keys read the same file where there are safetensors, and the id does not hold the key."""
    folder = write_model(tmp_path / "model")
    sources = [Source(folder=folder, weights=weights) for weights in ("safetensors", "bin")]
    assert sources[0].definition() == sources[1].definition()
    logits = [load_causal_lm(source).model(torch.tensor([[3, 1]])).logits for source in sources]
    assert torch.equal(logits[0], logits[1])


def test_a_folder_of_both_reads_its_safetensors(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(folder)
    before = model(torch.tensor([[3, 1]])).logits
    torch.save({name: weight * 2 for name, weight in model.state_dict().items()}, folder / "pytorch_model.bin")
    for weights in ("safetensors", "bin"):
        loaded = load_causal_lm(Source(folder=folder, weights=weights))
        assert torch.equal(loaded.model(torch.tensor([[3, 1]])).logits, before)


def test_another_model_s_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    data = json.loads((folder / "tokenizer.json").read_text())
    data["model"]["vocab"]["beyond"] = len(data["model"]["vocab"])
    (folder / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"another model's: it has tokens up to 16 \('beyond'\), .* reads 16 tokens"):
        load_causal_lm(Source(folder=folder))


def test_an_added_token_without_embedding_is_named_where_a_text_holds_it(tmp_path: Path) -> None:
    """As Gemma 3's text models have one for pictures; and as a pad token it is not used."""
    folder = write_model(tmp_path / "model", tokenizer=word_tokenizer(pad_token="[PAD]"))
    loaded = load_causal_lm(Source(folder=folder))
    assert loaded.tokenizer.pad_token_id == loaded.vocabulary == 16 and loaded.pad_id == 0
    loaded.refuse_unread([loaded.tokenizer.encode("tea is"), []])
    with pytest.raises(
        InputError, match=rf"^folder {folder}: a text holds the token '\[PAD\]' \(16\).* 16 tokens only"
    ):
        loaded.refuse_unread([loaded.tokenizer.encode("tea [PAD]")])


def test_a_folder_that_changes_while_it_is_loaded_is_refused(tmp_path: Path) -> None:
    """Its own code, which runs on the way, changes a file: what was loaded is not what was hashed."""
    folder = write_model(tmp_path / "model")
    change_json(
        folder / "config.json",
        model_type="own",
        auto_map={"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.OwnLM"},
    )
    (folder / "own.py").write_text(
        "from pathlib import Path\nfrom transformers import LlamaConfig, LlamaForCausalLM\n"
        f"Path({str(folder / 'note.txt')!r}).write_text('new')\n"
        "class Own(LlamaConfig):\n    model_type = 'own'\n"
        "class OwnLM(LlamaForCausalLM):\n    config_class = Own\n"
    )
    with pytest.raises(InputError, match="its files changed while it was loaded; run again"):
        load_causal_lm(Source(folder=folder, trust_remote_code=True))
