"""Operator states are whole lists, in versions like everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.internal.v1.changes_pb2 import ChangeBlock
from queryable_state.server.storage.operator_states import redistributed
from queryable_state.server.storage.overlay import Overlay, OverlayBuilder
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import (
    InvalidRequestError,
    RetryLaterError,
    SupersededError,
    UnknownStateError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.storage.conftest import MakeOverlay, OpenStore

    from queryable_state.server.storage.store import StateStore

STATE = 7


def setting(*elements: bytes, state_id: int = STATE) -> Overlay:
    builder = OverlayBuilder()
    block = ChangeBlock(format_version=1, state_id=state_id)
    block.operator_states.add(elements=[b"overridden"])
    block.operator_states.add(elements=elements)
    builder.add_block(block)
    return builder.build()


def test_a_list_is_staged_committed_and_compacted_as_a_whole(store: StateStore) -> None:
    assert store.operator_state(STATE) == []
    store.seal(0, setting(b"a", b"b"), (1, 0))
    assert store.operator_state(STATE) == []
    assert store.operator_state(STATE, uncommitted=True) == [b"a", b"b"]
    store.commit(0)
    store.seal(1, setting(b"c"), (1, 1))
    assert store.operator_state(STATE) == [b"a", b"b"]
    assert store.operator_state(STATE, uncommitted=True) == [b"c"]
    store.commit(1)
    before = store.view(0)
    assert not store.compact(1, 10)
    assert store.base_version == 1
    assert store.operator_state(STATE) == [b"c"]
    assert before.operator_state(STATE) == [b"a", b"b"]


def test_a_discarded_list_was_never_there(store: StateStore) -> None:
    store.seal(0, setting(b"a"), (1, 0))
    store.discard_staged()
    assert store.operator_state(STATE, uncommitted=True) == []


def test_a_list_set_to_nothing_is_empty(store: StateStore) -> None:
    store.load(0, setting(b"a"))
    store.load(1, setting())
    assert store.operator_state(STATE) == []


def test_a_batch_that_changes_no_list_keeps_it(store: StateStore, overlay: MakeOverlay) -> None:
    store.load(0, setting(b"a"))
    store.seal(1, overlay({b"\x00\x01": b"1"}), (1, 1))
    store.commit(1)
    assert store.operator_state(STATE) == [b"a"]


def test_elements_count_among_what_is_staged(store: StateStore) -> None:
    store.seal(0, setting(b"1234", b"5"), (1, 0))
    assert store.staged_bytes >= 5


def test_a_snapshot_holds_the_lists_of_its_version(store: StateStore, tmp_path: Path) -> None:
    store.load(3, setting(b"a"))
    with store.snapshot(3, tmp_path / "snapshot") as snapshot:
        store.seal(4, setting(b"b"), (1, 4))
        store.commit(4)
        store.compact(4, 10)
        assert snapshot.operator_states() == {STATE: (b"a",)}
    with store.snapshot(4) as snapshot:
        assert snapshot.operator_states() == {STATE: (b"b",)}


def test_a_store_starts_with_lists_given_to_it(store: StateStore) -> None:
    store.load_operator_states({STATE: [b"a", b"b"]})
    assert store.operator_state(STATE) == [b"a", b"b"]
    assert store.committed_version == -1


def test_a_state_that_was_not_added_has_no_list(store: StateStore) -> None:
    for call in (
        lambda: store.seal(0, setting(b"a", state_id=8), (1, 0)),
        lambda: store.load(0, setting(b"a", state_id=8)),
        lambda: store.load_operator_states({8: [b"a"]}),
        lambda: store.operator_state(8),
        lambda: store.view().operator_state(8),
    ):
        with pytest.raises(UnknownStateError):
            call()


def test_a_shared_store_is_not_loaded(store: StateStore, overlay: MakeOverlay) -> None:
    """Beneath a view or an overlay the base may only change by compaction."""

    def refused() -> None:
        for call in (
            lambda: store.load(5, overlay()),
            lambda: store.load_operator_states({STATE: [b"a"]}),
            lambda: store.bulk_load(),
        ):
            with pytest.raises(InvalidRequestError, match="before it is shared"):
                call()

    with store.view():
        refused()
    store.seal(0, overlay({b"\x00\x01": b"1"}), (1, 0))
    refused()
    store.commit(0)
    refused()
    store.compact(0, 10)
    with pytest.raises(SupersededError, match="cannot be loaded"):
        store.load(-1, overlay())
    store.load(0, overlay({b"\x00\x02": b"2"}))
    assert store.get(STATE, b"\x00\x02") == b"2"


def test_a_closed_store_gives_no_list(open_store: OpenStore) -> None:
    store = open_store()
    store.close()
    with pytest.raises(RetryLaterError, match="closed"):
        store.operator_state(STATE)


elements = st.lists(st.binary(max_size=2), max_size=5)
former_lists = st.dictionaries(st.integers(0, 5), elements, max_size=5)


@given(former_lists, st.integers(1, 6))
def test_every_element_of_a_list_goes_to_one_subtask(
    former: dict[int, list[bytes]], parallelism: int
) -> None:
    shares = [
        redistributed(StateKind.OPERATOR_LIST, former, index=index, parallelism=parallelism)
        for index in range(parallelism)
    ]
    in_order = [element for index in sorted(former) for element in former[index]]
    dealt = [shares[turn % parallelism][turn // parallelism] for turn in range(len(in_order))]
    assert dealt == in_order
    assert sum(map(len, shares)) == len(in_order)


@given(former_lists, st.integers(1, 6))
def test_every_subtask_gets_all_of_a_union_and_the_same_broadcast(
    former: dict[int, list[bytes]], parallelism: int
) -> None:
    in_order = tuple(element for index in sorted(former) for element in former[index])
    spoken = next((tuple(former[index]) for index in sorted(former) if former[index]), ())
    for index in range(parallelism):
        where = {"index": index, "parallelism": parallelism}
        assert redistributed(StateKind.OPERATOR_UNION, former, **where) == in_order
        assert redistributed(StateKind.BROADCAST, former, **where) == spoken


def test_keyed_state_is_not_redistributed() -> None:
    with pytest.raises(InvalidRequestError, match="moves with its key groups"):
        redistributed(StateKind.VALUE, {}, index=0, parallelism=1)
