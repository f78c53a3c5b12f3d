"""The ledger of a study: shared by processes, an upper bound after a kill, whatever a killed writer has left in it."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from slmsafety.errors import InputError
from slmsafety.judging.llm.budget import Budget
from slmsafety.judging.llm.cost import Price, Size
from slmsafety.pipeline.spending import Ledger, Standing, look

PRICE = Price.model_validate({"input": 1, "output": 1, "date": "2026-11-01"})
SIZE = Size(input=1, most_input=10, most_output=10)

# Sets calls aside in a process of its own, one for each line that it is told, and tells whether there was room.
WRITER = """
import sys
from pathlib import Path
from slmsafety.pipeline.spending import Ledger

ledger = Ledger(Path(sys.argv[1]))
for line in sys.stdin:
    what, name, cost = line.split()
    if what == "reserve":
        print(ledger.reserve({f"{ledger.writer}.{name}": int(cost)}, 100), flush=True)
    elif what == "sent":
        print(ledger.send(f"{ledger.writer}.{name}"), flush=True)
    else:
        print(ledger.pay({f"{ledger.writer}.{name}": int(cost)}), flush=True)
"""

FULL = """
import resource, signal, sys
from pathlib import Path
from slmsafety.pipeline.spending import Ledger

ledger = Ledger(Path(sys.argv[1]))
ledger.reserve({"w.1": 1}, None)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
size = (Path(sys.argv[1]) / "ledger").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, size + 5))
try:
    ledger.reserve({"w.2": 1}, None)
except OSError as error:
    print(error.filename, ledger.reserved)
"""


class Writer:
    """A process with the ledger of a folder."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", WRITER, str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def tell(self, line: str) -> str:
        self.process.stdin.write(f"{line}\n")
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "spent")
    yield made
    made.close()


def test_a_ledger_without_entries_leaves_nothing(tmp_path):
    made = Ledger(tmp_path / "spent")
    made.close()
    assert look(tmp_path / "spent") == Standing(0, 0, 0, 0)
    assert not (tmp_path / "spent").exists()


def test_what_runs_before_the_ledger_have_noted_counts(tmp_path):
    (tmp_path / "one.txt").write_text("0.000100000\n0.000000500\n")
    (tmp_path / "two.txt").write_text("0.25\n0.2")  # a killed run's torn last line
    assert look(tmp_path).paid == 250_100_500
    made = Ledger(tmp_path)
    assert not made.reserve({"w.1": 1}, 250_100_500) and made.reserve({"w.1": 1}, 250_100_501)
    made.close()


def test_another_ledger_of_the_folder_sees_each_entry(ledger, tmp_path):
    other = Ledger(tmp_path / "spent")
    ours, theirs = ledger.new_name(), other.new_name()
    assert ledger.reserve({ours: 60}, 100)
    assert not other.reserve({theirs: 60}, 100)
    assert ledger.pay({ours: 20}) == 20
    assert other.reserve({theirs: 60}, 100)
    assert not ledger.reserve({ledger.new_name(): 30}, 100)
    assert (ledger.paid, ledger.reserved) == (20, 60)
    other.close()


def test_what_two_processes_set_aside_never_passes_the_limit(tmp_path, ledger):
    """And what a killed one has sent is counted at its most, what it has not sent at nothing: told once."""
    writers = [Writer(tmp_path / "spent") for _ in range(2)]
    try:
        said = [writer.tell(f"reserve {number} 30") for number in range(2) for writer in writers]
        assert said == ["True", "True", "True", "False"]
        assert writers[0].tell("sent 0 0") == "True"
        assert writers[1].tell("paid 0 25") == "25"
        assert ledger.others_work() and ledger.lost() == (0, 0)
        assert not ledger.reserve({"mine.1": 30}, 100)
        writers[0].kill()
        assert look(tmp_path / "spent") == Standing(25, 30, 30, 1)
        assert not ledger.others_work()
        assert ledger.lost() == (1, 30) and ledger.lost() == (0, 0)
        assert look(tmp_path / "spent") == Standing(55, 0, 0, 0, 30)
        assert ledger.reserve({"mine.1": 45}, 100)
        assert writers[1].tell("reserve 9 1") == "False"
    finally:
        for writer in writers:
            writer.kill()
    later = Ledger(tmp_path / "spent")
    assert later.reserve({"later.1": 1}, None)
    names = {path.stem for path in (tmp_path / "spent").glob("*.lock")}
    assert names == {ledger.writer, later.writer}
    later.close()


def test_requests_of_batches_outlive_their_writer(tmp_path):
    first = Ledger(tmp_path)
    assert first.reserve({"batch/r1": 40, "batch/r2": 40}, 100)
    first.close()
    later = Ledger(tmp_path)
    assert later.lost() == (0, 0) and later.reserved == 80
    assert sorted(later.open_of("batch")) == ["batch/r1", "batch/r2"] and later.open_of("bat") == []
    later.pay({"batch/r1": 10})
    later.close()
    last = Ledger(tmp_path)
    assert last.reserve({"batch/r1": 40, "batch/r2": 40}, 1) is False
    assert last.reserve({"batch/r1": 40, "batch/r2": 40}, None)  # of a note: neither is set aside again
    assert (last.paid, last.reserved) == (10, 40)
    last.close()


