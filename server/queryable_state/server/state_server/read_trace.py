"""Trace of an owner for one query with `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.query.query_trace import QueryTrace, refusal_in
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE
from queryable_state.wire.keys.time_window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.stores.store_table import StoreTable
    from queryable_state.wire.errors import QueryableStateError


class ReadTrace(QueryTrace):
    """The subtask of the first key, and steps for waiting and reading."""

    def __init__(
        self, query: query_pb2.Query, table: StoreTable, lease: Lease, *, server_id: str
    ) -> None:
        route = table.route(query.state_id)
        role = query_pb2.OWNER if route is None else route.job.info.role
        super().__init__(server_id, role, query.keys)
        self._read = query.read
        self._where = _window_text(query)
        self._begun_us = 0
        self.proto.placement_version = lease.placement_version
        group = self.proto.key_group
        slot = -1 if route is None or group >= len(route.slots) else route.slots[group]
        if route is not None:
            self.proto.asks_all_partitions = route.registration.asks_all_partitions
        if route is not None and slot >= 0:
            subtask = route.subtasks[slot].id
            self.proto.subtask, self.proto.operator_uid = subtask.subtask, subtask.operator_uid
            self.proto.owner_id = server_id

    def waited(self, behind: QueryableStateError) -> None:
        """Adds the wait for a commit, which ends now."""
        self.add("wait", self._begun_us, behind.message)
        self._begun_us = self.now_us

    def answered(self, answer: query_pb2.Answer) -> None:
        """Adds the read, or the refusal, and puts the trace into the answer."""
        name = "refuse" if answer.HasField("error") else "read"
        self.add(name, self._begun_us, self._outcome(answer))
        self.put_into(answer)

    def _outcome(self, answer: query_pb2.Answer) -> str:
        refusal = refusal_in(answer)
        if answer.HasField("error"):
            return answer.error.message
        batch = f"{self._where}as of batch {answer.info.version}"
        if answer.info.watermark_ms:
            batch += f", watermark {answer.info.watermark_ms} ms"
        if refusal is not None:
            return f"{refusal.message} ({batch})"
        if not answer.values:
            return f"nothing is stored there {batch}"
        values: Sequence[bytes] = answer.values
        if self._read == query_pb2.PREFIX:
            values = query_pb2.Records.FromString(answer.values[0]).values
        if self._read == query_pb2.WINDOWS:
            found = query_pb2.KeyWindows.FromString(answer.values[0])
            batch = f"in {len(found.windows)} windows {batch}"
            values = [value for records in found.records for value in records.values]
        plural = "s" * (len(values) != 1)
        return f"{len(values)} record{plural}, {sum(map(len, values))} bytes {batch}"


def _window_text(query: query_pb2.Query) -> str:
    if query.namespace in (b"", VOID_NAMESPACE):
        return ""
    try:
        window = TimeWindow.of_namespace(query.namespace)
    except CorruptDataError:
        return f"in namespace {query.namespace[:20].hex()} "
    return f"in window {window.start} to {window.end} ms "
