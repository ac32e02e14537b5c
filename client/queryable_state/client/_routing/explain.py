"""Asks for one key, and how that came about."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.decode_context import DecodeContext
from queryable_state.client._reading.explanation import ExplainStep, Explanation
from queryable_state.client._reading.info import Role
from queryable_state.client._reading.states import state_of
from queryable_state.client._routing.retries import delay_s, is_transient, wants_placement
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    QueryableStateError,
    UnknownKeyOrNamespaceError,
)

if TYPE_CHECKING:
    from queryable_state.client._connection.server_connection import ServerConnection
    from queryable_state.client._routing.dispatcher import Dispatcher
    from queryable_state.client._routing.key_batcher import KeyBatcher
    from queryable_state.wire.located_state import LocatedState

_CONNECTED_WITHIN_S = 1.0


class ExplainedLookup:
    """One look-up of one key, asked of whom a query for it would be asked, and the way to it."""

    def __init__(self, dispatcher: Dispatcher, batcher: KeyBatcher, key: Any) -> None:
        self._dispatcher = dispatcher
        self._batcher = batcher
        self._key = key
        self._steps: list[ExplainStep] = []
        self._begun_ns = time.perf_counter_ns()

    async def explain(self) -> Explanation:
        """Raises as a query for the key, but where a server has answered what was refused."""
        loop = asyncio.get_running_loop()
        batcher, locator = self._batcher, self._dispatcher.locator
        deadline = loop.time() + batcher.options.timeout_s
        attempts = 0
        while True:
            located = await self._locate(deadline)
            batcher.check()
            assert batcher.encode is not None
            try:
                wire_key = batcher.encode(self._key)
            except QueryableStateError as error:
                raise batcher.key_error(error) from None
            owner = located.by_key_group[wire_key[0] << 8 | wire_key[1]]
            server = self._dispatcher.pool.of(owner)
            begun_us = self._us()
            try:
                answer = await self._ask(server, wire_key, deadline - loop.time())
                refusal = _refusal_of(answer)
            except QueryableStateError as error:
                answer, refusal = None, error
            delay = 0.0 if refusal is None else delay_s(refusal, attempts)
            retried = (
                refusal is not None and is_transient(refusal) and loop.time() + delay < deadline
            )
            self._step(
                "client to server",
                begun_us,
                server.address if refusal is None else f"{server.address}: {refusal.message}",
                retried=retried,
            )
            if refusal is None or not retried:
                if answer is None:
                    assert refusal is not None
                    raise refusal
                total_us = self._us()
                # A client that was just made is still about to connect to those it will ask.
                await self._dispatcher.pool.settled(
                    max(0.0, min(_CONNECTED_WITHIN_S, deadline - loop.time()))
                )
                return self._explanation(answer, refusal, total_us)
            attempts += 1
            await asyncio.sleep(delay)
            if wants_placement(refusal):
                begun_us = self._us()
                try:
                    await locator.relocate(batcher.handle, located)
                except QueryableStateError as error:
                    self._step("locate", begun_us, error.message, retried=True)
                else:
                    self._step("locate", begun_us, f"placement {self._placement()}")

    async def _locate(self, deadline: float) -> LocatedState:
        handle, begun_us = self._batcher.handle, self._us()
        known = handle.located is not None
        located = await self._dispatcher.locator.located(handle, deadline)
        if not self._steps:
            detail = f"placement {located.placement_version}"
            self._step("locate", begun_us, detail, cache_hit=known)
        return located

    async def _ask(
        self, server: ServerConnection, wire_key: bytes, timeout_s: float
    ) -> query_pb2.ExplainKvStateResponse:
        handle, options = self._batcher.handle, self._batcher.options
        consistency = options.consistency
        request = query_pb2.GetKvStateRequest(
            job=handle.job,
            state_name=handle.state_name,
            encoded_key=wire_key,
            namespace=options.namespace,
            consistency=consistency.wire,
            allow_incomplete=options.allow_incomplete,
            min_version=consistency.min_version,
            max_staleness_ms=consistency.max_staleness_ms,
        )
        return await self._dispatcher.pool.explain(server, request, timeout_s=max(0.0, timeout_s))

    def _explanation(
        self,
        answer: query_pb2.ExplainKvStateResponse,
        refusal: QueryableStateError | None,
        total_us: int,
    ) -> Explanation:
        handle = self._batcher.handle
        located, codecs = handle.located, handle.codecs
        assert located is not None
        assert codecs is not None
        state = None
        if refusal is None:
            response = answer.response
            context = DecodeContext(codecs, response.info)
            state = state_of(located.registration.kind, response.records, context)
        elif isinstance(refusal, UnknownKeyOrNamespaceError):
            refusal = UnknownKeyOrNamespaceError(self._batcher.missing_text(self._key))
        return Explanation(
            key=self._key,
            state=state,
            error=refusal,
            state_id=answer.state_id,
            key_group=answer.key_group,
            subtask=answer.subtask,
            operator_uid=answer.operator_uid,
            owner_id=answer.owner_id,
            owner_address=answer.owner_address,
            placement_version=answer.placement_version,
            steps=(*self._steps, *(ExplainStep.from_proto(step) for step in answer.steps)),
            connections=self._dispatcher.pool.connections(),
            server_us=answer.total_us,
            total_us=total_us,
        )

    def _placement(self) -> int:
        located = self._batcher.handle.located
        return located.placement_version if located is not None else 0

    def _us(self) -> int:
        return (time.perf_counter_ns() - self._begun_ns) // 1000

    def _step(
        self,
        name: str,
        begun_us: int,
        detail: str,
        *,
        cache_hit: bool = False,
        retried: bool = False,
    ) -> None:
        self._steps.append(
            ExplainStep(
                name=name,
                server_id="",
                role=Role.UNKNOWN,
                begun_us=begun_us,
                took_us=self._us() - begun_us,
                detail=detail,
                cache_hit=cache_hit,
                retried=retried,
            )
        )


def _refusal_of(answer: query_pb2.ExplainKvStateResponse) -> QueryableStateError | None:
    return QueryableStateError.from_proto(answer.error) if answer.HasField("error") else None
