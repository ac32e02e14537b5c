"""Changes of a batch to our states, made of its raw changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.storage.overlay import Overlay, StateOverlay
from queryable_state.v1.registration_pb2 import LIST, VALUE
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Collection

    from queryable_state.server.native_state.operators.state_layout import StateLayout
    from queryable_state.server.native_state.store.native_store import NativeStore
    from queryable_state.server.native_state.store.native_view import NativeView


def described(store: NativeStore, changes: Overlay, state_ids: Collection[int]) -> Overlay:
    """Translates the raw changes of a staged version into changes of these states.

    Costs a read of each changed key, of a collection two. For the background thread.
    """
    states = {}
    size_bytes = records = 0
    with store.staged_view() as after, store.own_view() as before:
        for state_id in state_ids:
            layout = store.layouts[state_id]
            if not any(source in changes.states for source in layout.sources):
                continue
            overlay = _of_state(layout, state_id, changes, store.partition, before, after)
            if overlay.records or overlay.cleared:
                states[state_id] = overlay
                records += len(overlay.records) + len(overlay.cleared)
                size_bytes += sum(
                    len(key) + len(value or b"") for key, value in overlay.records.items()
                )
    return Overlay(states, size_bytes, records)


def _of_state(
    layout: StateLayout,
    state_id: int,
    changes: Overlay,
    partition: int,
    before: NativeView,
    after: NativeView,
) -> StateOverlay:
    keys = list(dict.fromkeys(layout.changed_keys(changes, partition)))
    definition = layout.definition
    if definition.kind == VALUE and definition.namespace_type is None:
        store_keys = [key + VOID_NAMESPACE for key in keys]
        return StateOverlay(
            dict(zip(store_keys, after.multi_get(state_id, store_keys), strict=True))
        )
    changed: dict[bytes, bytes | None] = {}
    cleared: list[bytes] = []
    for key in keys:
        old, new = dict(before.prefix(state_id, key)), dict(after.prefix(state_id, key))
        if definition.kind == LIST and not old.items() <= new.items():
            # Watches know appends and clears of lists only.
            cleared.append(key + VOID_NAMESPACE)
            changed |= new
            continue
        changed.update((each, value) for each, value in new.items() if old.get(each) != value)
        changed.update(dict.fromkeys(old.keys() - new.keys()))
    return StateOverlay(changed, cleared)
