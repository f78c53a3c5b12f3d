"""The demo prompts are the project's own: enough of them, of two forms, mild, and none taken from a benchmark."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from slmsafety.suites import demo
from slmsafety.suites.catalogue import load_suite

NAMES = (demo.DIRECT.name, demo.FRAMED.name)
UNWANTED = re.compile(
    r"\b(weapon|bomb|gun|knife|explosi|drug|alcohol|poison|kill|murder|hurt|suicid|sex|nude|child|teenag|minor|"
    r"terror|virus|malware|hack|phish)"
)


@pytest.fixture(scope="module")
def prompts() -> pd.DataFrame:
    return pd.concat([load_suite(suite).prompts for suite in NAMES], ignore_index=True)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


@pytest.mark.parametrize(("suite", "prefix"), [("demo_direct", "dd"), ("demo_framed", "df")])
def test_a_suite_has_its_forty_prompts_and_twelve_controls(suite: str, prefix: str) -> None:
    table = load_suite(suite).prompts
    assert set(table["suite"]) == {suite}
    assert table["expected"].value_counts().to_dict() == {"refuse": 40, "answer": 12}
    risks = table[table["expected"] == "refuse"]
    assert risks["category"].value_counts().tolist() == [5] * 8
    assert not risks.duplicated(["category", "subcategory"]).any()
    assert (table["category"] == "benign").equals(table["expected"] == "answer")
    benign = table[table["expected"] == "answer"]
    assert benign["subcategory"].value_counts().to_dict() == {"near_risk": 6, "plain": 6}
    starts = [f"{prefix}-{category}-" for category in table["category"]]
    assert all(map(str.startswith, table["instance_id"], starts))
    assert set(table["suite_revision"]) == {hashlib.sha256(demo.FILE.read_bytes()).hexdigest()[:12]}


def test_both_suites_share_their_risk_categories() -> None:
    direct, framed = (load_suite(suite).prompts["category"].value_counts().to_dict() for suite in NAMES)
    assert direct == framed


def test_no_prompt_occurs_twice(prompts: pd.DataFrame) -> None:
    assert not prompts["prompt"].str.casefold().duplicated().any()
    assert not prompts["instance_id"].duplicated().any()
    assert (prompts["prompt"] == prompts["prompt"].str.strip()).all()


def test_direct_prompts_are_short_and_framed_ones_long(prompts: pd.DataFrame) -> None:
    lengths = prompts["prompt"].str.split().str.len()
    direct, framed = (lengths[prompts["suite"] == suite] for suite in NAMES)
    assert direct.between(8, 15).all()
    assert framed.between(45, 90).all()
    sentences = prompts["prompt"].str.count(r"[.?!](?:\s|$)")
    assert (sentences[prompts["suite"] == "demo_direct"] == 1).all()
    assert (sentences[prompts["suite"] == "demo_framed"] > 1).all()


def test_the_prompts_are_mild(prompts: pd.DataFrame) -> None:
    found = [match for text in prompts["prompt"] for match in UNWANTED.findall(text.casefold())]
    assert found == []


def benchmark_prompts(folder: Path) -> list[str]:
    """Every prompt in the public files of five benchmarks."""
    columns = {
        "harmbench/harmbench_behaviors_text_all.csv": "Behavior",
        "sst/SimpleSafetyTests_test_cases.csv": "prompts_final",
        "xstest/xstest_prompts.csv": "prompt",
        "airbench/prompts_original_cac_subset.csv": "prompt",
    }
    texts = []
    for name, column in columns.items():
        with (folder / name).open(encoding="utf-8-sig", newline="") as handle:
            texts += [row[column] for row in csv.DictReader(handle)]
    salad = json.loads((folder / "salad" / "sampled_base_1800.json").read_text(encoding="utf-8"))
    return texts + [row["question"] for row in salad]


def test_no_prompt_comes_from_a_benchmark(prompts: pd.DataFrame, public_data: Path) -> None:
    theirs = {" ".join(words(text)) for text in benchmark_prompts(public_data)} - {""}
    assert len(theirs) > 2500
    for ours in (" ".join(words(text)) for text in prompts["prompt"]):
        assert not [text for text in theirs if text in ours or ours in text]
