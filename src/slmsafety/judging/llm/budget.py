"""What a judge may still spend: a call is set aside at its most expensive, and counted at what it took when it ends.

An account adds up dollars in billionths, as whole numbers, so that no sum drifts and a limit is kept exactly.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from threading import RLock

from slmsafety.judging.llm.cost import Heard, Price, Size, taken
from slmsafety.models.answers import Completion

NANO = 10**9
"""Billionths of a dollar in a dollar."""


class Account:
    """Dollars of calls, in billionths: paid, and set aside for open calls. It is kept in memory alone.

    An open call has a name: WRITER.NUMBER, or BATCH/ID for a request of a batch, which outlives its writer. One that is
    set aside is `sent` once it may cost something.
    """

    def __init__(self) -> None:
        """Start with nothing spent."""
        self.writer = uuid.uuid4().hex[:12]
        self.paid = self.reserved = self.lost_cost = 0
        self._open: dict[str, int] = {}
        self._sent: set[str] = set()
        self._batched: set[str] = set()  # every request of a batch that was ever set aside
        self._lost: dict[str, int] = {}  # what calls of processes that were taken for killed were counted at
        self._numbers, self._mutex = count(), RLock()

    def new_name(self) -> str:
        """Return a name for a call."""
        return f"{self.writer}.{next(self._numbers)}"

    def reserve(self, calls: Mapping[str, int], limit: int | None, sent: bool = False) -> bool:
        """Set calls aside, all or none, and return whether the limit leaves room for them.

        Parameters
        ----------
        calls : mapping of str to int
            Their names and the most that each can cost, in billionths of a dollar.
        limit : int or None
            What may be paid and set aside in all.
        sent : bool
            Whether they are sent at once.
        """
        with self.turn():
            if limit is not None and self.paid + self.reserved + sum(calls.values()) > limit:
                return False
            entries = [("open", name, cost) for name, cost in calls.items() if name not in self._batched]
            self._write([*entries, *([("sent", name, 0) for name in calls] if sent else [])])
            return True

    def send(self, name: str) -> bool:
        """Note that a call which is set aside is sent now; False, and no note, where it is not set aside any more."""
        with self.turn():
            if name not in self._open:
                return False
            self._write([("sent", name, 0)])
            return True

    def pay(self, costs: Mapping[str, int | None]) -> int:
        """Count calls at what they cost instead of what was set aside (None: at that); return the sum.

        Those that are not open any more were counted before, and are left out; unless another process took this one
        for killed, and counted less.
        """
        with self.turn():
            entries = [
                ("paid", name, self._open[name] if cost is None else cost)
                for name, cost in costs.items()
                if name in self._open or (cost or 0) > self._lost.get(name, cost or 0)
            ]
            self._write(entries)
        return sum(cost for _, _, cost in entries)

    def open_of(self, batch: str) -> list[str]:
        """Return the open requests of a batch."""
        with self.turn():
            return [name for name in self._open if name.startswith(f"{batch}/")]

    def others_work(self) -> bool:
        """Return whether another process has calls open, whose end may leave room for more."""
        return False

    def lost(self) -> tuple[int, int]:
        """Return how many calls of killed processes were sent and not settled, and their cost; each is told once."""
        return 0, 0

    def sync(self) -> None:
        """Return when all that was noted so far outlives a power cut."""

    def close(self) -> None:
        """Let go of what the account holds; it opens again by itself."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the account for this thread, and in a `Ledger` for this process, with what others have noted."""
        with self._mutex:
            yield

    def _write(self, entries: list[tuple[str, str, int]]) -> None:
        for entry in entries:
            self._apply(*entry)

    def _apply(self, what: str, name: str, cost: int) -> None:
        if what == "open" and name in self._batched:
            pass  # two processes without locks have noted it
        elif what == "open":
            self._open[name] = cost
            self.reserved += cost
            if "/" in name:
                self._batched.add(name)
        elif name in self._lost and name not in self._open:  # its process was not killed after all
            excess = max(0, cost - self._lost[name])
            self._lost[name] += excess
            self.paid += excess
        elif name in self._batched and name not in self._open:
            pass  # two processes without locks have taken it in
        elif what == "sent":
            if name not in self._open:
                raise KeyError(name)
            self._sent.add(name)
        else:
            self.reserved -= self._open.pop(name)
            self._sent.discard(name)
            self.paid += cost
            if what == "lost":
                self.lost_cost += cost
                self._lost[name] = cost


