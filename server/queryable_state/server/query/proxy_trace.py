"""Trace of a proxy for one query with `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.query.query_trace import QueryTrace, refusal_in
from queryable_state.server.query.retries import is_retried
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from queryable_state.v1 import errors_pb2
    from queryable_state.wire.located_state import LocatedState, Owner


class ProxyTrace(QueryTrace):
    """Steps for locating and for each call of an owner, with the steps of that owner."""

    def __init__(self, server_id: str, keys: Sequence[bytes]) -> None:
        super().__init__(server_id, query_pb2.PROXY, keys)
        self._calls: dict[Hashable, tuple[Owner, int]] = {}

    def located(self, located: LocatedState, took_s: float, *, cached: bool) -> None:
        """Adds the look-up of a placement; `took_s` is 0 if it was cached."""
        detail = f"{located.describe()}, placement {located.placement_version}"
        self.proto.placement_version = located.placement_version
        self.proto.asks_all_partitions = located.registration.asks_all_partitions
        # The loop's clock may be behind, so the start can be before the arrival.
        self.add("locate", max(0, self.now_us - int(took_s * 1e6)), detail, cache_hit=cached)

    def asks(self, part: Hashable, owner: Owner) -> None:
        """Starts the step of a call of an owner."""
        self._calls[part] = (owner, self.now_us)
        self.proto.owner_id, self.proto.owner_address = owner.server_id, owner.address

    def answered(self, part: Hashable, answer: query_pb2.Answer, how: str) -> None:
        """Ends the step of a call; adds the owner's steps from the last frame of its answer."""
        self._end(part, how, refusal_in(answer))
        owner_trace = answer.trace
        self.proto.steps.extend(owner_trace.steps)
        if owner_trace.operator_uid:
            self.proto.subtask, self.proto.operator_uid = (
                owner_trace.subtask,
                owner_trace.operator_uid,
            )
        answer.ClearField("trace")

    def refused(self, part: Hashable, error: errors_pb2.Error) -> None:
        """Ends the step of a part whose owner is gone, or that has no owner."""
        self._end(part, "", error)

    def _end(self, part: Hashable, how: str, refusal: errors_pb2.Error | None) -> None:
        owner, begun_us = self._calls.pop(part, (None, self.now_us))
        detail = "nobody" if owner is None else f"{owner.server_id} at {owner.address}{how}"
        if refusal is None:
            self.add("ask owner", begun_us, detail)
        else:
            text = f"{detail}: {refusal.message}"
            self.add("ask owner", begun_us, text, retried=is_retried(refusal))
