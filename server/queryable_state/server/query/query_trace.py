"""Trace of one server for a query with `explain`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.v1 import errors_pb2


class QueryTrace:
    """A `Trace` under construction; its clock starts on creation, at the arrival of the query."""

    def __init__(
        self, server_id: str, role: query_pb2.Role.ValueType, keys: Sequence[bytes]
    ) -> None:
        self.proto = query_pb2.Trace()
        if keys and len(keys[0]) > 1:
            self.proto.key_group = keys[0][0] << 8 | keys[0][1]
        self._server_id = server_id
        self._role = role
        self._arrived_ns = time.perf_counter_ns()

    @property
    def now_us(self) -> int:
        """Microseconds since the query arrived."""
        return (time.perf_counter_ns() - self._arrived_ns) // 1000

    def add(
        self,
        name: str,
        begun_us: int,
        detail: str,
        *,
        cache_hit: bool = False,
        retried: bool = False,
    ) -> None:
        """Adds a step that ends now."""
        self.proto.steps.add(
            server_id=self._server_id,
            role=self._role,
            name=name,
            begun_us=begun_us,
            took_us=self.now_us - begun_us,
            detail=detail,
            cache_hit=cache_hit,
            retried=retried,
        )

    def put_into(self, answer: query_pb2.Answer) -> None:
        """Puts the trace into the last frame of an answer."""
        self.proto.total_us = self.now_us
        answer.trace.CopyFrom(self.proto)


def refusal_in(answer: query_pb2.Answer) -> errors_pb2.Error | None:
    """The first refusal in an answer; None if there is none."""
    if answer.HasField("error"):
        return answer.error
    return answer.failed[0].error if answer.failed else None