class Budget:
    """The `Toll` of a judge's calls, one run after another. Without a price nothing is counted.

    Every attempt is paid for by itself. The first one of a call is set aside before the call is handed to the client,
    a further one when it is due.
    """

    def __init__(
        self,
        price: Price | None,
        limit: float | None = None,
        account: Account | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Take the price, the most dollars in all, where they are noted (None: in memory), and who prints lines."""
        self.price, self.limit = price, limit
        self.calls = self._spent = 0
        self._account, self._say = account or Account(), say
        self._limit = None if limit is None else int(limit * NANO)
        self._sizes: dict[Hashable, Size] = {}
        self._waiting: dict[Hashable, tuple[str, int]] = {}  # set aside at so much, and not sent yet
        self._sent: dict[Hashable, str] = {}
        self._stretch, self._told = 1.0, False
        self._heard = self._waits = False

    @property
    def spent(self) -> float:
        """The dollars of all calls that have ended, earlier runs' and other processes' included."""
        return self._account.paid / NANO

    @property
    def own(self) -> float:
        """The dollars of the calls of this budget that have ended."""
        return self._spent / NANO

    @property
    def unsure(self) -> bool:
        """Whether no completion has said yet what a call takes, by which a limit is kept: few may be under way then."""
        return self.price is not None and self._limit is not None and not self._heard

    def reserve(self, key: Hashable, size: Size) -> bool:
        """Return whether the limit leaves room for a call, and set its price aside if it does."""
        if self.price is None:
            return True
        name, most = self._account.new_name(), self._most(size)
        if not self._account.reserve({name: most}, self._limit):
            return False
        self._sizes[key], self._waiting[key] = size, (name, most)
        return True

    def attempt(self, key: Hashable) -> bool:
        """Return whether an attempt may be sent, and note that it is.

        What was set aside before the server took more than was thought then, is set aside anew.
        """
        if self.price is None:
            return True
        most = self._most(self._sizes[key])
        name, aside = self._waiting.pop(key, (None, 0))
        if name is None or aside < most or not self._account.send(name):
            with self._account.turn():
                self._account.pay({} if name is None else {name: 0})
                name = self._account.new_name()
                if not self._account.reserve({name: most}, self._limit, sent=True):
                    return False
        self._sent[key] = name
        self.calls += 1
        return True

    def ended(self, key: Hashable, heard: Heard) -> None:
        """Count an attempt at what it has heard."""
        if self.price is not None and (name := self._sent.get(key)) is not None:
            self._spent += self._account.pay({name: self._cost(self._sizes[key], heard)})
            del self._sent[key]  # what could not be noted is tried again at the end

    def settle(self) -> None:
        """Count what was sent and never heard of at its most, and take back what was set aside and never sent."""
        for key in list(self._sent):
            self.ended(key, None)
        if self._waiting:
            self._account.pay({name: 0 for name, _ in self._waiting.values()})
        self._waiting.clear()
        self._sizes.clear()

    def others_work(self) -> bool:
        """Return whether another process of the study has calls open, whose end may leave room for more."""
        if self.price is None or not self._account.others_work():
            return False
        if not self._waits:
            self._waits = True
            self._say("waits for calls of other processes, for which what is left of max_cost is set aside")
        return True

    def sync(self) -> None:
        """Return when all that was counted so far outlives a power cut; to be called before answers are used."""
        if self.price is not None:
            self._account.sync()

    def reserve_batch(self, batch: str, sizes: Mapping[str, Size], forced: bool = False) -> bool:
        """Return whether the limit leaves room for a batch's requests, and set their prices aside if it does.

        Parameters
        ----------
        batch : str
            The batch's name.
        sizes : mapping of str to Size
            The requests by their ids. Those that were set aside before, or counted, are not set aside again.
        forced : bool
            Whether they are set aside whatever the limit says: they are on their way already.
        """
        if self.price is None:
            return True
        costs = {f"{batch}/{request}": self._most(size) for request, size in sizes.items()}
        fits = self._account.reserve(costs, None if forced else self._limit)
        self.sync()
        return fits

    def room(self) -> Callable[[Size], bool]:
        """Return a function that says whether there is room for one more request beside those it was asked about."""
        if self.price is None or self._limit is None:
            return lambda size: True
        with self._account.turn():
            left = self._limit - self._account.paid - self._account.reserved

        def fits(size: Size) -> bool:
            nonlocal left
            left -= self._most(size)
            return left >= 0

        return fits

    def ended_batch(self, batch: str, heard: Mapping[str, tuple[Size | None, Heard]]) -> None:
        """Count requests of a batch, by their ids, at what they have heard; those counted before are left out.

        One whose size is not known any more counts at what the server tells, or at what was set aside for it.
        """
        if self.price is None:
            return
        costs = {
            f"{batch}/{request}": self._told_cost(answer) if size is None else self._cost(size, answer)
            for request, (size, answer) in heard.items()
        }
        self._account.reserve(dict.fromkeys(costs, 0), None)  # what was sent without a price
        self._spent += self._account.pay(costs)
        self.calls += len(costs)
        self.sync()

    def release_batch(self, batch: str) -> None:
        """Take back what is still set aside for a batch that will answer no more."""
        if self.price is not None:
            self._account.pay(dict.fromkeys(self._account.open_of(batch), 0))
            self.sync()

    def close(self) -> None:
        """Let go of what the dollars are noted in, also where they cannot be noted any more."""
        if self.price is not None:
            try:
                self.settle()
            finally:
                self._account.close()

    def tell_lost(self) -> None:
        """Say what killed processes have left unsettled, if anything."""
        calls, cost = self._account.lost() if self.price is not None else (0, 0)
        if calls:
            self._say(
                f"{calls} calls of an earlier run ended without being settled; counted at their most expensive, "
                f"${cost / NANO:.4f}"
            )

    def _most(self, size: Size) -> int:
        """What an attempt can cost at most, going by the most that a server has taken so far."""
        return math.ceil(self._stretch * self._billionths(size.most_input, size.most_output))

    def _cost(self, size: Size, heard: Heard) -> int:
        found = taken(size, heard)
        if found.absurd and not self._told:
            self._told = True
            self._say(
                "the server's token counts are more than a call can have; such calls count at their most expensive"
            )
        cost, most = self._billionths(found.input, found.output), self._billionths(size.most_input, size.most_output)
        if not isinstance(heard, Completion):
            return math.ceil(self._stretch * cost)
        self._heard = True
        if cost > self._stretch * most:
            self._stretch = cost / most
        return cost

    def _told_cost(self, heard: Heard) -> int | None:
        """What an answer costs by itself; None where only its request would tell."""
        found = taken(Size(0, 0, 0), heard)
        if isinstance(heard, Completion):
            known = heard.input_tokens is not None and heard.output_tokens is not None and not found.absurd
            return self._billionths(found.input, found.output) if known else None
        return None if taken(Size(1, 1, 1), heard).input else 0

    def _billionths(self, input_tokens: int, output_tokens: int) -> int:
        assert self.price is not None
        return math.ceil(round(self.price.cost(input_tokens, output_tokens) * NANO, 3))
