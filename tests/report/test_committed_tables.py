"""The committed tables of the printed study: one naming of suites and models in every file."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from slmsafety import published
from slmsafety.models.cards import load_cards
from slmsafety.paths import project_root
from slmsafety.suites.catalogue import SUITES

TABLES = sorted((project_root() / "paper" / "tables" / "published").glob("*.csv"))
RATES = {"mean", "hcr", "ar", "srr", "s_adj", "kappa", "tau"}


def problems(table: pd.DataFrame) -> list[str]:
    """What of a table's keys is no id, or has no title beside it; and rates that hold no numbers."""
    ids = dict.fromkeys(("suite", "source", "target"), set(SUITES) | {"all"}) | {"model": set(load_cards()["id"])}
    found = []
    for key, known in ids.items():
        if key not in table:
            continue
        found += [f"{key} '{name}' is no id" for name in sorted(set(table[key].dropna()) - known)]
        title = f"{key}_name" if key == "model" else f"{key}_title"
        found += [] if title in table else [f"{title} is missing"]
    return found + [f"{name} holds no numbers" for name in RATES & set(table) if table[name].dtype.kind not in "if"]


def test_there_are_committed_tables():
    assert len(TABLES) > 10


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_keys_are_ids_with_titles_beside_them(path):
    assert problems(pd.read_csv(path)) == []


def test_a_title_in_the_place_of_an_id_is_noticed():
    printed = published.printed("table_a1_outcomes")
    assert "suite 'AirBench' is no id" in problems(printed) and "model_name is missing" in problems(printed)
    assert problems(pd.DataFrame({"mean": [True]})) == ["mean holds no numbers"]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_no_heading_is_a_raw_name(path):
    tex = path.with_suffix(".tex").read_text("utf-8")
    heading = tex[tex.index(r"\toprule") : tex.index(r"\midrule")]
    assert not re.search(r"[a-z]\\_[a-z]", heading)
