"""Proxy session: the queries of one client, routed to the owners of their keys."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from queryable_state.server.query.frames.answer_frames import frame_of, refusal_of
from queryable_state.server.query.proxy.owner_streams import OwnerStreams
from queryable_state.server.query.proxy.proxied_query import ProxiedQuery, SubQuery
from queryable_state.server.query.retries import is_final, is_retried, no_owner
from queryable_state.server.query.router import QuerySession
from queryable_state.v1 import errors_pb2, query_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    QueryableStateError,
    Reason,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from queryable_state.server.metrics.proxy_counts import ProxyCounts
    from queryable_state.server.query.proxy.location_table import LocationTable
    from queryable_state.server.query.proxy.owner_streams import Channels, OwnerStream
    from queryable_state.server.query.router import Deliver, Engine
    from queryable_state.wire.located_state import LocatedState, Owner

# Clients use query ids below it; the session numbers its sub-queries from it.
_PART_IDS = 1 << 63
_SWEEP_S = 0.02


class ProxySession(QuerySession):
    """Relays a query unchanged if one server owns all its keys, else sends each owner a sub-query.

    If state has moved or its owner is gone, the session refreshes the placement and retries until
    the query's deadline; then the keys fail with the last refusal.
    """

    def __init__(
        self,
        deliver: Deliver,
        locations: LocationTable,
        channels: Channels,
        *,
        server_id: str,
        engine: Engine | None,
        default_deadline_ms: int,
        counts: ProxyCounts,
        on_closed: Callable[[ProxySession], None],
    ) -> None:
        self._deliver, self._on_closed = deliver, on_closed
        self._counts = counts
        self._locations = locations
        self._server_id = server_id
        self._engine = engine
        self._default_deadline_ms = default_deadline_ms
        self._loop = asyncio.get_running_loop()
        self._queries: dict[int, ProxiedQuery] = {}
        self._owner_streams = OwnerStreams(
            channels, server_id=server_id, on_answer=self._on_answer, on_end=self._on_end
        )
        self._last_part_id = _PART_IDS
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False
        self._closing: asyncio.Task[None] | None = None

    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        if self._engine is not None and query.id < _PART_IDS and self._owns_key(query):
            found = self._engine.look_up(query)
            if found is not None:
                self._counts.local += 1
                return found
        answer = self.answer(query, frame)
        return None if answer is None else frame_of(answer)

    def _owns_key(self, query: query_pb2.Query) -> bool:
        """True for one key that this process owns, by the known placement."""
        keys, located = query.keys, self._locations.cached(query.state_id)
        if located is None or len(keys) != 1 or len(keys[0]) < 2:
            return False
        owners, group = located.by_key_group, keys[0][0] << 8 | keys[0][1]
        return group < len(owners) and owners[group].server_id == self._server_id

    def answer(self, query: query_pb2.Query, frame: bytes) -> query_pb2.Answer | None:
        """Same as `ask`, but returns the answer before it is framed."""
        if query.id >= _PART_IDS or query.id in self._queries:
            return refusal_of(
                query.id,
                InvalidRequestError(
                    f"query id {query.id} is pending already, or is not below 2**63: use a new id"
                ),
            )
        located = self._locations.cached(query.state_id)
        by_owner: dict[Owner, list[int]] = {}
        if located is not None:
            try:
                by_owner = located.split(query.keys)
            except InvalidRequestError as refusal:
                return refusal_of(query.id, refusal)
            if len(by_owner) == 1:
                answer = self._local_answer(query, next(iter(by_owner)))
                if answer is not None:
                    self._counts.local += 1
                    return answer
        query.deadline_ms = deadline_ms = query.deadline_ms or self._default_deadline_ms
        deadline = self._loop.time() + max(deadline_ms * 0.9, deadline_ms - 50) / 1000
        proxied = ProxiedQuery(query, frame, deadline, self._counts, server_id=self._server_id)
        self._queries[query.id] = proxied
        if self._sweep is None:
            self._sweep = self._loop.call_later(_SWEEP_S, self._expire)
        whole = proxied.part(None)
        if located is None:
            self._run(self._retry_later(whole, 0, None))
        else:
            proxied.located(located, cached=True)
            self._ask_owners(whole, located, by_owner)
        return None

    async def aclose(self) -> None:
        # In a task of its own: the end of a stream may cancel the task that closes the session.
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._closed = True
        for query in self._queries.values():
            query.parts.clear()
        self._queries.clear()
        if self._sweep is not None:
            self._sweep.cancel()
        for task in (tasks := tuple(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._owner_streams.aclose()
        self._on_closed(self)

    def _local_answer(self, query: query_pb2.Query, owner: Owner) -> query_pb2.Answer | None:
        """The whole answer; None if this process does not own the keys or must retry some."""
        if self._engine is None or owner.server_id != self._server_id:
            return None
        answer = self._engine.answer(query)
        return answer if answer is not None and is_final(answer) else None

    async def _local_answer_later(
        self, engine: Engine, part: SubQuery, query: query_pb2.Query
    ) -> None:
        answer = await engine.answer_later(query)
        part.answered(answer, " in this process")
        self._on_answer(part, answer, None)

    def _route(self, part: SubQuery, located: LocatedState) -> None:
        """Sends a part to the owners of its keys by this placement."""
        try:
            by_owner = located.split(part.keys())
        except InvalidRequestError as error:
            self._give_up(part, error.to_proto())
        else:
            self._ask_owners(part, located, by_owner)

    def _ask_owners(
        self, part: SubQuery, located: LocatedState, by_owner: dict[Owner, list[int]]
    ) -> None:
        query = part.query
        if len(by_owner) == 1 and part.positions is None:
            owner = next(iter(by_owner))
            if owner.server_id != self._server_id and owner.address:
                self._counts.relayed += 1
                self._owner_streams.to(owner).ask(query.query.id, query.frame, part)
                return
        self._counts.split += 1
        # All parts are opened first: the answer ends with the last open part.
        parts: list[tuple[Owner, SubQuery]] = []
        for owner, within in by_owner.items():
            positions = within if part.positions is None else [part.positions[at] for at in within]
            parts.append((owner, query.part(positions)))
        query.parts.discard(part)
        for owner, piece in parts:
            self._ask_owner(piece, owner, located)

    def _ask_owner(self, part: SubQuery, owner: Owner, located: LocatedState) -> None:
        assert part.positions is not None
        self._last_part_id += 1
        query = part.query.sub_query(self._last_part_id, part.positions, self._loop.time())
        if self._engine is not None and owner.server_id == self._server_id:
            part.started(owner)
            answer = self._engine.answer(query)
            if answer is None:
                self._run(self._local_answer_later(self._engine, part, query))
            else:
                self._on_answer(part, answer, None)
        elif not owner.address:
            self._retry(part, no_owner(located))
        else:
            frame = query_pb2.ClientFrame(query=query).SerializeToString()
            self._owner_streams.to(owner).ask(query.id, frame, part)

    def _on_answer(self, part: SubQuery, answer: query_pb2.Answer, frame: bytes | None) -> None:
        query = part.query
        if self._closed or part not in query.parts:
            # The answer arrived after the deadline.
            return
        if (
            frame is not None
            and part.positions is None
            and query.trace is None
            and answer.part == query.sent
            and not answer.failed
            and not answer.HasField("error")
        ):
            query.sent += 1
            if answer.last:
                self._end(query)
            self._deliver(query.query.id, frame, answer.last)
            return
        try:
            retried = query.take(part, answer)
        except CorruptDataError as error:
            self._give_up(part, error.to_proto())
            return
        ends = answer.last
        for positions, refusal in retried:
            self._refused(query, positions, refusal)
        if ends:
            query.parts.discard(part)
        last = not query.parts
        if last:
            self._end(query)
        rewritten = query.frame_of_part(answer, last=last)
        if rewritten is not None:
            self._deliver(query.query.id, rewritten, last)

    def _on_end(self, owner_stream: OwnerStream, error: QueryableStateError) -> None:
        """Retries the pending parts of an owner that is gone."""
        self._owner_streams.forget(owner_stream)
        self._run(owner_stream.aclose())
        refusal = error.to_proto()
        for part in owner_stream.pending.values():
            if part in part.query.parts:
                (self._retry if is_retried(refusal) else self._give_up)(part, refusal)

    def _retry(self, part: SubQuery, error: errors_pb2.Error) -> None:
        """Retries all keys of a part."""
        part.refused(error)
        self._refused(part.query, part.indexes(), error)
        part.query.parts.discard(part)

    def _refused(
        self, query: ProxiedQuery, positions: Sequence[int], error: errors_pb2.Error
    ) -> None:
        """Retries keys after a delay, or fails them at the deadline."""
        part, delay = query.part(positions), query.retry_delay_s(error)
        if self._closed or self._loop.time() + delay >= query.deadline:
            # Deferred: the caller may be about to end the part that had these keys.
            self._loop.call_soon(self._give_up, part, error)
            return
        located = self._locations.cached(query.query.state_id)
        known = located.placement_version if located is not None else 0
        self._run(self._retry_later(part, delay, known))

    async def _retry_later(self, part: SubQuery, delay: float, known: int | None) -> None:
        """Routes a part after a delay, with a placement newer than `known` if there is one."""
        query, begun = part.query, self._loop.time()
        state_id = query.query.state_id
        if delay:
            await asyncio.sleep(delay)
        try:
            located = await self._locations.locate_id(state_id, newer_than=known or 0)
        except QueryableStateError as error:
            refusal = error.to_proto()
            retried = is_retried(refusal) or error.reason == Reason.DEADLINE_EXCEEDED
            if part in query.parts:
                (self._retry if retried else self._give_up)(part, refusal)
            return
        if part in query.parts:
            query.located(located, self._loop.time() - begun)
            self._route(part, located)

    def _give_up(self, part: SubQuery, error: errors_pb2.Error) -> None:
        query = part.query
        if self._closed or part not in query.parts:
            return
        query.parts.discard(part)
        last = not query.parts
        if last:
            self._end(query)
        failure = query.frame_of_failure(part.positions, error, last=last)
        self._deliver(query.query.id, failure, last)

    def _end(self, query: ProxiedQuery) -> None:
        query.parts.clear()
        self._queries.pop(query.query.id, None)

    def _expire(self) -> None:
        self._sweep = None
        now = self._loop.time()
        for query in [query for query in self._queries.values() if query.deadline <= now]:
            positions = query.open_positions()
            error = query.timeout_error(self._server_id)
            self._end(query)
            failure = query.frame_of_failure(positions, error, last=True)
            self._deliver(query.query.id, failure, True)
        if self._queries:
            self._sweep = self._loop.call_later(_SWEEP_S, self._expire)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
