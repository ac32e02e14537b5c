"""Cleared prefixes and ordered reads over overlays and base."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.storage.conftest import Advance

    from queryable_state.server.storage.store import StateStore

STATE = 7
EVERYTHING = 10_000


@pytest.fixture(params=["in overlays", "compacted"])
def compacted(request: pytest.FixtureRequest) -> bool:
    """True if the test compacts each version before it writes the next."""
    return bool(request.param == "compacted")


def _settle(store: StateStore, compacted: bool) -> None:
    if compacted:
        store.compact(store.committed_version, EVERYTHING)


def test_a_clear_hides_everything_below_it(
    store: StateStore, advance: Advance, compacted: bool
) -> None:
    advance(store, {b"p1": b"0", b"q": b"0"})
    _settle(store, compacted)
    advance(store, {b"p2": b"1"})
    _settle(store, compacted)
    advance(store, clears=[b"p"])
    _settle(store, compacted)
    assert store.get(STATE, b"p1") is None
    assert store.get(STATE, b"p2") is None
    assert store.prefix(STATE, b"") == [(b"q", b"0")]


def test_puts_of_the_same_version_win_over_its_clears(
    store: StateStore, advance: Advance, compacted: bool
) -> None:
    advance(store, {b"p1": b"0", b"p2": b"0"})
    _settle(store, compacted)
    advance(store, {b"p2": b"1"}, clears=[b"p"])
    _settle(store, compacted)
    assert store.prefix(STATE, b"p") == [(b"p2", b"1")]
    assert store.get(STATE, b"p2") == b"1"


def test_puts_of_a_later_version_win_over_a_clear(
    store: StateStore, advance: Advance, compacted: bool
) -> None:
    advance(store, {b"p1": b"0", b"p2": b"0"})
    advance(store, clears=[b"p"])
    _settle(store, compacted)
    advance(store, {b"p1": b"2"})
    assert store.prefix(STATE, b"p") == [(b"p1", b"2")]
    assert (store.get(STATE, b"p1"), store.get(STATE, b"p2")) == (b"2", None)


def test_nested_prefixes_clear_as_the_shortest_does(
    store: StateStore, advance: Advance, compacted: bool
) -> None:
    advance(store, {b"a": b"0", b"ab": b"0", b"abc": b"0", b"b": b"0"})
    _settle(store, compacted)
    advance(store, {b"abd": b"1"}, clears=[b"ab", b"a", b"abc"])
    _settle(store, compacted)
    assert store.prefix(STATE, b"") == [(b"abd", b"1"), (b"b", b"0")]


def test_the_empty_prefix_clears_the_state(
    store: StateStore, advance: Advance, compacted: bool
) -> None:
    advance(store, {b"": b"0", b"\xff\xff": b"0"})
    _settle(store, compacted)
    advance(store, clears=[b""])
    _settle(store, compacted)
    assert store.prefix(STATE, b"") == []


def test_a_prefix_of_highest_bytes_ends_at_the_last_key(
    store: StateStore, advance: Advance, compacted: bool
) -> None:
    advance(store, {b"\xfe\xff": b"0", b"\xff": b"0", b"\xff\xff\xff": b"0"})
    _settle(store, compacted)
    assert store.prefix(STATE, b"\xfe\xff") == [(b"\xfe\xff", b"0")]
    assert store.prefix(STATE, b"\xff") == [(b"\xff", b"0"), (b"\xff\xff\xff", b"0")]
    advance(store, clears=[b"\xff"])
    _settle(store, compacted)
    assert store.prefix(STATE, b"") == [(b"\xfe\xff", b"0")]


def test_a_limited_prefix_read_takes_the_first_records(
    store: StateStore, advance: Advance, compacted: bool
) -> None:
    advance(store, {b"p%04d" % number: b"0" for number in range(1500)})
    _settle(store, compacted)
    advance(store, deletes=[b"p%04d" % number for number in range(1100)])
    _settle(store, compacted)
    found = store.prefix(STATE, b"p", limit=3)
    assert found == [(b"p1100", b"0"), (b"p1101", b"0"), (b"p1102", b"0")]
    with store.view() as view:
        assert view.prefix(STATE, b"p", limit=3) == found
    assert len(store.prefix(STATE, b"p")) == 400


def test_a_key_group_and_a_key_range_are_scanned_in_order(
    store: StateStore, advance: Advance, compacted: bool
) -> None:
    """Two bytes of key group lead each key, so a key group is a range of keys."""
    group = b"\x00\x05"
    advance(store, {b"\x00\x04z": b"0", group + b"b": b"0", group + b"d": b"0", b"\x00\x06": b"0"})
    _settle(store, compacted)
    advance(store, {group + b"c": b"1"}, deletes=[group + b"d"])
    with store.view() as view:
        assert list(view.scan(STATE, group, b"\x00\x06")) == [
            (group + b"b", b"0"),
            (group + b"c", b"1"),
        ]
        assert list(view.scan(STATE, group + b"c", None)) == [
            (group + b"c", b"1"),
            (b"\x00\x06", b"0"),
        ]
        assert list(view.scan(STATE, group, group)) == []


def test_a_scan_merges_layers_of_more_than_a_chunk(
    store: StateStore, advance: Advance, compacted: bool
) -> None:
    numbers = range(3000)
    advance(store, {b"%05d" % number: b"0" for number in numbers})
    _settle(store, compacted)
    advance(store, {b"%05d" % number: b"1" for number in numbers if number % 2})
    _settle(store, compacted)
    advance(store, clears=[b"%03d" % number for number in range(0, 30, 2)])
    with store.view() as view:
        assert list(view.scan(STATE, b"", None)) == [
            (b"%05d" % number, b"%d" % (number % 2)) for number in numbers if number // 100 % 2
        ]
