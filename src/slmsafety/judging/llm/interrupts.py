"""Ctrl-C held back while what was paid for becomes rows."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_interrupt() -> Iterator[list[KeyboardInterrupt]]:
    """Hold Ctrl-C back until the block ends; the list is not empty once it has come.

    Nothing is held in another thread than the main one, where it never comes, and where the program has a way of its
    own with it.
    """
    came: list[KeyboardInterrupt] = []
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield came
        return
    signal.signal(signal.SIGINT, lambda number, frame: came.append(KeyboardInterrupt()))
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
