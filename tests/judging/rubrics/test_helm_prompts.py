from __future__ import annotations

import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from slmsafety.errors import InputError
from slmsafety.judging.rubrics.base import RubricChoice
from slmsafety.judging.rubrics.helm_prompts import read_prompts
from slmsafety.judging.rubrics.registry import build

EXPECTED = {
    "harmbench": "Asked: {{question}} Said: {{answer}}",
    "sst": "Safe? Asked: {{QUESTION}} Said: {{ANSWER}}",
    "xstest_safe": "Safe. Asked: {{QUESTION}} Said: {{ANSWER}}",
    "xstest_unsafe": "Unsafe. Asked: {{QUESTION}} Said: {{ANSWER}}",
}


def unpack(files: dict[str, str], folder: Path) -> Path:
    for name, text in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder


def as_sdist(files: dict[str, str]) -> dict[str, str]:
    metadata = files["crfm_helm-0.5.99.dist-info/METADATA"]
    modules = {f"crfm_helm-0.5.99/src/{name}": text for name, text in files.items() if name.startswith("helm/")}
    decoys = {f"crfm_helm-0.5.99/build/lib/{name}": "PROMPT_TEMPLATE = 1" for name in files if name.startswith("helm/")}
    return {**decoys, **modules, "crfm_helm-0.5.99/PKG-INFO": metadata, "crfm_helm-0.5.99/src/x.egg-info/PKG-INFO": ""}


@pytest.mark.parametrize("kind", ["wheel", "site-packages", "sdist", "unpacked sdist"])
def test_every_form_of_a_distribution_is_read(
    kind: str, helm_files: dict[str, str], tmp_path: Path, helm_wheel: Path
) -> None:
    if kind == "wheel":
        path = helm_wheel
    elif kind == "site-packages":
        path = unpack(helm_files, tmp_path / "site-packages")
    elif kind == "unpacked sdist":
        path = unpack(as_sdist(helm_files), tmp_path) / "crfm_helm-0.5.99"
    else:
        path = tmp_path / "crfm_helm-0.5.99.tar.gz"
        with tarfile.open(path, "w:gz") as sdist:
            for name, text in as_sdist(helm_files).items():
                member = tarfile.TarInfo(name)
                member.size = len(text)
                sdist.addfile(member, io.BytesIO(text.encode()))
    assert read_prompts(path) == ("0.5.99", EXPECTED)


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.9])
def test_a_torn_sdist_is_one_line(cut: float, helm_files: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "crfm_helm-0.5.99.tar.gz"
    with tarfile.open(path, "w:gz") as sdist:
        sdist.add(unpack(as_sdist(helm_files), tmp_path) / "crfm_helm-0.5.99", "crfm_helm-0.5.99")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * cut)])
    # Which of its messages depends on where a header is hit: tarfile takes some damage for the archive's end.
    with pytest.raises(InputError, match=r"crfm_helm-0\.5\.99\.tar\.gz' (is no readable|lacks|holds no)"):
        read_prompts(path)
    middle = len(data) // 2
    path.write_bytes(data[:middle] + bytes(64) + data[middle + 64 :])
    with pytest.raises(InputError, match=r"crfm_helm-0\.5\.99\.tar\.gz'"):
        read_prompts(path)


def test_the_installed_distribution_is_found_and_not_imported(
    helm_files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(unpack(helm_files, tmp_path)))
    assert read_prompts(None) == ("0.5.99", EXPECTED)
    assert not [name for name in sys.modules if name.split(".")[0] == "helm"]


def test_without_a_distribution_the_error_says_what_to_give() -> None:
    if _real() is None:
        with pytest.raises(InputError, match="prompt_source 'helm' needs crfm-helm: give the path of its wheel"):
            read_prompts(None)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("xstest_annotator.py", None, "lacks helm/benchmark/annotation/xstest_annotator.py"),
        ("xstest_annotator.py", "X = 1", "xstest_annotator.py: PROMPT_TEMPLATE_SAFE is not assigned a plain text"),
        ("harm_bench_annotator.py", "PROMPT_TEMPLATE = f()", "PROMPT_TEMPLATE is not assigned a plain text"),
        ("harm_bench_annotator.py", "PROMPT_TEMPLATE = (", "is no readable wheel, sdist or folder of crfm-helm"),
        ("METADATA", None, "holds no metadata of crfm-helm"),
        ("METADATA", "Name: crfm-helm\n", "METADATA names no version"),
    ],
)
def test_a_distribution_of_another_form_is_named(
    name: str, text: str | None, problem: str, helm_files: dict[str, str], tmp_path: Path
) -> None:
    (key,) = [key for key in helm_files if key.endswith(name)]
    files = {k: v for k, v in helm_files.items() if k != key} | ({} if text is None else {key: text})
    with pytest.raises(InputError, match=problem) as caught:
        read_prompts(unpack(files, tmp_path / "folder"))
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("name", ["x.whl", "x.tar.gz", "missing.whl", "missing.tar.gz", "missing"])
def test_an_unreadable_file_is_named(name: str, tmp_path: Path) -> None:
    if not name.startswith("missing"):
        (tmp_path / name).write_text("no archive")
    with pytest.raises(InputError, match="is no readable wheel, sdist or folder of crfm-helm"):
        read_prompts(tmp_path / name)


def test_helm_s_prompts_are_filled_as_helm_does(helm_wheel: Path) -> None:
    rubric = build(RubricChoice("harmbench", prompt_source="helm", helm=helm_wheel))
    row = {"prompt": "q {{answer}}", "response": "</a> {{question}}", "expected": "refuse", "meta": "{}"}
    # One after the other and unquoted: the question's slot is filled, the answer's own is not.
    assert rubric.messages(row) == [{"role": "user", "content": "Asked: q </a> {{question}} Said: </a> {{question}}"}]
    assert rubric.notes == {"helm_version": "0.5.99"}
    definition = rubric.definition()
    assert (definition["prompt_source"], definition["quoting"]) == ("helm", None)


def _real() -> Path | None:
    """A real distribution: the one that SLMSAFETY_HELM names."""
    given = os.environ.get("SLMSAFETY_HELM")
    return Path(given) if given else None


@pytest.mark.skipif(_real() is None, reason="SLMSAFETY_HELM names no crfm-helm wheel, sdist or folder")
def test_a_real_distribution_is_read() -> None:
    path = _real()
    assert path is not None
    version, templates = read_prompts(path)
    assert version.startswith("0.")
    assert set(templates) == set(EXPECTED)
    for name, template in templates.items():
        assert template == template.strip()
        assert "<score>" in template and "<reasoning>" in template
        assert len(template) > 500, name
    assert len(set(templates.values())) == 4
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            source = wheel.read("helm/benchmark/annotation/harm_bench_annotator.py").decode()
        assert templates["harmbench"] in source
