"""Filter of a canonical snapshot that leaves out gone values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.state_server.stores.clean_up import removable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from queryable_state.server.storage.snapshot import RecordWriter
    from queryable_state.v1 import registration_pb2


def removable_values(
    states: Mapping[int, registration_pb2.StateRegistration], timestamp_ms: int | None
) -> dict[int, Callable[[bytes], bool]]:
    """Returns `removable` of each state whose snapshots are cleaned up.

    `timestamp_ms` is the timestamp of the snapshot's batch; None: it is not known.
    """
    if timestamp_ms is None:
        return {}
    found = {
        state_id: removable(state, timestamp_ms)
        for state_id, state in states.items()
        if state.ttl.clean_snapshots
    }
    return {state_id: is_gone for state_id, is_gone in found.items() if is_gone is not None}


class LiveRecords:
    """A `RecordWriter` that passes on all records but those with a gone value."""

    def __init__(
        self, writer: RecordWriter, is_gone: Mapping[int, Callable[[bytes], bool]]
    ) -> None:
        self._writer = writer
        self._is_gone = is_gone

    def add(self, state_id: int, records: Iterable[tuple[bytes, bytes]]) -> object:
        """Writes the live records of one state."""
        is_gone = self._is_gone.get(state_id)
        if is_gone is not None:
            records = (record for record in records if not is_gone(record[1]))
        return self._writer.add(state_id, records)
