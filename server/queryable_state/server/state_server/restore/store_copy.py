"""Copy of the store of a subtask into a new one, for a job that keeps no durable copy."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.server.storage.snapshot import StoreSnapshot
    from queryable_state.server.storage.store import StateStore

_CHUNK_RECORDS = 1024


def copy_into(
    store: StateStore,
    snapshot: StoreSnapshot,
    states: Iterable[registration_pb2.StateRegistration],
) -> StateStore:
    """Fills a new store, which is at the version of the snapshot, and returns it.

    `states` are the states of the operator. For any one thread; destroys a store it cannot fill.
    """
    try:
        for state in states:
            store.add_state(state.state_id, timers=state.kind == registration_pb2.TIMER)
        with store.bulk_load() as load:
            for state_id in snapshot.state_ids():
                store.add_state(state_id)
                records = snapshot.records(state_id)
                while chunk := list(islice(records, _CHUNK_RECORDS)):
                    load.put(state_id, chunk)
        store.load_operator_states(snapshot.operator_states())
    except BaseException:
        store.destroy()
        raise
    return store
