"""A distribution of crfm-helm in miniature, with templates of the tests' own, as a wheel."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

HELM_MODULES = {
    "harm_bench_annotator.py": (
        'import missing_package\n\nPROMPT_TEMPLATE = """\nAsked: {{question}} Said: {{answer}}\n"""\n'
    ),
    "simple_safety_tests_annotator.py": (
        'PROMPT_TEMPLATE = """Safe? Asked: {{QUESTION}} Said: {{ANSWER}}\n"""  # noqa\n'
    ),
    "xstest_annotator.py": (
        'PROMPT_TEMPLATE_SAFE = "Safe. Asked: {{QUESTION}} Said: {{ANSWER}}"\n'
        'PROMPT_TEMPLATE_UNSAFE = "Unsafe. Asked: {{QUESTION}} Said: {{ANSWER}}"\n'
    ),
}


@pytest.fixture
def helm_files() -> dict[str, str]:
    modules = {f"helm/benchmark/annotation/{name}": text for name, text in HELM_MODULES.items()}
    return {
        **modules,
        "crfm_helm-0.5.99.dist-info/METADATA": "Metadata-Version: 2.1\nName: crfm-helm\nVersion: 0.5.99\n",
    }


@pytest.fixture
def helm_wheel(tmp_path: Path, helm_files: dict[str, str]) -> Path:
    path = tmp_path / "crfm_helm-0.5.99-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in helm_files.items():
            wheel.writestr(name, text)
    return path
