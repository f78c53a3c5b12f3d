from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from slmsafety.errors import InputError
from slmsafety.records import store
from slmsafety.records.files import atomic_file
from slmsafety.records.schema import JUDGMENTS, PROMPTS, RESPONSES, typed
from slmsafety.records.store import Partition, partitions, read_journal, read_table


def _responses(root: Path, model: str = "tiny") -> Partition:
    return Partition(root, RESPONSES, ("demo", model))


def _judgments(root: Path) -> Partition:
    return Partition(root, JUDGMENTS, ("demo", "rules", "tiny"))


def _append(part: Partition, *frames: pd.DataFrame) -> Path:
    """Append each frame through one writer and return its journal."""
    before = set(part.journal.glob("*.jsonl"))
    with part.writer() as writer:
        for frame in frames:
            writer.append(frame)
    (made,) = set(part.journal.glob("*.jsonl")) - before
    return made


# Journals go by their numbers; a clock that says otherwise must decide nothing.
def _age(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


# ---- what survives

ODD_TEXTS = [
    "",
    " ",
    "plain",
    "\u00fcml\u00e4ut \u4e2d\u6587 \N{GRINNING FACE}",
    "line\nbreak\r\nand\rreturn",
    "\u2028\u2029\x85\x0b\x0c\x1c",
    "nul\x00inside",
    '"quoted" \\ {"json": 1}\t',
    "nan",
    "None",
    "NA",
    "x" * 2_000_000,
]


@pytest.mark.parametrize("text", ODD_TEXTS, ids=lambda text: ascii(text[:12]))
def test_texts_survive_the_journal_and_the_file(text: str, tmp_path: Path, replies: Any) -> None:
    part = _responses(tmp_path)
    _append(part, replies(response=text, meta=text))
    assert part.read()["response"].tolist() == [text]
    part.compact()
    assert part.read()[["response", "meta"]].to_numpy().tolist() == [[text, text]]


def test_kinds_and_missing_values_survive_the_journal_and_the_file(tmp_path: Path, judgments: Any) -> None:
    rows = pd.concat(
        [
            judgments(instance_id="1", label=0, raw_value=0.1 + 0.2, input_tokens=2**53 + 1),
            judgments(instance_id="2", label=None, raw_value=None, input_tokens=None, raw_text=None),
            judgments(instance_id="3", label=2, raw_value=float("inf"), input_tokens=0, raw_text=""),
            judgments(instance_id="4", label=float("nan"), raw_value=float("nan"), reason=float("nan")),
        ]
    )
    part = _judgments(tmp_path)
    _append(part, rows)
    for read in (part.read(), Partition.read(part)):
        assert read["label"].tolist() == [0, pd.NA, 2, pd.NA]
        assert read["raw_value"].tolist()[::2] == [0.30000000000000004, float("inf")]
        assert read["raw_value"].isna().tolist() == [False, True, False, True]
        assert read["input_tokens"].tolist() == [2**53 + 1, pd.NA, 0, 4]
        assert read["raw_text"].isna().tolist() == [False, True, False, False]
        assert read["raw_text"].tolist()[2] == ""
        assert read["reason"].isna().tolist() == [False, False, False, True]
        assert read.dtypes.astype(str).to_dict() == JUDGMENTS.dtypes
        part.compact()


def test_bools_survive_and_a_missing_one_stays_missing(tmp_path: Path, replies: Any) -> None:
    part = _responses(tmp_path)
    flags = [True, False, None]
    _append(part, *[replies(instance_id=str(i), prompt_truncated=flag) for i, flag in enumerate(flags)])
    journal = part.read()["prompt_truncated"]
    part.compact()
    for column in (journal, part.read()["prompt_truncated"]):
        assert str(column.dtype) == "boolean"
        assert column.tolist() == [True, False, pd.NA]


_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
_ROW = st.fixed_dictionaries(
    {
        "instance_id": _TEXT.filter(bool),
        "response": st.none() | _TEXT,
        "prompt_tokens": st.none() | st.integers(-(2**63), 2**63 - 1),
        "prompt_truncated": st.none() | st.booleans(),
        "meta": _TEXT,
    }
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(_ROW, min_size=1, max_size=6, unique_by=lambda row: row["instance_id"]), cut=st.integers(0, 6))
def test_any_rows_come_back_as_they_were(rows: list[dict[str, Any]], cut: int) -> None:
    fixed = {"suite": "demo", "model": "tiny", "generation_id": "g", "output_tokens": 1, "finish_reason": "stop"}
    frame = pd.DataFrame([{**fixed, **row} for row in rows], dtype=object)
    with tempfile.TemporaryDirectory() as folder:
        part = _responses(Path(folder))
        path = _append(part, *[piece for piece in (frame.iloc[:cut], frame.iloc[cut:]) if len(piece)])
        records, torn = read_journal(path)
        assert torn == 0
        assert [{name: record[name] for name in row} for record, row in zip(records, rows, strict=True)] == rows
        expected = sorted(rows, key=lambda row: row["instance_id"])
        before = part.read()
        assert before["instance_id"].tolist() == [row["instance_id"] for row in expected]
        part.compact()
        after = part.read()
    assert_frame_equal(before, after)
    for name in ("response", "prompt_tokens", "prompt_truncated", "meta"):
        wanted = [row[name] for row in expected]
        assert [None if pd.isna(value) else value for value in after[name]] == wanted


# ---- what is refused

BAD_ROWS = {
    "lone surrogate": {"response": "a\ud83d"},
    "no key": {"instance_id": ""},
    "unknown word": {"finish_reason": "halt"},
    "fraction": {"output_tokens": 2.5},
    "another model": {"model": "other"},
    "another suite": {"suite": "other"},
}


@pytest.mark.parametrize("changes", BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_refused_and_nothing_of_its_batch_is_kept(
    changes: dict[str, Any], tmp_path: Path, replies: Any
) -> None:
    part = _responses(tmp_path)
    with part.writer() as writer:
        writer.append(replies())
        with pytest.raises(InputError) as caught:
            writer.append(pd.concat([replies(instance_id="2"), replies(**{"instance_id": "3", **changes})]))
        assert "row 1" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
        writer.append(replies(instance_id="4"))
    assert part.read()["instance_id"].tolist() == ["1", "4"]
    part.compact()
    assert part.read()["instance_id"].tolist() == ["1", "4"]


def test_replace_refuses_a_bad_row_and_keeps_the_old_file(tmp_path: Path, replies: Any) -> None:
    part = _responses(tmp_path)
    part.replace(replies())
    old = part.parquet.read_bytes()
    for changes in BAD_ROWS.values():
        with pytest.raises(InputError, match=r"tiny\.parquet"):
            part.replace(replies(**changes))
    assert part.parquet.read_bytes() == old
    assert [path.name for path in part.parquet.parent.iterdir()] == ["tiny.parquet"]


@pytest.mark.parametrize(
    "name", ["a/b", "../up", "..", "", ".hidden", "a b", "a\n", "a\x00", "\u00e9", "-x", "n" * 201]
)
def test_names_that_are_no_plain_file_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model .* cannot name a file") as caught:
        _responses(tmp_path, name)
    assert len(str(caught.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_unknown_tables_and_columns_are_named(tmp_path: Path, replies: Any) -> None:
    _responses(tmp_path).replace(replies())
    with pytest.raises(InputError, match="unknown table 'respones'; did you mean 'responses'"):
        read_table(tmp_path, "respones")
    with pytest.raises(InputError, match="unknown column 'respnse' in table responses; did you mean 'response'"):
        read_table(tmp_path, "responses", ["respnse"])


# ---- damage


def test_a_torn_last_record_is_dropped_and_counted(tmp_path: Path, replies: Any) -> None:
    part = _responses(tmp_path)
    path = _append(part, replies(), replies(instance_id="2"))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(first, len(whole)):
        path.write_bytes(whole[:length])
        records, torn = read_journal(path)
        assert [record["instance_id"] for record in records] == ["1"]
        assert torn == part.torn() == int(length > first)
    assert part.read()["instance_id"].tolist() == ["1"]
    _append(part, replies(instance_id="2"))
    part.compact()
    assert part.read()["instance_id"].tolist() == ["1", "2"]
    assert part.torn() == 0


@pytest.mark.parametrize("damage", [b'{"suite": "de', b"", b"[1, 2]", b"null", b"7", b"\xff\x00", b'"ab"'])
def test_a_damaged_record_before_the_end_names_file_and_line(damage: bytes, tmp_path: Path, replies: Any) -> None:
    part = _responses(tmp_path)
    path = _append(part, replies(), replies(instance_id="2"), replies(instance_id="3"))
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], damage, *lines[2:]]))
    for read in (part.read, part.compact, part.torn):
        with pytest.raises(InputError) as caught:
            read()
        assert str(caught.value) == f"{path}: line 2 is damaged; delete the file to make its rows again"
    assert not part.parquet.exists()
    assert path.exists()


