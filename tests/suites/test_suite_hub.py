"""The real huggingface_hub against its own cache, without a network."""

from __future__ import annotations

import shutil
from pathlib import Path

import huggingface_hub.constants
import pytest

from slmsafety.errors import InputError
from slmsafety.suites import airbench, salad
from slmsafety.suites.catalogue import SUITES, inspect, load_suite, overview
from slmsafety.suites.hub import HubFiles

ROW = "cate-idx,l2-name,l3-name,l4-name,prompt\n1.{n}.1,Colours,Warm,Red,From {n}?\n"
PINNED, UNPINNED = airbench.SUITE.origin, salad.SUITE.origin


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache of its own, offline."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def lay(cache: Path, source: HubFiles, commit: str, content: str) -> Path:
    """Files of a data set where the hub's client keeps them."""
    folder = cache / f"datasets--{source.repository.replace('/', '--')}"
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for number, name in enumerate(source.files, start=1):
        (snapshot / name).write_text(content.format(n=number), encoding="utf-8")
    (folder / "refs").mkdir()
    (folder / "refs" / source.revision).write_text(commit)
    return snapshot


def test_a_cached_data_set_is_read_in_the_card_s_order(cache: Path) -> None:
    snapshot = lay(cache, PINNED, PINNED.revision, ROW)
    assert PINNED.present() == (43, 43)
    data = load_suite("airbench")
    assert data.prompts["prompt"].tolist() == [f"From {n}?" for n in range(1, 44)]
    assert data.title == "AIR-43"
    # The same files by `path:` are the same revision.
    copy = cache / "copy"
    shutil.copytree(snapshot, copy)
    assert load_suite("airbench", copy).prompts.equals(data.prompts)


def test_an_incomplete_cache_is_named(cache: Path) -> None:
    snapshot = lay(cache, PINNED, PINNED.revision, ROW)
    (snapshot / "category_7.csv").unlink()
    assert PINNED.present() == (42, 43)
    with pytest.raises(InputError, match=r"category_7.csv|cannot get") as info:
        load_suite("airbench")
    assert "'path:'" in str(info.value)


def test_another_revision_does_not_stand_in(cache: Path) -> None:
    lay(cache, PINNED, "0" * 40, ROW)
    with pytest.raises(InputError, match=f"cannot get data set {PINNED.repository} at revision {PINNED.revision}"):
        PINNED.fetch()


@pytest.mark.parametrize("name", ["airbench", "salad"])
def test_out_of_reach_is_one_line_with_the_way_out(cache: Path, name: str) -> None:
    with pytest.raises(InputError, match="give a copy of its files with 'path:'") as info:
        load_suite(name)
    assert "\n" not in str(info.value)


def test_what_is_present_is_seen_without_a_network(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLMSAFETY_CACHE", str(cache / "own"))
    nothing = overview().set_index("suite")["present"]
    assert nothing.drop(["demo_direct", "demo_framed"]).eq("no").all()
    assert nothing["demo_direct"] == "yes"
    snapshot = lay(cache, PINNED, PINNED.revision, ROW)
    assert overview().set_index("suite")["present"]["airbench"] == "yes"
    assert inspect("airbench", None) == {
        "suite": "airbench",
        "path": "",
        "present": "yes",
        "title": "AIR-43",
        "prompts": "43 of 5,694",
        "revision": load_suite("airbench").prompts["suite_revision"][0],
    }
    for name in PINNED.files[3:]:
        (snapshot / name).unlink()
    assert overview().set_index("suite")["present"]["airbench"] == "3 of 43 files"
    found = inspect("airbench", None)
    assert found == {"suite": "airbench", "present": f"3 of 43 files: {SUITES['airbench'].how}"}


def test_salad_is_its_one_file(cache: Path) -> None:
    levels = '"1-category": "a", "2-category": "b", "3-category": "c"'
    row = f'[{{{{"qid": 1, "question": "Is 1 even?", "source": "s", {levels}}}}}]'
    lay(cache, UNPINNED, "1" * 40, row)
    assert load_suite("salad").prompts["instance_id"].tolist() == ["1"]
