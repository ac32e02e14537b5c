"""How the owner of a key answered for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from queryable_state.server.query.explained import Explained
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.stores.store_table import StoreTable
    from queryable_state.wire.errors import QueryableStateError


class ExplainedRead:
    """Takes down the steps of one read: `begin`, then what the time since went to."""

    def __init__(
        self,
        query: query_pb2.Query,
        server_id: str,
        table: StoreTable,
        lease: Lease,
        arrived_ns: int,
    ) -> None:
        self._query = query
        self._server_id = server_id
        self._arrived_ns = arrived_ns
        self._begun_ns = time.perf_counter_ns()
        self._role: query_pb2.Role.ValueType = query_pb2.OWNER
        self._steps: list[query_pb2.ExplainStep] = []
        self._explanation = query_pb2.ExplainKvStateResponse(
            state_id=query.state_id, placement_version=lease.placement_version
        )
        key = query.keys[0] if query.keys else b""
        if len(key) < 2:
            return
        group = (key[0] << 8) | key[1]
        self._explanation.key_group = group
        self._explanation.encoded_key = key
        route = table.route(query.state_id)
        if route is None:
            return
        self._role = route.job.info.role
        slot = route.slots[group] if group < len(route.slots) else -1
        if slot >= 0:
            subtask = route.subtasks[slot].id
            self._explanation.subtask = subtask.subtask
            self._explanation.operator_uid = subtask.operator_uid
            self._explanation.owner_id = server_id

    def begin(self) -> None:
        """A step begins."""
        self._begun_ns = time.perf_counter_ns()

    def waited(self, behind: QueryableStateError) -> None:
        """The step was to wait for a commit."""
        self._add("wait", behind.message)

    def read(self, answer: query_pb2.Answer) -> None:
        """The step was to read."""
        self._add("read", self._what(answer))

    def explained(self, answer: query_pb2.Answer) -> Explained:
        """The answer and the way to it."""
        if answer.HasField("error"):
            self._add("refuse", answer.error.message)
        explanation = self._explanation
        explanation.steps.extend(self._steps)
        return Explained([answer], explanation)

    def _what(self, answer: query_pb2.Answer) -> str:
        batch = f"as of batch {answer.info.version}"
        if answer.failed:
            return f"{answer.failed[0].error.message} ({batch})"
        if not answer.values:
            return f"nothing is stored there {batch}"
        value = answer.values[0]
        records, size_bytes = 1, len(value)
        if self._query.read == query_pb2.PREFIX:
            values = query_pb2.Records.FromString(value).values
            records, size_bytes = len(values), sum(map(len, values))
        elif self._query.read == query_pb2.SIZE:
            size = query_pb2.Size.FromString(value)
            return f"{size.elements} elements, {size.value_bytes} bytes {batch}"
        return f"{records} record{'s' * (records != 1)}, {size_bytes} bytes {batch}"

    def _add(self, name: str, detail: str) -> None:
        now_ns = time.perf_counter_ns()
        self._steps.append(
            query_pb2.ExplainStep(
                server_id=self._server_id,
                role=self._role,
                name=name,
                begun_us=max(0, self._begun_ns - self._arrived_ns) // 1000,
                took_us=max(0, now_ns - self._begun_ns) // 1000,
                detail=detail,
            )
        )