@pytest.mark.parametrize("record", [{}, {"a": 1}, {"suite": "demo", "instance_id": "1"}, {"prompt_tokens": "x"}])
def test_a_journal_of_something_else_is_named(record: dict[str, Any], tmp_path: Path, replies: Any) -> None:
    part = _responses(tmp_path)
    path = _append(part, replies())
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(InputError) as caught:
        part.read()
    assert str(caught.value).startswith(f"{path}: holds no rows of responses")


def test_a_torn_file_is_named(tmp_path: Path, replies: Any) -> None:
    part = _responses(tmp_path)
    part.replace(replies())
    whole = part.parquet.read_bytes()
    for data in (b"", whole[:100], whole[:-1], whole[:-40] + b"\xff" * 30 + whole[-10:], b"no Parquet"):
        part.parquet.write_bytes(data)
        with pytest.raises(InputError) as caught:
            part.read()
        assert str(caught.value).startswith(f"{part.parquet}: torn or not a Parquet file; delete it")


class _Full(io.BytesIO):
    """A disk that takes 10 bytes and is full then; `free` empties it."""

    room: int | None = 10

    def write(self, data: Any) -> int:
        if self.room is None:
            return super().write(data)
        if self.room == 0:
            raise OSError(28, "No space left on device")
        taken, self.room = super().write(data[: self.room]), 0
        return taken


