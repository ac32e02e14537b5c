"""Reader of the state that this server owns."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import TYPE_CHECKING

from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.query.frames.answer_frames import value_frame
from queryable_state.server.state_server.owned_hot_keys import hot_keys_of
from queryable_state.server.state_server.queries.element_reads import read_elements
from queryable_state.server.state_server.queries.key_reads import (
    AnswerFailures,
    LongReadError,
    RecordCount,
    StoreReaders,
    check_whole_keys,
    read_points,
    read_prefixes,
    read_record,
)
from queryable_state.server.state_server.queries.operator_reads import read_operator_state
from queryable_state.server.state_server.queries.size_estimate import measured
from queryable_state.server.state_server.queries.state_scan import OpenScans, StateScan
from queryable_state.server.state_server.queries.versions import (
    RequestedVersion,
    RequestedVersions,
    ViewReaders,
    copy_of,
    held_still,
    newest_version,
    views_at,
    with_ttl,
)
from queryable_state.server.state_server.queries.window_reads import read_windows
from queryable_state.server.state_server.read_trace import ReadTrace
from queryable_state.server.state_server.watches.state_watch import watched
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InternalError, QueryableStateError, VersionGoneError
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE
from queryable_state.wire.keys.time_window import check_window, stored_namespace
from queryable_state.wire.operator_state import OPERATOR_KINDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.queries.key_reads import Readers
    from queryable_state.server.state_server.stores.store_table import StateRoute, StoreTable
    from queryable_state.v1 import hot_keys_pb2, registration_pb2, watch_pb2

_defects = RateLimitedLog(logging.getLogger(__name__))


# Records that a query reads on the event loop, which takes some milliseconds; longer reads run on
# the background thread.
_RECORDS_AT_ONCE = 2048


class StateReader:
    """Reads committed (or staged) state on the event loop, older versions on the background thread.

    The query service has checked number and length of the keys. Used only on the event loop that
    also commits, so an answer sees one version of all stores of a job. This server's clock decides
    about expiry.
    """

    def __init__(
        self,
        table: StoreTable,
        lease: Lease,
        limits: Limits,
        background: BackgroundThread,
        *,
        server_id: str,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        default_deadline_ms: int = 10_000,
    ) -> None:
        self.server_id, self.limits = server_id, limits
        self._table, self._lease, self._background = table, lease, background
        self._now_ms = now_ms
        self._versions = RequestedVersions(
            table,
            lease,
            server_id=server_id,
            now_ms=now_ms,
            default_deadline_ms=default_deadline_ms,
        )
        self._scans = OpenScans()
        self.failed: Counter[str] = Counter()
        """Failed queries of states of which this server has no part, by reason."""

    def registration(self, state_id: int) -> registration_pb2.StateRegistration | None:
        """The registration of a state; None if this server owns no part of it."""
        return self._table.registration(state_id)

    def look_up(self, query: query_pb2.Query) -> bytes | None:
        """The serialized `ServerFrame` of the value of one key; None if `answer` has to answer.

        A straight line for the most frequent query: the newest committed record of a state whose
        records are answered as they are stored. Never raises: `answer` refuses what it leaves.
        """
        route, keys = self._table.route(query.state_id), query.keys
        if (
            route is None
            or not route.is_plain
            or len(keys) != 1
            or query.read
            or query.consistency
            or query.namespace
            or query.min_version
            or query.max_staleness_ms
            or query.explain
            or query.HasField("at_version")
            or not self._lease.holds()
        ):
            return None
        key = keys[0]
        store_key = key + VOID_NAMESPACE
        value = route.records.get(store_key)
        if value is None:
            try:
                value = read_record(route, query.state_id, key, store_key)
            except Exception:  # noqa: BLE001 - `answer` has the same failure, and refuses with it
                return None
        if value is None or len(value) > self.limits.answer_bytes:
            return None
        asked = route.asked
        asked.left -= 1
        if asked.left < 0:
            asked.take(keys)
        return value_frame(query.id, value, route.job.info_field)

    def answer(self, query: query_pb2.Query) -> query_pb2.Answer | None:
        """The whole answer in one part; None if it takes longer. Never raises."""
        if query.explain:
            # A trace takes longer.
            return None
        try:
            return self._answer(query)
        except Exception as problem:  # noqa: BLE001 - one query must not end its stream
            return self._failure(query, problem)

    async def answer_later(self, query: query_pb2.Query) -> query_pb2.Answer:
        """The whole answer, after waiting for its version. Never raises."""
        if not query.explain:
            return await self._answer_later(query, None)
        trace = ReadTrace(query, self._table, self._lease, server_id=self.server_id)
        answer = await self._answer_later(query, trace)
        trace.answered(answer)
        return answer

    def scan(self, query: ScanQuery) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """The keys of a range, as of one version."""
        return StateScan(
            query,
            self._table,
            self._versions,
            self._lease,
            self._background,
            self.limits,
            self._scans,
            server_id=self.server_id,
            now_ms=self._now_ms,
        ).messages()

    def watch(self, query: WatchQuery) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """The committed changes of keys of a state."""
        return watched(query, self._table, self._versions, self._lease, self._background)

    async def measure(self, state_id: int) -> list[query_pb2.StatePart]:
        """The size of a state on this server."""
        route = self._versions.route(state_id)
        return await measured(route, state_id, self._background, self._now_ms())

    def hot_keys(self, state_id: int, limit: int) -> hot_keys_pb2.ListHotKeysResponse:
        """The keys of a state that were touched most often on this server."""
        return hot_keys_of(self._versions.route(state_id), limit)

    async def _answer_later(
        self, query: query_pb2.Query, trace: ReadTrace | None
    ) -> query_pb2.Answer:
        try:
            deadline_s = self._versions.deadline_s(query.deadline_ms)
            while True:
                answer = self._answer(query)
                if answer is None:
                    route = self._versions.route(query.state_id)
                    requested = RequestedVersion.of(query)
                    behind = self._versions.behind(route, requested)
                    if behind is not None:
                        try:
                            await self._versions.wait(route, requested, behind, deadline_s)
                        finally:
                            if trace is not None:
                                trace.waited(behind)
                        continue
                    try:
                        answer = await self._answer_pinned(route, query)
                    except VersionGoneError:
                        if query.HasField("at_version"):
                            raise
                        # Newer batches were committed before the read began.
                        continue
                return answer
        except Exception as problem:  # noqa: BLE001 - the answer has the error
            return self._failure(query, problem)

    def _failure(self, query: query_pb2.Query, problem: Exception) -> query_pb2.Answer:
        """The answer that refuses a query; logs defects."""
        if not isinstance(problem, QueryableStateError):
            _defects.write(
                logging.ERROR,
                type(problem).__name__,
                "query %d of state %d failed",
                query.id,
                query.state_id,
                problem=problem,
            )
            problem = InternalError(
                f"server {self.server_id} failed to read state {query.state_id} "
                f"({type(problem).__name__}); see the stack trace in its log"
            )
        route = self._table.route(query.state_id)
        (self.failed if route is None else route.reads.failed)[problem.reason_name] += 1
        return query_pb2.Answer(id=query.id, last=True, error=problem.to_proto())

    def _answer(self, query: query_pb2.Query) -> query_pb2.Answer | None:
        self._lease.check()
        # The second look-up raises if there is no route.
        route = self._table.route(query.state_id) or self._versions.route(query.state_id)
        if query.min_version or query.max_staleness_ms or query.HasField("at_version"):
            requested = RequestedVersion.of(query)
            if self._versions.behind(route, requested) is not None or (
                requested.at_version is not None
                and requested.at_version < route.job.committed_version
            ):
                return None
        info = route.job.info
        if query.consistency == query_pb2.UNCOMMITTED:
            info = self._versions.info(route, query.consistency)
        readers, counted = StoreReaders(route, query), RecordCount(_RECORDS_AT_ONCE)
        try:
            answer = self._read(route, query, readers, info, self._now_ms(), counted)
        except LongReadError:
            return None
        asked = route.asked
        asked.left -= len(query.keys)
        if asked.left < 0:
            asked.take(query.keys)
        return answer

    async def _answer_pinned(self, route: StateRoute, query: query_pb2.Query) -> query_pb2.Answer:
        """Reads an older batch or many records in the background; then checks the lease."""
        held = held_still(route)
        if query.HasField("at_version"):
            info, versions = route.job.info_at(query.at_version), [query.at_version]
            versions *= len(held.subtasks)
        else:
            info = copy_of(self._versions.info(route, query.consistency))
            versions = [newest_version(each.store, query.consistency) for each in held.subtasks]
        # Submitted in the loop turn that found the stores: a store is closed by a later job of
        # the same thread.
        answer = await self._background.run(
            self._read_views, held, versions, query, info, self._now_ms()
        )
        self._lease.check()
        route.asked.count(query.keys)
        return answer

    def _read_views(
        self,
        route: StateRoute,
        versions: list[int],
        query: query_pb2.Query,
        info: query_pb2.ReadInfo,
        now_ms: int,
    ) -> query_pb2.Answer:
        with views_at(versions, route, allow_incomplete=query.allow_incomplete) as views:
            readers = ViewReaders(query, views)
            return self._read(route, query, readers, info, now_ms, RecordCount(None))

    def _read(
        self,
        route: StateRoute,
        query: query_pb2.Query,
        readers: Readers,
        info: query_pb2.ReadInfo,
        now_ms: int,
        counted: RecordCount,
    ) -> query_pb2.Answer:
        keys = list(query.keys)
        failures = AnswerFailures(route, self.server_id, self._lease.placement_version)
        limits, read = self.limits, query.read
        if query.namespace or route.is_windowed or read == query_pb2.WINDOWS:
            check_window(route.registration, query.namespace, read)
            query.namespace = stored_namespace(route.registration, query.namespace)
        if route.registration.kind in OPERATOR_KINDS:
            values, missing = read_operator_state(
                route, query, keys, failures, readers.operator_states(), limits, counted
            )
        elif read == query_pb2.POINT:
            # A point read has the record whose whole store key the query names, or none: a part
            # of a key finds nothing.
            values, missing = read_points(route, query, keys, now_ms, failures, readers, limits)
        else:
            check_whole_keys(route, keys)
            if read == query_pb2.PREFIX:
                values, missing = read_prefixes(
                    route, query, keys, now_ms, failures, readers.prefixes(), limits, counted
                )
            elif read == query_pb2.WINDOWS:
                values, missing = read_windows(
                    route, query, keys, now_ms, failures, readers.prefixes(), limits, counted
                )
            else:
                values, missing = read_elements(
                    route, query, keys, now_ms, failures, readers, limits, counted
                )
        info = with_ttl(info, route, now_ms)
        if route.incomplete and query.allow_incomplete:
            info = copy_of(info)
            since = [subtask.complete_since_batch for subtask in route.subtasks]
            info.complete_since_batch = max(since, default=0)
        return query_pb2.Answer(
            id=query.id,
            last=True,
            values=values,
            missing=missing,
            failed=failures.to_proto() if failures.positions else (),
            info=info,
        )
