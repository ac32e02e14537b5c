"""Seals, tokens and commits: which version a reader gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.wire.errors import (
    InvalidRequestError,
    Reason,
    RetryLaterError,
    SupersededError,
    UnknownStateError,
)

if TYPE_CHECKING:
    from tests.storage.conftest import Advance, MakeOverlay, OpenStore

    from queryable_state.server.storage.store import StateStore

STATE = 7


def test_a_sealed_version_is_read_only_by_who_asks_for_uncommitted(
    store: StateStore, overlay: MakeOverlay
) -> None:
    store.seal(0, overlay({b"k": b"v"}), (1, 1))
    assert store.get(STATE, b"k") is None
    assert store.get(STATE, b"k", uncommitted=True) == b"v"
    assert store.prefix(STATE, b"") == []
    assert store.prefix(STATE, b"", uncommitted=True) == [(b"k", b"v")]
    assert store.reader(STATE)(b"k") is None
    assert store.reader(STATE, uncommitted=True)(b"k") == b"v"


def test_committing_makes_a_sealed_version_visible(store: StateStore, overlay: MakeOverlay) -> None:
    store.seal(0, overlay({b"k": b"v"}), (1, 1))
    store.commit(0)
    assert store.get(STATE, b"k") == b"v"
    assert (store.committed_version, store.staged_version, store.staged_token) == (0, None, None)


def test_a_higher_token_replaces_the_whole_staged_version(
    store: StateStore, overlay: MakeOverlay
) -> None:
    store.seal(0, overlay({b"a": b"1", b"b": b"1"}), (1, 1))
    store.seal(0, overlay({b"a": b"2"}), (2, 0))
    assert store.staged_token == (2, 0)
    store.commit(0)
    assert store.prefix(STATE, b"") == [(b"a", b"2")]


def test_an_equal_token_replaces_the_staged_version(
    store: StateStore, overlay: MakeOverlay
) -> None:
    """The same attempt may seal again when it got no answer."""
    store.seal(0, overlay({b"a": b"1"}), (1, 1))
    store.seal(0, overlay({b"a": b"2"}), (1, 1))
    assert store.get(STATE, b"a", uncommitted=True) == b"2"


def test_a_lower_token_is_refused_and_changes_nothing(
    store: StateStore, overlay: MakeOverlay
) -> None:
    store.seal(0, overlay({b"a": b"2"}), (2, 0))
    with pytest.raises(SupersededError, match="stop this attempt") as refused:
        store.seal(0, overlay({b"a": b"1"}), (1, 99))
    assert refused.value.reason == Reason.STALE_TOKEN
    assert store.get(STATE, b"a", uncommitted=True) == b"2"


def test_a_committed_version_cannot_be_sealed_again(
    store: StateStore, overlay: MakeOverlay, advance: Advance
) -> None:
    advance(store, {b"a": b"1"})
    with pytest.raises(SupersededError, match="batch 0 is committed") as refused:
        store.seal(0, overlay({b"a": b"2"}), (9, 9))
    assert refused.value.reason == Reason.ALREADY_COMMITTED
    assert store.get(STATE, b"a") == b"1"


def test_sealing_ahead_commits_nothing(store: StateStore, overlay: MakeOverlay) -> None:
    store.seal(5, overlay({b"a": b"1"}), (1, 1))
    assert (store.committed_version, store.staged_version) == (-1, 5)
    store.commit(3)
    assert (store.committed_version, store.staged_version) == (3, 5)
    assert store.get(STATE, b"a") is None


def test_committing_a_version_commits_an_older_staged_one(
    store: StateStore, overlay: MakeOverlay
) -> None:
    """Spark commits in order: batch 7 committed proves that batch 5 is."""
    store.seal(5, overlay({b"a": b"1"}), (1, 1))
    store.commit(7)
    assert (store.committed_version, store.staged_version) == (7, None)
    assert store.get(STATE, b"a") == b"1"


def test_a_version_without_a_seal_is_empty(store: StateStore, advance: Advance) -> None:
    advance(store, {b"a": b"1"})
    store.commit(4)
    assert store.committed_version == 4
    assert store.get(STATE, b"a") == b"1"
    with store.view(2) as view:
        assert view.get(STATE, b"a") == b"1"


def test_committing_twice_or_backwards_changes_nothing(store: StateStore, advance: Advance) -> None:
    advance(store, {b"a": b"1"})
    advance(store, {b"a": b"2"})
    store.commit(1)
    store.commit(0)
    assert store.committed_version == 1
    assert store.get(STATE, b"a") == b"2"


def test_a_newer_version_waits_until_the_staged_one_is_committed_or_discarded(
    store: StateStore, overlay: MakeOverlay
) -> None:
    store.seal(0, overlay({b"a": b"1"}), (1, 1))
    with pytest.raises(RetryLaterError, match="commit or discard") as refused:
        store.seal(1, overlay({b"a": b"2"}), (1, 2))
    assert refused.value.reason == Reason.BEHIND
    store.discard_staged()
    store.seal(1, overlay({b"b": b"2"}), (1, 2))
    store.commit(1)
    assert store.prefix(STATE, b"") == [(b"b", b"2")]


def test_a_rewound_query_replaces_a_newer_staged_version(
    store: StateStore, overlay: MakeOverlay
) -> None:
    store.seal(5, overlay({b"a": b"old run"}), (1, 1))
    store.seal(3, overlay({b"a": b"new run"}), (2, 1))
    assert store.staged_version == 3
    store.commit(5)
    assert store.get(STATE, b"a") == b"new run"


def test_a_delete_hides_the_value_below(store: StateStore, advance: Advance) -> None:
    advance(store, {b"a": b"1", b"b": b"1"})
    advance(store, deletes=[b"a"])
    assert store.get(STATE, b"a") is None
    assert store.prefix(STATE, b"") == [(b"b", b"1")]


def test_an_empty_value_is_a_value(store: StateStore, advance: Advance) -> None:
    advance(store, {b"a": b""})
    store.compact(0, 100)
    assert store.get(STATE, b"a") == b""


def test_staged_and_held_bytes_are_reported(store: StateStore, overlay: MakeOverlay) -> None:
    assert (store.staged_bytes, store.overlay_bytes) == (0, 0)
    store.seal(0, overlay({b"key": b"value"}, deletes=[b"xx"]), (1, 1))
    assert (store.staged_bytes, store.overlay_bytes) == (10, 10)
    store.commit(0)
    assert (store.staged_bytes, store.overlay_bytes) == (0, 10)
    store.compact(0, 100)
    assert store.overlay_bytes == 0


def test_an_unknown_state_is_refused_by_name(store: StateStore, overlay: MakeOverlay) -> None:
    with pytest.raises(UnknownStateError, match="no state 8"):
        store.seal(0, overlay({b"a": b"1"}, state_id=8), (1, 1))
    assert store.staged_version is None
    with pytest.raises(UnknownStateError, match="no state 8"):
        store.get(8, b"a")
    with pytest.raises(UnknownStateError, match="no state 8"):
        store.prefix(8, b"a")
    with pytest.raises(UnknownStateError, match="no state 8"):
        store.approximate_size(8)
    with store.view() as view, pytest.raises(UnknownStateError, match="no state 8"):
        view.get(8, b"a")


def test_a_state_can_be_added_between_versions(
    store: StateStore, overlay: MakeOverlay, advance: Advance
) -> None:
    advance(store, {b"a": b"1"})
    store.add_state(8)
    store.add_state(8)
    store.seal(1, overlay({b"a": b"other"}, state_id=8), (1, 1))
    store.commit(1)
    store.compact(1, 100)
    assert store.get(8, b"a") == b"other"
    assert store.get(STATE, b"a") == b"1"


def test_a_store_starts_at_the_version_it_was_loaded_at(
    open_store: OpenStore, overlay: MakeOverlay
) -> None:
    store = open_store(41)
    assert (store.base_version, store.committed_version) == (41, 41)
    with pytest.raises(SupersededError):
        store.seal(41, overlay({b"a": b"1"}), (1, 1))
    store.seal(42, overlay({b"a": b"1"}), (1, 1))


def test_a_start_before_the_first_version_is_refused(open_store: OpenStore) -> None:
    with pytest.raises(InvalidRequestError, match="cannot start at version -2"):
        open_store(-2)
