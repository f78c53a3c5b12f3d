"""Shares of a prompts table: nobody's row is lost or done twice, and the work is dealt evenly."""

from __future__ import annotations

from itertools import chain

import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slmsafety.errors import InputError
from slmsafety.pipeline.shards import Shard, sharded, take_gpu, this_shard, wait_until

quick = settings(max_examples=20, deadline=None, derandomize=True)
lengths = st.lists(st.integers(0, 300), max_size=30)
worlds = st.integers(1, 9)


def prompt_frame(sizes: list[int]) -> pd.DataFrame:
    """A prompts table with prompts of these lengths."""
    rows = [("s", f"i{number:03}", "x" * size) for number, size in enumerate(sizes)]
    return pd.DataFrame(rows, columns=["suite", "instance_id", "prompt"])


def ids(frame: pd.DataFrame) -> list[str]:
    return frame["instance_id"].tolist()


@quick
@given(lengths, worlds)
def test_shares_are_disjoint_and_complete_and_keep_the_order(sizes, world):
    prompts = prompt_frame(sizes)
    dealt = [ids(sharded(prompts, Shard(rank, world))) for rank in range(world)]
    assert sorted(chain.from_iterable(dealt)) == ids(prompts)
    assert all(own == sorted(own) for own in dealt)


@quick
@given(lengths, worlds)
def test_shares_are_balanced_in_rows_and_in_length(sizes, world):
    prompts = prompt_frame(sizes)
    own = [sharded(prompts, Shard(rank, world))["prompt"].str.len() for rank in range(world)]
    rows, characters = [len(one) for one in own], [int(one.sum()) for one in own]
    assert max(rows) - min(rows) <= 1
    assert max(characters) - min(characters) <= max(sizes, default=0)


@quick
@given(lengths, worlds, st.randoms(use_true_random=False))
def test_a_row_has_the_same_owner_in_any_order_of_the_table(sizes, world, random):
    prompts = prompt_frame(sizes)
    order = list(range(len(prompts)))
    random.shuffle(order)
    for rank in range(world):
        shuffled = sharded(prompts.iloc[order], Shard(rank, world))
        assert sorted(ids(shuffled)) == ids(sharded(prompts, Shard(rank, world)))


@quick
@given(lengths, st.integers(1, 4), st.integers(1, 4))
def test_the_workers_of_a_place_share_its_share(sizes, world, workers):
    prompts = prompt_frame(sizes)
    for rank in range(world):
        mine = Shard(rank, world)
        parts = [ids(sharded(prompts, mine.part(worker, workers))) for worker in range(workers)]
        assert sorted(chain.from_iterable(parts)) == ids(sharded(prompts, mine))


def test_alone_everything_is_mine_and_lines_have_no_prefix():
    prompts = prompt_frame([3, 1, 2])
    pd.testing.assert_frame_equal(sharded(prompts, Shard()), prompts)
    assert Shard().prefix() == ""
    assert Shard(1, 4).prefix() == "[process 1 of 4] "


def test_the_place_comes_from_the_launcher():
    assert this_shard({}) == Shard(0, 1)
    assert this_shard({"RANK": "2", "WORLD_SIZE": "3", "LOCAL_RANK": "0"}) == Shard(2, 3)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"RANK": "1"}, "environment has RANK=1; a process among several needs both"),
        ({"WORLD_SIZE": "2"}, "environment has WORLD_SIZE=2; a process among several needs both"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "environment has RANK=one, WORLD_SIZE=2; .* whole numbers"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2, WORLD_SIZE=2; RANK goes from 0 to WORLD_SIZE - 1"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK goes from 0"),
    ],
)
def test_a_place_that_is_none_is_refused(environment, says):
    with pytest.raises(InputError, match=says):
        this_shard(environment)


def test_each_local_process_takes_a_gpu_of_its_own(monkeypatch):
    """Which device torch is told, where this machine need not have one."""
    taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    for local in ("0", "1", "2"):
        take_gpu({"LOCAL_RANK": local})
    assert taken == [0, 1, 0]
    with pytest.raises(InputError, match="LOCAL_RANK=first; it must be a whole number"):
        take_gpu({"LOCAL_RANK": "first"})


def test_waiting_ends_when_it_is_there_and_otherwise_with_one_line():
    answers = iter([False, False, True])
    wait_until(lambda: next(answers), "the prompts", limit_s=5, every_s=0.001)
    assert next(answers, None) is None
    with pytest.raises(InputError, match="waited 0 s for the prompts of 'a' from process 0; see what became of"):
        wait_until(lambda: False, "the prompts of 'a' from process 0", limit_s=0.01, every_s=0.001)
