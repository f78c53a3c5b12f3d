"""Several processes on this machine that share a piece of work. The first error stops all of them.

Each worker has a pipe of its own to its parent, without a lock that a killed process could hold, and its end tells
that the worker has ended. Workers do not hear Ctrl-C: it reaches the parent, which ends them.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple, TypeVar

from slmsafety.errors import InputError, refused_by_system

T = TypeVar("T")
Report = Callable[[int, str], None]
"""Takes the number of rows that were finished since the last call, and what they belong to."""


class _Done(NamedTuple):
    """Rows that a worker has finished."""

    rows: int
    text: str


class _Returned(NamedTuple):
    """What a worker's target returned."""

    value: Any


class _Failed(NamedTuple):
    """What ended a worker: the message of an InputError, or the traceback of any other error."""

    message: str
    is_input_error: bool


def work_on_cpu(key: str) -> None:
    """Raise InputError on a GPU, which every worker would take for its own; `key` is the study's that asks for them."""
    import torch

    if torch.cuda.is_available():
        raise InputError(f"{key} are for CPUs; use one, or accelerate launch for several GPUs")


def run_workers(target: Callable[[int, Report], T], workers: int, report: Report) -> list[T]:
    """Run `target(worker, report)` in as many new processes, numbered from 0, and return what each returned.

    `target` is pickled: a function at the top of a module, or a partial of one. Each worker computes with its share of
    this process's threads; what it reports is passed on to `report` here. Raises InputError for the first InputError
    of a worker and for a worker that was killed, RuntimeError with the worker's traceback for any other error; the
    workers that are left are ended then, as they are by KeyboardInterrupt. A worker whose parent is gone stops at its
    next report.
    """
    context = get_context("spawn")
    started: dict[Connection, SpawnProcess] = {}
    try:
        with _children_get(max(1, _threads() // workers)):
            for worker in range(workers):
                ours, theirs = context.Pipe(duplex=False)
                arguments = (target, worker, os.getpid(), theirs)
                process = context.Process(target=_work, args=arguments, name=f"worker {worker + 1}", daemon=True)
                process.start()
                theirs.close()  # else its end would never be seen here
                started[ours] = process
        return _follow(dict(started), report)
    finally:
        for ours, process in started.items():
            _end(process)
            ours.close()


def _follow(running: dict[Connection, SpawnProcess], report: Report) -> list[Any]:
    """Pass on what the workers report until all have ended, or raise the first error; return what they returned."""
    returned = {}
    while running:
        for pipe in wait(list(running)):
            assert isinstance(pipe, Connection)
            try:
                message = pipe.recv()
            except (EOFError, OSError):  # OSError: killed in the middle of a message
                _check_end(running.pop(pipe))
                continue
            if isinstance(message, _Failed):
                if message.is_input_error:
                    raise InputError(message.message)
                raise RuntimeError(f"{running[pipe].name} failed:\n{message.message}")
            if isinstance(message, _Returned):
                returned[running[pipe].name] = message.value
                continue
            report(*message)
    return list(returned.values())


def _check_end(process: SpawnProcess) -> None:
    """Raise InputError unless a worker that says no more has finished its work."""
    process.join()
    code = process.exitcode or 0
    if code < 0:
        raise InputError(
            f"{process.name} was killed (signal {-code}), as happens when memory runs out; finished rows are kept, "
            "the same command goes on from there; fewer workers or a smaller batch_size need less memory"
        )
    if code > 0:
        raise InputError(
            f"{process.name} ended with exit code {code} before its work began; a script that starts workers needs "
            "the line: if __name__ == '__main__':"
        )


def _work(target: Callable[[int, Report], Any], worker: int, parent: int, pipe: Connection) -> None:
    """Run the target in this new process, and tell the parent how it goes."""

    def report(rows: int, text: str) -> None:
        _send(pipe, _Done(rows, text))
        if os.getppid() != parent:
            raise SystemExit(1)

    try:
        _send(pipe, _Returned(target(worker, report)))
    except InputError as error:
        _send(pipe, _Failed(str(error), True))
    except OSError as error:
        _send(pipe, _Failed(refused_by_system(error), True))
    except Exception as error:
        _send(pipe, _Failed(traceback.format_exc(), False))
        raise SystemExit(1) from error


def _send(pipe: Connection, message: _Done | _Returned | _Failed) -> None:
    """Send a message to the parent, or end with it when it has gone."""
    try:
        pipe.send(message)
    except BrokenPipeError:
        raise SystemExit(1) from None


@contextmanager
def _children_get(threads: int) -> Iterator[None]:
    """Let the processes that start meanwhile compute with so many threads and inherit a blocked SIGINT.

    torch reads the number once, when it is imported, which may be before a worker's first own line.
    """
    resource_tracker.ensure_running()  # when it starts later, on its own, it lifts the block
    before, given = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}), os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(threads)
    try:
        yield
    finally:
        os.environ.pop("OMP_NUM_THREADS")
        os.environ.update({} if given is None else {"OMP_NUM_THREADS": given})
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _threads() -> int:
    """How many threads this process may use: OMP_NUM_THREADS where it is set, else one for each of its CPUs."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(given) if given.isdecimal() else own


def _end(process: SpawnProcess) -> None:
    """End a worker that still runs; what it has written of a row is a torn record, which the store drops."""
    process.terminate()
    process.join(5)
    if process.exitcode is None:
        process.kill()
        process.join()