@pytest.mark.parametrize("torn", ["open w.1", "open w.1 5", "open w.1 50 "])
def test_a_torn_last_line_is_no_entry(tmp_path, torn):
    first = Ledger(tmp_path)
    assert first.reserve({"batch/r": 40}, None)
    first.close()
    with (tmp_path / "ledger").open("a") as file:
        file.write(torn)
    assert look(tmp_path).sent == 40
    later = Ledger(tmp_path)
    assert later.reserve({"batch/s": 60}, 100)
    later.close()
    assert look(tmp_path) == Standing(0, 100, 0, 2)


@pytest.mark.parametrize(
    "line", ["paid w.1 5", "sent w.1 0", "open w.1 -5", "open w.1", "open w.1 5 6", "gone w.1 5", "", "open w.1 0.5"]
)
def test_any_other_damage_is_one_line_that_names_the_file(tmp_path, line):
    first = Ledger(tmp_path)
    assert first.reserve({"batch/r": 40}, None)
    first.close()
    with (tmp_path / "ledger").open("a") as file:
        file.write(f"{line}\n")
    damaged = Ledger(tmp_path)
    with pytest.raises(InputError, match=r"ledger: '.*' is no entry that can stand here"):
        damaged.reserve({"batch/s": 60}, 100)
    damaged.close()


def test_a_process_that_was_taken_for_killed_damages_nothing(tmp_path):
    """Its lock's file was removed under it: a call that is lost is not sent, and none counts less than it cost."""
    ours, theirs = Ledger(tmp_path), Ledger(tmp_path)
    names = [ours.new_name() for _ in range(3)]
    assert ours.reserve(dict.fromkeys(names, 40), None)
    assert ours.send(names[0]) and ours.send(names[1])
    (tmp_path / f"{ours.writer}.lock").unlink()
    assert not theirs.others_work() and theirs.lost() == (2, 80)
    assert not ours.send(names[2])
    assert ours.pay({names[0]: 10}) == 0 and ours.pay({names[1]: 50}) == 50
    assert (ours.paid, ours.reserved) == (90, 0)
    assert theirs.reserve({"mine.1": 10}, 100) and not theirs.reserve({"mine.2": 1}, 100)
    for ledger in (ours, theirs):
        ledger.close()
    assert look(tmp_path).paid == 90


def test_what_a_process_wrote_after_it_was_taken_for_killed_is_no_damage(tmp_path):
    (tmp_path / "ledger").write_text(
        "open w.1 40\nsent w.1 0\nlost w.1 40\nsent w.1 0\npaid w.1 10\nopen w.2 5\nlost w.2 0\npaid w.2 3\n"
    )
    assert look(tmp_path) == Standing(43, 0, 0, 0, 40)


@pytest.mark.parametrize("part", ["pay", "sync"])
def test_a_ledger_that_cannot_be_written_any_more_lets_go_of_its_lock(tmp_path, monkeypatch, part):
    """Else another ledger of the process would wait for its calls for ever."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    ledger = Ledger(tmp_path)
    budget = Budget(PRICE, 1.0, ledger)
    assert budget.reserve("a", SIZE) and budget.attempt("a")
    monkeypatch.setattr(ledger, part, full)
    with pytest.raises(OSError, match="No space left"):
        budget.close()
    later = Ledger(tmp_path)
    assert not later.others_work() and later.lost() == ((1, 20_000) if part == "pay" else (0, 0))
    assert [path.stem for path in tmp_path.glob("*.lock")] == [later.writer]
    later.close()


def test_a_wait_for_other_processes_is_told_once(tmp_path):
    other, said = Ledger(tmp_path), []
    assert other.reserve({other.new_name(): 40}, None)
    budget = Budget(PRICE, 1.0, Ledger(tmp_path), said.append)
    assert budget.others_work() and budget.others_work()
    other.close()
    assert not budget.others_work()
    budget.close()
    assert len(said) == 1 and "waits for calls of other processes" in said[0]


def test_without_locks_two_writers_keep_each_other_s_entries(tmp_path, monkeypatch):
    def none(handle: object, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    ours, theirs = Ledger(tmp_path), Ledger(tmp_path)
    with ours.turn():  # has read all; then the other one writes
        assert theirs.reserve({"b.1": 7, "batch/r": 5}, None)
        assert ours.reserve({"a.1": 40, "a.2": 3, "batch/r": 5}, None, sent=True)
    ours.pay({"a.1": 10})
    theirs.pay({"b.1": 6})
    assert ours.pay({"batch/r": 4}) == 4 and theirs.pay({"batch/r": 4}) == 0
    for ledger in (ours, theirs):
        assert ledger.pay({"none.1": 1}) == 0
        assert (ledger.paid, ledger.reserved) == (20, 3)
    ours.close()
    theirs.close()
    assert look(tmp_path) == Standing(20, 3, 0, 1)


def test_a_full_disk_leaves_no_half_of_an_entry(tmp_path):
    """A real limit of the system on a file's size, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path / 'ledger'} 1\n"
    assert (tmp_path / "ledger").read_text().endswith("open w.1 1\n")
