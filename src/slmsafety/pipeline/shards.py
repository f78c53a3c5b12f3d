"""Which rows are whose when several processes fill one study, on one machine or on many (a shard, as torch says it).

The rule looks at the whole table and at nothing else: not at what is done, nor at the other processes. So those that
start at different times neither overlap nor leave a gap, and as the rule is the same in every stage, a process judges
and measures the replies that it has just made and never waits for another one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import NamedTuple

import pandas as pd

from slmsafety.errors import InputError


class Shard(NamedTuple):
    """The part of the work of process `rank` (from 0) among `world` processes."""

    rank: int = 0
    world: int = 1

    def part(self, worker: int, workers: int) -> Shard:
        """Return the shard of worker k of n within this shard."""
        return Shard(self.rank + self.world * worker, self.world * workers)

    def prefix(self) -> str:
        """Return what a line printed by this process starts with: nothing when it is alone."""
        return f"[process {self.rank} of {self.world}] " if self.world > 1 else ""


ALONE = Shard()
"""The whole work, of a process without others."""


def this_shard(environment: Mapping[str, str] = os.environ) -> Shard:
    """Return this process's shard, as `accelerate launch` and torchrun set it (RANK, WORLD_SIZE); else it is alone.

    Raises InputError when only one of the two is set or they do not fit together.
    """
    given = {name: environment[name] for name in ("RANK", "WORLD_SIZE") if name in environment}
    if not given:
        return ALONE
    said = ", ".join(f"{name}={value}" for name, value in given.items())
    try:
        found = Shard(int(given["RANK"]), int(given["WORLD_SIZE"]))
    except (KeyError, ValueError) as error:
        raise InputError(f"environment has {said}; a process among several needs both as whole numbers") from error
    if not 0 <= found.rank < found.world:
        raise InputError(f"environment has {said}; RANK goes from 0 to WORLD_SIZE - 1")
    return found


def sharded(prompts: pd.DataFrame, shard: Shard) -> pd.DataFrame:
    """Return the rows of the prompts table that belong to a shard, in the table's order.

    The prompts are dealt out by their length: numbers of rows differ by at most one between processes, sums of
    characters by at most the longest prompt. A row's owner does not depend on the order of the table.
    """
    keys = prompts[["suite", "instance_id"]].assign(length=prompts["prompt"].str.len(), row=range(len(prompts)))
    dealt = keys.sort_values(["length", "suite", "instance_id"])["row"].to_numpy()[shard.rank :: shard.world]
    return prompts.iloc[sorted(dealt)]


def take_gpu(environment: Mapping[str, str] = os.environ) -> None:
    """Make the GPU that LOCAL_RANK names this process's own, round robin where there are fewer; nothing on a CPU.

    Raises InputError when LOCAL_RANK is no whole number.
    """
    import torch

    local = environment.get("LOCAL_RANK", "0")
    if not local.isdecimal():
        raise InputError(f"environment has LOCAL_RANK={local}; it must be a whole number")
    if torch.cuda.is_available():
        torch.cuda.set_device(int(local) % torch.cuda.device_count())


def wait_until(ready: Callable[[], bool], what: str, limit_s: float = 1800.0, every_s: float = 0.5) -> None:
    """Return once `ready` says so; raise InputError after `limit_s` seconds, naming what did not come."""
    end = time.monotonic() + limit_s
    while not ready():
        if time.monotonic() > end:
            raise InputError(f"waited {limit_s:.0f} s for {what}; see what became of process 0")
        time.sleep(every_s)


# The processes of a launcher run the same commands in the same order, so that this numbers their ends alike.
_ENDS = count()


def tell_end(shard: Shard, waits: bool, environment: Mapping[str, str] = os.environ, every_s: float = 0.5) -> None:
    """Tell the other processes of a launcher that this one's work is done, and wait for theirs where it `waits`.

    `accelerate launch` and torchrun end all processes as soon as one of them fails, so that one which is to fail waits
    until the others have done their work; if one of them never does, the launcher ends this one. Does nothing where
    no launcher has started this process (RANK and WORLD_SIZE set by hand), which nobody ends then.
    """
    if shard.world == 1 or "TORCHELASTIC_RUN_ID" not in environment:
        return
    from torch.distributed import DistError, rendezvous

    key = f"slmsafety/ended/{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}/{next(_ENDS)}"
    try:
        store, _, _ = next(iter(rendezvous("env://")))
        ended = store.add(key, 1)
        while waits and ended < shard.world:
            time.sleep(every_s)
            ended = store.add(key, 0)
    except DistError:  # the launcher's store is gone, and with it what would end the others
        return
