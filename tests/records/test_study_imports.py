"""An import takes its place whole: what readers see while it is written, when it fails, and of older layouts."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.records.imports import import_root, new_import, open_import, read_imported
from slmsafety.records.schema import JUDGMENTS, REPLY_METRICS, RESPONSES
from slmsafety.records.store import Partition

TABLES = ("prompts", "responses", "judgments")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "mine"


def _fill(root: Path, replies: Any, *texts: str) -> None:
    """Write a reply of a model each."""
    for number, text in enumerate(texts):
        model = f"m{number}"
        Partition(root, RESPONSES, ("demo", model)).replace(replies(model=model, response=text))


def _import(folder: Path, replies: Any, *texts: str) -> None:
    with new_import(folder) as root:
        _fill(root, replies, *texts)


def _texts(folder: Path) -> list[str]:
    return list(read_imported(folder, "responses")["response"])


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "imports").iterdir())


def test_imports_are_numbered_and_the_highest_is_read(folder: Path, replies: Any) -> None:
    assert import_root(folder) is None
    for number in range(1, 12):
        _import(folder, replies, str(number))
        assert import_root(folder) == folder / "imports" / str(number)
        os.utime(folder / "imports" / str(number), (100 - number, 100 - number))  # its clock decides nothing
    assert _texts(folder) == ["11"]
    assert _names(folder) == [".lock", "10", "11"], "the one before stays, and no other"


def test_rows_of_the_import_before_are_not_mixed_in(folder: Path, replies: Any) -> None:
    _import(folder, replies, "a", "b")
    _import(folder, replies, "c")
    assert _texts(folder) == ["c"]


def test_a_reader_sees_the_old_import_until_the_new_one_is_whole(folder: Path, replies: Any) -> None:
    _import(folder, replies, "old")
    with new_import(folder) as root:
        _fill(root, replies, "new")
        assert _texts(folder) == ["old"]
    assert _texts(folder) == ["new"]


@pytest.mark.parametrize("error", [InputError("row 3"), OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_of_an_import_that_fails_nothing_is_left(folder: Path, replies: Any, error: BaseException) -> None:
    _import(folder, replies, "old")
    with pytest.raises(type(error)), new_import(folder) as root:
        _fill(root, replies, "new")
        raise error
    assert _texts(folder) == ["old"]
    assert _names(folder) == [".lock", "1"]


def test_an_open_import_outlives_those_that_follow(folder: Path, replies: Any) -> None:
    _import(folder, replies, "1")
    opened = open_import(folder)
    for number in (2, 3, 4):
        _import(folder, replies, str(number))
    (part,) = opened.partitions("responses")
    assert part.read()["response"].tolist() == ["1"]
    assert _names(folder) == [".lock", "1", "3", "4"]
    del opened, part
    _import(folder, replies, "5")
    assert _names(folder) == [".lock", "4", "5"]


def test_a_copy_without_hidden_files_is_read(folder: Path, replies: Any) -> None:
    _import(folder, replies, "a")
    for lock in folder.rglob(".lock"):
        lock.unlink()
    assert _texts(folder) == ["a"]


def test_two_imports_at_once_are_one_too_many(folder: Path, replies: Any) -> None:
    with new_import(folder) as root:
        with pytest.raises(InputError, match="another process imports into this study"), new_import(folder):
            pass
        _fill(root, replies, "a")
    assert _texts(folder) == ["a"]


KILLED = """
import os, signal, sys
from pathlib import Path
from slmsafety.records.imports import new_import
with new_import(Path(sys.argv[1])) as root:
    (root / "responses").mkdir()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_import_leaves_is_not_read_and_goes_with_the_next(folder: Path, replies: Any) -> None:
    _import(folder, replies, "old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert any(name.startswith(".partial-") for name in _names(folder))
    assert _texts(folder) == ["old"]
    _import(folder, replies, "new")
    assert _names(folder) == [".lock", "1", "2"]


# ---- tables directly below the study's folder


def test_an_import_without_a_number_is_read_until_the_next(folder: Path, replies: Any, judgments: Any) -> None:
    _fill(folder, replies, "old", "gone")
    Partition(folder, JUDGMENTS, ("demo", "rater", "m0")).replace(judgments(model="m0", judge="rater"))
    assert _texts(folder) == ["old", "gone"]
    assert [part.names for part in open_import(folder).partitions("judgments")] == [("demo", "rater", "m0")]
    _import(folder, replies, "new")
    assert _texts(folder) == ["new"]
    assert read_imported(folder, "judgments").empty
    assert sorted(path.name for path in folder.iterdir()) == ["imports"]


def _own_work(folder: Path, judgments: Any) -> None:
    """A verdict of a judge that the study runs, and metrics."""
    Partition(folder, JUDGMENTS, ("demo", "rules", "m0")).replace(judgments(model="m0"))
    metrics = dict.fromkeys(("perplexity", "similarity", "self_coherence"), 1.0)
    metrics |= dict.fromkeys(("lexical_sophistication", "lexical_density"), 1.0)
    key = {"suite": "demo", "instance_id": "1", "model": "m0", "generation_id": "g1", "metrics_id": "x", "tokens": 3}
    Partition(folder, REPLY_METRICS, ("demo", "m0")).replace(pd.DataFrame([{**key, **metrics}]))


def test_the_studys_own_work_outlives_an_import(folder: Path, replies: Any, judgments: Any) -> None:
    _fill(folder, replies, "old")
    _own_work(folder, judgments)
    Partition(folder, JUDGMENTS, ("demo", "rater", "m0")).replace(judgments(model="m0", judge="rater"))
    for _ in range(2):
        with new_import(folder, ["rules"]) as root:
            _fill(root, replies, "new")
            Partition(root, JUDGMENTS, ("demo", "rater", "m0")).replace(judgments(model="m0", judge="rater"))
        found = open_import(folder)
        names = [(part.names[1], part.root == folder) for part in found.partitions("judgments", ["rules"])]
        assert names == [("rater", False), ("rules", True)]
        assert len(found.partitions("reply_metrics")) == 1
        assert not (folder / "judgments/demo/rater").exists()


def test_paid_judgments_outlive_an_import_while_the_parameters_do_not_name_their_judge(
    folder: Path, replies: Any, judgments: Any
) -> None:
    _import(folder, replies, "old")
    _own_work(folder, judgments)
    _import(folder, replies, "new")  # the study runs no judge now
    found = open_import(folder)
    assert found.partitions("judgments") == []
    assert [part.names for part in found.partitions("judgments", ["rules"])] == [("demo", "rules", "m0")]


def test_a_crash_before_the_old_rows_are_removed_does_not_double_them(
    folder: Path, replies: Any, judgments: Any
) -> None:
    _import(folder, replies, "new")
    _fill(folder, replies, "old", "older")
    _own_work(folder, judgments)
    Partition(folder, JUDGMENTS, ("demo", "rater", "m0")).replace(judgments(model="m0", judge="rater"))
    assert _texts(folder) == ["new"]
    found = open_import(folder).partitions("judgments", ["rules"])
    assert [part.names for part in found] == [("demo", "rules", "m0")]


def test_an_own_run_of_the_same_name_is_not_removed(folder: Path, replies: Any) -> None:
    _fill(folder, replies, "paid for")
    (folder / "manifests").mkdir()
    (folder / "manifests/1.json").write_text(json.dumps({"resolved": {"kind": "run"}}))
    with pytest.raises(InputError, match="holds an own run of this name"):
        _import(folder, replies, "new")
    assert not (folder / "imports").exists()
    (folder / "manifests/1.json").write_text(json.dumps({"resolved": {"kind": "imported"}}))
    _import(folder, replies, "new")
    assert _texts(folder) == ["new"]