@pytest.mark.parametrize("opening", ["writer", "compact", "replace"])
def test_files_that_killed_writers_left_go_at_the_next_opening(opening: str, tmp_path: Path, replies: Any) -> None:
    part = _responses(tmp_path)
    part.replace(replies())
    strays = [part.parquet.with_name(name) for name in (".tiny.parquet.abcd_123", ".tiny.parquet.zzzzzzzz")]
    kept = [part.parquet.with_name(name) for name in (".tiny.lock", ".tiny2.parquet.abcd_123", ".tiny.parquet.lock")]
    for path in (*strays, *kept):
        path.write_bytes(b"half")
    with atomic_file(part.parquet) as beside:  # a writer that lives
        if opening == "writer":
            _append(part, replies(instance_id="2"))
        elif opening == "compact":
            part.compact()
        else:
            part.replace(replies())
        assert not any(path.exists() for path in strays)
        assert all(path.exists() for path in (*kept, Path(beside.name)))
        beside.write(part.parquet.read_bytes())
    assert part.read()["instance_id"].tolist()[0] == "1"


def test_a_full_disk_leaves_no_half_record(tmp_path: Path, replies: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # There is no full disk at hand: a buffer in memory takes its place, and fsync has nothing to do.
    monkeypatch.setattr(_Full, "fileno", lambda self: 0)
    monkeypatch.setattr(store.os, "fsync", lambda handle: None)
    disk = _Full()
    writer = store.Writer(disk, _responses(tmp_path), "disk")
    with pytest.raises(OSError, match="No space left") as caught:
        writer.append(replies())
    assert caught.value.filename == "disk"
    assert disk.getvalue() == b""
    disk.room = None
    writer.append(replies(instance_id="2"))
    assert json.loads(disk.getvalue())["instance_id"] == "2"


# ---- one row per key


def test_rows_held_twice_count_once(tmp_path: Path, replies: Any) -> None:
    part = _responses(tmp_path)
    path = _append(part, replies(), replies(instance_id="2"))
    journal = path.read_bytes()
    part.compact()
    compacted = part.parquet.read_bytes()
    # As after a crash between the rename and the deletion.
    path.parent.mkdir()
    path.write_bytes(journal)
    assert part.read()["instance_id"].tolist() == ["1", "2"]
    assert len(read_table(tmp_path, "responses")) == 2
    part.compact()
    assert part.parquet.read_bytes() == compacted
    assert not part.journal.exists()


@pytest.mark.parametrize("finished_first", [True, False])
@pytest.mark.parametrize("compacted", [True, False])
def test_an_error_never_wins_over_a_finished_row(
    finished_first: bool, compacted: bool, tmp_path: Path, judgments: Any
) -> None:
    part = _judgments(tmp_path)
    rows = [judgments(), judgments(status="error", label=None, reason="timeout")]
    for age, row in enumerate(rows if finished_first else rows[::-1], start=1):
        _age(_append(part, row), 100 - age)
        if compacted:
            part.compact()
    (read,) = part.read().to_dict("records")
    assert (read["status"], read["label"]) == ("ok", 2)
    # The status decides although it is not among the columns asked for.
    assert part.read(["reason"]).to_numpy().tolist() == [["demo", "1", "tiny", "g1", 0, "j1", "refusal"]]


@pytest.mark.parametrize("compacted", [True, False])
def test_the_later_of_two_errors_or_of_two_finished_rows_wins(compacted: bool, tmp_path: Path, judgments: Any) -> None:
    part = _judgments(tmp_path)
    for age, reason in enumerate(["first", "second"], start=1):
        rows = [judgments(status="error", label=None, reason=reason), judgments(instance_id="2", reason=reason)]
        _age(_append(part, *rows), 100 - age)
        if compacted and reason == "first":
            part.compact()
    assert part.read()["reason"].tolist() == ["second", "second"]
    part.compact()
    assert part.read()["reason"].tolist() == ["second", "second"]


def test_journals_count_from_one_and_go_by_number_not_by_name(tmp_path: Path, judgments: Any) -> None:
    part = _judgments(tmp_path)
    for number in range(1, 12):
        path = _append(part, judgments(reason=str(number)))
        assert path.suffixes[-2:] == [f".{number}", ".jsonl"]
        _age(path, 100 - number)
    assert part.read()["reason"].tolist() == ["11"]
    part.compact()
    assert _append(part, judgments(reason="later")).suffixes[-2:] == [".1", ".jsonl"]
    assert part.read()["reason"].tolist() == ["later"]


def test_journals_of_before_they_had_numbers_come_first_by_their_clock(tmp_path: Path, judgments: Any) -> None:
    part = _judgments(tmp_path)
    for name, clock in (("10.0.0.1-77-a.jsonl", 2), ("9-77-a.jsonl", 3), ("host.5-77-a.jsonl", 1)):
        path = _append(part, judgments(reason=name)).rename(part.journal / name)
        _age(path, clock)
    assert part.read()["reason"].tolist() == ["9-77-a.jsonl"]
    _age(_append(part, judgments(reason="numbered")), 0)
    assert part.read()["reason"].tolist() == ["numbered"]


def test_another_generation_id_adds_rows(tmp_path: Path, replies: Any) -> None:
    part = _responses(tmp_path)
    _append(part, replies())
    part.compact()
    _append(part, replies(generation_id="g0", response="Another."))
    part.compact()
    assert part.read()[["generation_id", "response"]].to_numpy().tolist() == [["g0", "Another."], ["g1", "A reply."]]


# ---- compaction


def test_any_order_of_arrival_gives_the_same_bytes(tmp_path: Path, replies: Any) -> None:
    ids = ["10", "2", "1", "\u00e9", "B", "a", ""]
    rows = [replies(instance_id=i, generation_id=g) for i in ids if i for g in ("g2", "g1")]
    made = []
    for number, order in enumerate([rows, rows[::-1], rows[5:] + rows[:5]]):
        part = _responses(tmp_path / str(number))
        if number == 0:
            _append(part, pd.concat(order))
        else:
            _append(part, *order[:4])
            if number == 2:
                part.compact()
            _append(part, pd.concat(order[4:], ignore_index=True))
        made.append(part.compact().read_bytes())
    assert made[0] == made[1] == made[2]
    keys = _responses(tmp_path / "0").read()[["instance_id", "generation_id"]].to_numpy().tolist()
    assert keys == sorted(keys)
    assert len(keys) == 12


def test_compacting_again_changes_nothing(tmp_path: Path, replies: Any) -> None:
    part = _responses(tmp_path)
    _append(part, replies())
    path = part.compact()
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert part.compact() == path
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert not part.journal.exists()
    assert not [name for name in os.listdir(path.parent) if name not in ("tiny.parquet", ".tiny.lock")]


def test_compacting_nothing_gives_an_empty_table(tmp_path: Path) -> None:
    part = _responses(tmp_path)
    assert part.read().empty
    part.compact()
    assert_frame_equal(part.read(), typed(pd.DataFrame(), RESPONSES))
    assert_frame_equal(read_table(tmp_path / "absent", "responses"), typed(pd.DataFrame(), RESPONSES))


# ---- several partitions


def test_whether_a_column_has_values(tmp_path: Path, replies: Any) -> None:
    """A file's end tells; of rows that are still written nothing is known, and of a column that a file lacks none."""
    part, plain = _responses(tmp_path), pd.concat([replies(), replies(instance_id="2")], ignore_index=True)
    assert not part.has_values("answer_start")
    part.replace(plain)
    assert part.has_values("response") and not part.has_values("answer_start")
    frame = pd.read_parquet(part.parquet)
    frame.drop(columns="answer_start").to_parquet(part.parquet)
    assert not part.has_values("answer_start")
    part.replace(plain.assign(answer_start=[None, 0]))
    assert part.has_values("answer_start")
    part.replace(plain)
    _append(part, replies(instance_id="3", answer_start=2, answer_end=3))
    assert part.has_values("answer_start")


def test_a_table_is_all_its_partitions_sorted(tmp_path: Path, replies: Any) -> None:
    for model in ("b.1", "a"):
        _append(_responses(tmp_path, model), replies(model=model, instance_id="2"), replies(model=model))
    _responses(tmp_path, "a").compact()
    assert [part.names for part in partitions(tmp_path, "responses")] == [("demo", "a"), ("demo", "b.1")]
    table = read_table(tmp_path, "responses", ["response"])
    assert list(table.columns) == [*RESPONSES.key, "response"]
    assert table[["instance_id", "model"]].to_numpy().tolist() == [["1", "a"], ["1", "b.1"], ["2", "a"], ["2", "b.1"]]
    assert partitions(tmp_path, PROMPTS.name) == []


# ---- several writers

_CHILD = """
import sys
from pathlib import Path
import pandas as pd
from slmsafety.records.schema import RESPONSES
from slmsafety.records.store import Partition

root, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
part = Partition(root, RESPONSES, ("demo", "tiny"))
fixed = dict(suite="demo", model="tiny", generation_id="g", response="r", prompt_tokens=1, output_tokens=1,
             finish_reason="stop", prompt_truncated=False, meta="{}")
for start in range(0, count, 5):
    with part.writer() as writer:
        for number in range(start, start + 5):
            writer.append(pd.DataFrame([{**fixed, "instance_id": f"{name}-{number:03d}"}]))
    part.compact()
    assert len(part.read()) >= start + 5
"""


def test_processes_that_write_and_compact_at_once_lose_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CHILD, str(tmp_path)]
    children = [subprocess.Popen([*command, name, "60"], stderr=subprocess.PIPE, text=True) for name in "abc"]
    part, seen = _responses(tmp_path), 0
    while any(child.poll() is None for child in children):
        found = len(part.read(["instance_id"]))
        assert found >= seen
        seen = found
    for child in children:
        _, errors = child.communicate()
        assert child.returncode == 0, errors
    assert part.read()["instance_id"].tolist() == [f"{name}-{number:03d}" for name in "abc" for number in range(60)]
    part.compact()
    assert len(part.read()) == 180
    assert not part.journal.exists()


