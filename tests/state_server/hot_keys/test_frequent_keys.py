"""Bounds of the sketch of frequent keys."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.state_server.key_sampler import (
    LONGEST_KEY,
    FrequentKeys,
)

_KEYS = st.integers(0, 40).map(lambda number: b"%d" % number)
_STREAM = st.lists(st.tuples(_KEYS, st.integers(1, 1000)), max_size=300)


def _sketch(stream: list[tuple[bytes, int]], capacity: int) -> FrequentKeys:
    sketch = FrequentKeys(capacity)
    for key, count in stream:
        sketch.add(key, count)
    return sketch


def _true(stream: list[tuple[bytes, int]]) -> Counter[bytes]:
    counted: Counter[bytes] = Counter()
    for key, count in stream:
        counted[key] += count
    return counted


@given(_STREAM, st.integers(1, 12))
def test_a_true_count_is_within_what_was_missed(
    stream: list[tuple[bytes, int]], capacity: int
) -> None:
    sketch, true = _sketch(stream, capacity), _true(stream)
    assert sketch.total == true.total()
    assert sketch.missed <= true.total() / (capacity + 1)
    assert len(sketch.counts) <= 2 * capacity
    for key, count in true.items():
        assert sketch.counts.get(key, 0) <= count <= sketch.counts.get(key, 0) + sketch.missed


@given(_STREAM, st.integers(1, 12))
def test_a_key_with_a_large_share_is_named(stream: list[tuple[bytes, int]], capacity: int) -> None:
    sketch, true = _sketch(stream, capacity), _true(stream)
    for key, count in true.items():
        if count > true.total() / (capacity + 1):
            assert key in sketch.counts


@given(_STREAM, _STREAM, st.integers(1, 12))
def test_a_merged_sketch_keeps_its_bounds(
    one: list[tuple[bytes, int]], other: list[tuple[bytes, int]], capacity: int
) -> None:
    merged, true = FrequentKeys(capacity), _true(one + other)
    for stream in (one, other):
        part = _sketch(stream, capacity)
        merged.merge(part.counts.items(), total=part.total, missed=part.missed)
    assert merged.total == true.total()
    for key, count in true.items():
        assert merged.counts.get(key, 0) <= count <= merged.counts.get(key, 0) + merged.missed


def test_the_top_is_in_descending_order() -> None:
    sketch = _sketch([(b"a", 1), (b"b", 3), (b"c", 2)], 8)
    assert list(sketch.top(2).items()) == [(b"b", 3), (b"c", 2)]


def test_a_long_key_counts_only_in_the_total() -> None:
    sketch = _sketch([(b"x" * (LONGEST_KEY + 1), 5), (b"y", 1)], 8)
    assert (sketch.total, dict(sketch.counts)) == (6, {b"y": 1})
