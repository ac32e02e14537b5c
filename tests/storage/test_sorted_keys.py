"""Keys in order against a plain sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.storage.heap.sorted_keys import SortedKeys

_KEYS = st.binary(max_size=2)


@given(
    initial=st.sets(_KEYS),
    changes=st.lists(_KEYS, max_size=50),
    start=_KEYS,
    end=st.none() | _KEYS,
    limit=st.integers(1, 20),
)
def test_slices_are_those_of_a_sorted_list(
    initial: set[bytes], changes: list[bytes], start: bytes, end: bytes | None, limit: int
) -> None:
    keys, model = SortedKeys(initial), set(initial)
    for key in changes:
        if key in model:
            keys.remove(key)
            model.remove(key)
        else:
            keys.add(key)
            model.add(key)
    expected = [key for key in sorted(model) if key >= start and (end is None or key < end)]
    assert keys.slice(start, end, limit) == expected[:limit]


def test_buckets_split_and_empty_without_losing_a_key() -> None:
    keys = SortedKeys()
    numbers = [number * 7919 % 10_007 for number in range(10_007)]
    for number in numbers:
        keys.add(b"%05d" % number)
    assert keys.slice(b"", None, 20_000) == [b"%05d" % number for number in range(10_007)]
    for number in numbers:
        if number % 1000:
            keys.remove(b"%05d" % number)
    assert keys.slice(b"", None, 20_000) == [b"%05d" % number for number in range(0, 10_007, 1000)]


def test_many_keys_are_put_in_order_at_once() -> None:
    numbers = [number * 7919 % 10_007 for number in range(10_007)]
    keys = SortedKeys(b"%05d" % number for number in numbers)
    assert keys.slice(b"", None, 20_000) == [b"%05d" % number for number in range(10_007)]