def test_a_reader_beside_replacements_sees_one_whole_file(tmp_path: Path, replies: Any) -> None:
    """The two versions differ in every page, so that parts of both together cannot be read."""
    part = _responses(tmp_path)
    versions = [
        pd.concat([replies(instance_id=f"{number:03d}", response=letter * size) for number in range(40)])
        for letter, size in (("a", 5), ("b", 400))
    ]
    part.replace(versions[0])
    stop = threading.Event()

    def write() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            part.replace(versions[turn % 2])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(150):
            assert part.read(["response"])["response"].nunique() == 1
    finally:
        stop.set()
        writer.join()


def test_compacting_beside_a_writer_keeps_its_journal(tmp_path: Path, replies: Any) -> None:
    part = _responses(tmp_path)
    ended = _append(part, replies(instance_id="0"))
    with part.writer() as writer:
        writer.append(replies())
        part.compact()
        assert not ended.exists()
        writer.append(replies(instance_id="2"))
        assert part.read()["instance_id"].tolist() == ["0", "1", "2"]
    assert part.read()["instance_id"].tolist() == ["0", "1", "2"]
    part.compact()
    assert part.read()["instance_id"].tolist() == ["0", "1", "2"]
    assert not part.journal.exists()


def test_a_reader_beside_a_compaction_sees_every_row(
    tmp_path: Path, replies: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compaction falls between any two steps of a reader: before it lists, reads, or opens the file."""
    for step in ("_journals", "_read_journal", "_read_parquet"):
        part = _responses(tmp_path / step)
        part.replace(replies(instance_id="0"))
        _append(part, replies())
        _append(part, replies(instance_id="2"))
        original = getattr(Partition, step)

        def beside(self: Partition, *given: Any, original: Any = original, step: str = step) -> Any:
            monkeypatch.undo()
            found = original(self, *given) if step == "_journals" else None
            self.compact()
            return original(self, *given) if found is None else found

        monkeypatch.setattr(Partition, step, beside)
        assert part.read()["instance_id"].tolist() == ["0", "1", "2"], step


def test_without_locks_no_journal_is_deleted(tmp_path: Path, replies: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*given: Any) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(store.fcntl, "flock", none)
    part = _responses(tmp_path)
    path = _append(part, replies())
    part.compact()
    part.compact()
    assert path.exists()
    assert part.read()["instance_id"].tolist() == ["1"]
