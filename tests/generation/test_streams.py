from __future__ import annotations

import numpy as np

from slmsafety.generation.streams import request_seed, stream, uniforms

NAME = stream(1337, "demo", "q1", 0)


def test_a_stream_never_changes_unnoticed() -> None:
    """Stored replies came of these numbers: others would make a resumed study a mix of two.

    As openssl gives them: `openssl dgst -shake256 -xoflen 24` (of each 16 digits the first 13) and sha256sum.
    """
    assert NAME == b'[1337, "demo", "q1", 0]'
    assert uniforms(NAME, 0, 3).tolist() == [
        0x4DC73274DA039 / 2**52,
        0xAE338B92C3890 / 2**52,
        0xAFF9F8DDD408E / 2**52,
    ]
    assert request_seed(NAME) == 0xFC65ABFA >> 1


def test_numbers_go_by_their_place_and_not_by_how_many_are_asked_for() -> None:
    whole = uniforms(NAME, 0, 500)
    assert np.array_equal(uniforms(NAME, 0, 7), whole[:7])
    assert np.array_equal(uniforms(NAME, 490, 500), whole[490:])
    assert len(uniforms(NAME, 3, 3)) == 0


def test_every_part_of_the_name_counts() -> None:
    names = [
        stream(seed, suite, instance, sample)
        for seed in (0, 1)
        for suite in ("a", "b")
        for instance in ("1", "11", 'a", "1')
        for sample in (0, 1, 11)
    ]
    assert len({uniforms(name, 0, 1)[0] for name in names}) == len({request_seed(name) for name in names}) == 36
    assert all(0 <= request_seed(name) < 2**31 for name in names)


def test_numbers_are_spread_evenly_over_streams_and_places() -> None:
    numbers = np.stack([uniforms(stream(0, "s", str(row), 0), 0, 100) for row in range(100)])
    assert numbers.min() >= 0 and numbers.max() < 1
    for lane in (numbers.ravel(), numbers[:, 0], numbers[0]):
        counts = np.histogram(lane, bins=10, range=(0, 1))[0]
        expected = len(lane) / 10
        assert ((counts - expected) ** 2 / expected).sum() < 27.9  # chi-square, 9 degrees of freedom, p = 0.001
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.04
