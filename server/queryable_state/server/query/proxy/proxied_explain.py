"""One key's way through a proxy, step by step."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from queryable_state.server.query.explained import Explained
from queryable_state.server.query.retries import delay_s, is_retried, no_owner
from queryable_state.v1 import errors_pb2, query_pb2
from queryable_state.wire.errors import QueryableStateError, Reason

if TYPE_CHECKING:
    from queryable_state.server.query.proxy.location_table import LocationTable
    from queryable_state.server.query.proxy.owner_calls import OwnerCalls
    from queryable_state.server.query.router import Engine
    from queryable_state.wire.located_state import LocatedState, Owner

# Of the query's time: the caller is to learn why before it gives up.
_PART_OF_DEADLINE = 0.9


class ProxiedExplain:
    """Asks the owner of one key how it answers, and others as long as it refuses for its place."""

    def __init__(
        self,
        query: query_pb2.Query,
        located: LocatedState,
        arrived_ns: int,
        locations: LocationTable,
        calls: OwnerCalls,
        *,
        server_id: str,
        engine: Engine | None,
        default_deadline_ms: int,
    ) -> None:
        self._query = query
        self._located = located
        self._arrived_ns = arrived_ns
        self._locations = locations
        self._calls = calls
        self._server_id = server_id
        self._engine = engine
        left_ms = (query.deadline_ms or default_deadline_ms) * _PART_OF_DEADLINE
        self._until_s = time.monotonic() + left_ms / 1000
        self._steps: list[query_pb2.ExplainStep] = []

    async def explained(self) -> Explained:
        """The answer and the way to it; a refusal stands in the answer."""
        located = self._located
        # Raises for a key of no key group.
        located.split(self._query.keys)
        key = self._query.keys[0]
        attempts = 0
        while True:
            owner = located.by_key_group[key[0] << 8 | key[1]]
            step = self._begin("ask owner", f"{owner.server_id or 'nobody'} at {owner.address}")
            found = await self._asked(owner, located)
            self._end(step)
            problem = self._calls.transport_problem(owner)
            if problem:
                step.detail += f"; look-ups go there over gRPC: {problem}"
            refusal = _refusal(found.answers[0])
            if refusal is None:
                return self._told(found, owner, located)
            step.detail += f": {refusal.message}"
            delay = delay_s(refusal, attempts)
            if not is_retried(refusal) or time.monotonic() + delay >= self._until_s:
                return self._told(found, owner, located)
            step.retried = True
            # What the owner did for an attempt that failed is told, too.
            self._steps.extend(found.explanation.steps)
            attempts += 1
            located = await self._located_anew(located, delay)

    async def _located_anew(self, located: LocatedState, delay: float) -> LocatedState:
        step = self._begin("locate", f"after {delay * 1000:.0f} ms of patience")
        await asyncio.sleep(delay)
        try:
            return await self._locations.locate_id(
                located.state_id, newer_than=located.placement_version
            )
        except QueryableStateError as problem:
            step.detail += f": {problem.message}"
            return located
        finally:
            self._end(step)

    async def _asked(self, owner: Owner, located: LocatedState) -> Explained:
        query = self._query
        if self._engine is not None and owner.server_id == self._server_id:
            return await self._engine.explain(query, self._arrived_ns)
        try:
            if not owner.address:
                raise QueryableStateError.from_proto(no_owner(located))
            left_s = max(0.001, self._until_s - time.monotonic())
            response = await self._calls.explain(owner, _request(query, located), left_s)
        except QueryableStateError as refusal:
            answer = query_pb2.Answer(last=True, error=refusal.to_proto())
            return Explained([answer], query_pb2.ExplainKvStateResponse())
        return Explained([_answer(query, response)], response)

    def _told(self, found: Explained, owner: Owner, located: LocatedState) -> Explained:
        """The owner's explanation behind the proxy's own steps."""
        explanation = query_pb2.ExplainKvStateResponse()
        explanation.CopyFrom(found.explanation)
        for name in ("response", "error", "total_us", "steps"):
            explanation.ClearField(name)
        key = self._query.keys[0]
        explanation.state_id = located.state_id
        explanation.key_group = key[0] << 8 | key[1]
        explanation.encoded_key = key
        explanation.owner_id = owner.server_id
        explanation.owner_address = owner.address
        explanation.placement_version = located.placement_version
        explanation.steps.extend([*self._steps, *found.explanation.steps])
        return Explained(found.answers, explanation)

    def _begin(self, name: str, detail: str) -> query_pb2.ExplainStep:
        begun_us = (time.perf_counter_ns() - self._arrived_ns) // 1000
        step = query_pb2.ExplainStep(
            server_id=self._server_id,
            role=query_pb2.PROXY,
            name=name,
            begun_us=max(0, begun_us),
            detail=detail,
        )
        self._steps.append(step)
        return step

    def _end(self, step: query_pb2.ExplainStep) -> None:
        now_us = (time.perf_counter_ns() - self._arrived_ns) // 1000
        step.took_us = max(0, now_us - step.begun_us)


def _refusal(answer: query_pb2.Answer) -> errors_pb2.Error | None:
    if answer.HasField("error"):
        return answer.error
    return answer.failed[0].error if answer.failed else None


def _request(query: query_pb2.Query, located: LocatedState) -> query_pb2.GetKvStateRequest:
    """The call that an owner reads as this query."""
    registration = located.registration
    request = query_pb2.GetKvStateRequest(
        job=registration.job_id.hex(),
        state_name=registration.queryable_name,
        encoded_key=query.keys[0],
        namespace=query.namespace,
        consistency=query.consistency,
        allow_incomplete=query.allow_incomplete,
        min_version=query.min_version,
        max_staleness_ms=query.max_staleness_ms,
        read=query.read,
    )
    if query.elements:
        request.element = query.elements[0]
    return request


def _answer(query: query_pb2.Query, response: query_pb2.ExplainKvStateResponse) -> query_pb2.Answer:
    """What the owner answered, as it would have in a stream."""
    answer = query_pb2.Answer(last=True, info=response.response.info)
    records = response.response.records
    if response.HasField("error"):
        if response.error.reason == Reason.UNKNOWN_KEY:
            answer.missing.append(0)
        else:
            answer.error.CopyFrom(response.error)
    elif query.read == query_pb2.PREFIX:
        answer.values.append(records.SerializeToString())
    elif records.values:
        answer.values.append(records.values[0])
    else:
        answer.missing.append(0)
    return answer
