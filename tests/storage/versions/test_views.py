"""A view keeps its version, whatever the store does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.wire.errors import Reason, RetryLaterError, SupersededError

if TYPE_CHECKING:
    from tests.storage.conftest import Advance, MakeOverlay

    from queryable_state.server.storage.store import StateStore

STATE = 7
EVERYTHING = 10_000


def test_every_version_from_the_base_to_the_staged_one_can_be_viewed(
    store: StateStore, overlay: MakeOverlay, advance: Advance
) -> None:
    for value in (b"0", b"1", b"2"):
        advance(store, {b"k": value})
    store.seal(3, overlay({b"k": b"3"}), (1, 3))
    for version in range(4):
        with store.view(version) as view:
            assert view.version == version
            assert view.get(STATE, b"k") == str(version).encode()
    with store.view() as view:
        assert view.version == 2
    with store.view(-1) as view:
        assert view.get(STATE, b"k") is None


def test_a_version_that_is_not_there_yet_is_worth_a_retry(
    store: StateStore, overlay: MakeOverlay
) -> None:
    store.seal(5, overlay({b"k": b"v"}), (1, 1))
    for version in (0, 4, 6):
        with pytest.raises(RetryLaterError, match="not committed yet") as refused:
            store.view(version)
        assert refused.value.reason == Reason.BEHIND


def test_a_compacted_version_is_refused(store: StateStore, advance: Advance) -> None:
    advance(store, {b"k": b"0"})
    advance(store, {b"k": b"1"})
    store.compact(1, EVERYTHING)
    assert store.base_version == 1
    with pytest.raises(SupersededError, match="oldest readable version is 1"):
        store.view(0)


def test_a_view_outlives_the_compaction_of_later_versions(
    store: StateStore, advance: Advance
) -> None:
    advance(store, {b"a": b"0", b"b": b"0", b"c": b"0"})
    with store.view() as at_0:
        advance(store, {b"a": b"1", b"d": b"1"}, deletes=[b"b"])
        with store.view() as at_1:
            advance(store, {b"a": b"2"}, clears=[b""])
            while store.compact(2, 1):
                assert at_0.prefix(STATE, b"") == [(b"a", b"0"), (b"b", b"0"), (b"c", b"0")]
                assert at_1.prefix(STATE, b"") == [(b"a", b"1"), (b"c", b"0"), (b"d", b"1")]
            keys = [b"d", b"c", b"b", b"a"]
            assert at_0.multi_get(STATE, keys) == [None, b"0", b"0", b"0"]
            assert at_1.multi_get(STATE, keys) == [b"1", b"0", None, b"1"]
            assert [at_1.get(STATE, key) for key in keys] == [b"1", b"0", None, b"1"]
    assert store.prefix(STATE, b"") == [(b"a", b"2")]


def test_a_view_keeps_what_a_compaction_clears_and_puts_again(
    store: StateStore, advance: Advance
) -> None:
    advance(store, {b"p1": b"0", b"p2": b"0"})
    store.compact(0, EVERYTHING)
    with store.view() as view:
        advance(store, {b"p1": b"1", b"p3": b"1"}, clears=[b"p"])
        store.compact(1, EVERYTHING)
        advance(store, {b"p2": b"2"}, deletes=[b"p1"])
        store.compact(2, EVERYTHING)
        assert view.prefix(STATE, b"p") == [(b"p1", b"0"), (b"p2", b"0")]
        assert view.multi_get(STATE, [b"p1", b"p2", b"p3"]) == [b"0", b"0", None]


def test_a_view_opened_while_a_compaction_is_under_way_is_whole(
    store: StateStore, advance: Advance
) -> None:
    advance(store, {b"%03d" % number: b"0" for number in range(600)})
    store.compact(0, EVERYTHING)
    advance(store, {b"%03d" % number: b"1" for number in range(600)})
    assert store.compact(1, 1), "one chunk must not be all"
    with store.view() as view:
        assert view.version == 1
        store.compact(1, EVERYTHING)
        advance(store, clears=[b""])
        store.compact(2, EVERYTHING)
        assert set(dict(view.prefix(STATE, b"")).values()) == {b"1"}
        assert len(view.prefix(STATE, b"")) == 600


def test_a_view_of_a_staged_version_outlives_its_replacement(
    store: StateStore, overlay: MakeOverlay
) -> None:
    store.seal(0, overlay({b"a": b"first"}), (1, 1))
    with store.view(0) as view:
        store.seal(0, overlay({b"b": b"second"}), (1, 2))
        store.commit(0)
        store.compact(0, EVERYTHING)
        assert view.prefix(STATE, b"") == [(b"a", b"first")]


def test_a_view_sees_nothing_of_a_later_commit(
    store: StateStore, overlay: MakeOverlay, advance: Advance
) -> None:
    advance(store, {b"a": b"0"})
    store.seal(1, overlay({b"a": b"1"}), (1, 1))
    with store.view() as view:
        store.commit(1)
        assert view.get(STATE, b"a") == b"0"


def test_a_closed_view_says_so(store: StateStore, advance: Advance) -> None:
    advance(store, {b"a": b"0"})
    view = store.view()
    view.close()
    view.close()
    with pytest.raises(RetryLaterError, match="view of version 0 is closed"):
        view.get(STATE, b"a")


def test_a_scan_goes_on_over_compactions_and_commits(store: StateStore, advance: Advance) -> None:
    """A scan is read in chunks; what happens between two of them must not show."""
    before = {b"%04d" % number: b"0" for number in range(2000)}
    advance(store, before)
    store.compact(0, EVERYTHING)
    with store.view() as view:
        scan = view.scan(STATE, b"", None)
        seen = [next(scan) for _ in range(700)]
        advance(store, {b"%04d+" % number: b"1" for number in range(2000)}, clears=[b"1", b"00"])
        store.compact(1, 900)
        seen += [next(scan) for _ in range(700)]
        store.compact(1, EVERYTHING)
        seen += scan
    assert seen == sorted(before.items())


def test_a_multi_get_keeps_order_and_repeats(store: StateStore, advance: Advance) -> None:
    advance(store, {b"b": b"2", b"a": b"1"})
    store.compact(0, EVERYTHING)
    advance(store, {b"c": b"3"})
    with store.view() as view:
        assert view.multi_get(STATE, []) == []
        assert view.multi_get(STATE, [b"c", b"b", b"x", b"a", b"b"]) == [
            b"3", b"2", None, b"1", b"2",
        ]  # fmt: skip
