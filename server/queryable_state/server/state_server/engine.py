"""Answers queries from the state this server owns: the hot path."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from queryable_state.server.state_server.answer_failures import AnswerFailures
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    InternalError,
    InvalidRequestError,
    PlacementError,
    QueryableStateError,
    Reason,
    RetryLaterError,
)
from queryable_state.wire.store_keys import VOID_NAMESPACE
from queryable_state.wire.values import HAS_EXPIRY, is_expired

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from queryable_state.server.query.explained import Explained
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.settings import Limits
    from queryable_state.server.state_server.lease import Lease
    from queryable_state.server.state_server.store_table import StateRoute, StoreTable
    from queryable_state.v1 import registration_pb2

_log = logging.getLogger(__name__)

_BEHIND_RETRY_MS = 50


class QueryEngine:
    """Reads committed (or staged) state on the event loop, without ever waiting.

    The service in front has checked the number and the length of the keys.

    Only on the thread of the event loop that also commits: an answer sees one version of
    all stores of a job. Expiry is judged by this server's clock.
    """

    def __init__(
        self,
        table: StoreTable,
        lease: Lease,
        limits: Limits,
        *,
        server_id: str,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.server_id = server_id
        self.limits = limits
        self._table = table
        self._lease = lease
        self._now_ms = now_ms

    def registration(self, state_id: int) -> registration_pb2.StateRegistration | None:
        """The registration of a state this server has a part of; None: it has none."""
        return self._table.registration(state_id)

    def answer(self, query: query_pb2.Query) -> query_pb2.Answer:
        """The whole answer, in one part. Never raises: refusals stand in the answer."""
        try:
            return self._answer(query)
        except QueryableStateError as refusal:
            return query_pb2.Answer(id=query.id, last=True, error=refusal.to_proto())
        except Exception as defect:  # noqa: BLE001 - one query must not end its stream
            _log.exception("query %d of state %d failed", query.id, query.state_id)
            error = InternalError(
                f"server {self.server_id} failed to read state {query.state_id} "
                f"({type(defect).__name__}); its log has the trace"
            )
            return query_pb2.Answer(id=query.id, last=True, error=error.to_proto())

    async def answer_later(self, query: query_pb2.Query) -> query_pb2.Answer:
        return self.answer(query)

    def scan(self, query: ScanQuery) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        raise self._unsupported("scan")

    async def measure(self, state_id: int) -> list[query_pb2.StatePart]:
        raise self._unsupported("measure")

    async def explain(self, query: query_pb2.Query, arrived_ns: int) -> Explained:
        raise self._unsupported("explain")

    def _unsupported(self, what: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"server {self.server_id} cannot {what}", reason=Reason.UNSUPPORTED
        )

    def _answer(self, query: query_pb2.Query) -> query_pb2.Answer:
        self._lease.check()
        route = self._table.route(query.state_id)
        if route is None:
            raise PlacementError(
                f"server {self.server_id} owns no key group of state {query.state_id}: "
                "locate its owners anew",
                placement_version=self._lease.placement_version,
            )
        keys = list(query.keys)
        info = self._info(route, query)
        now_ms = self._now_ms()
        self._check_freshness(route, query, info, now_ms)
        failures = AnswerFailures(route, self.server_id, self._lease.placement_version)
        if query.read == query_pb2.PREFIX:
            values, missing = self._read_prefixes(route, query, keys, now_ms, failures)
        else:
            values, missing = self._read_points(route, query, keys, now_ms, failures)
        if route.incomplete and query.allow_incomplete:
            info = _copy(info)
            info.complete_since_batch = max(
                (subtask.complete_since_batch for subtask in route.subtasks), default=0
            )
        return query_pb2.Answer(
            id=query.id,
            last=True,
            values=values,
            missing=missing,
            failed=failures.to_proto() if failures else (),
            info=info,
        )

    def _read_points(
        self,
        route: StateRoute,
        query: query_pb2.Query,
        keys: list[bytes],
        now_ms: int,
        failures: AnswerFailures,
    ) -> tuple[list[bytes], list[int]]:
        namespace = query.namespace or VOID_NAMESPACE
        uncommitted = query.consistency == query_pb2.UNCOMMITTED
        # One reader a store, None where it may not be asked; the last one is NOT_HERE's.
        readers = [
            subtask.store.reader(query.state_id, uncommitted)
            if query.allow_incomplete or not subtask.complete_since_batch
            else None
            for subtask in route.subtasks
        ]
        readers.append(None)
        slots = route.slots
        left = self.limits.answer_bytes
        values: list[bytes] = []
        missing: list[int] = []
        keep = values.append
        for position, key in enumerate(keys):
            try:
                read = readers[slots[(key[0] << 8) | key[1]]]
            except IndexError:
                raise _no_key_group(route, position, key) from None
            if read is None:
                failures.add(position, slots[(key[0] << 8) | key[1]])
                continue
            value = read(key + namespace)
            if value is None:
                missing.append(position)
                continue
            if value[0] & HAS_EXPIRY:
                try:
                    expired = self._expired(route, value, now_ms)
                except CorruptDataError as problem:
                    failures.add_corrupt(position, problem)
                    continue
                if expired:
                    missing.append(position)
                    continue
            left -= len(value)
            if left < 0:
                failures.add_too_large(position)
                continue
            keep(value)
        return values, missing

    def _read_prefixes(
        self,
        route: StateRoute,
        query: query_pb2.Query,
        keys: list[bytes],
        now_ms: int,
        failures: AnswerFailures,
    ) -> tuple[list[bytes], list[int]]:
        namespace = query.namespace or VOID_NAMESPACE
        uncommitted = query.consistency == query_pb2.UNCOMMITTED
        slots, most = route.slots, self.limits.prefix_records
        left, records_left = self.limits.answer_bytes, most
        values: list[bytes] = []
        missing: list[int] = []
        for position, key in enumerate(keys):
            try:
                slot = slots[(key[0] << 8) | key[1]]
            except IndexError:
                raise _no_key_group(route, position, key) from None
            if slot < 0 or (
                route.subtasks[slot].complete_since_batch and not query.allow_incomplete
            ):
                failures.add(position, slot)
                continue
            if left < 0 or records_left <= 0:
                failures.add_too_large(position)
                continue
            prefix = key + namespace
            records = route.subtasks[slot].store.prefix(
                query.state_id, prefix, uncommitted, most + 1
            )
            if len(records) > most:
                failures.add_too_many_records(position, most)
                continue
            records_left -= len(records)
            start = len(prefix)
            found = query_pb2.Records()
            try:
                for record_key, value in records:
                    if not (value[0] & HAS_EXPIRY and self._expired(route, value, now_ms)):
                        found.elements.append(record_key[start:])
                        found.values.append(value)
            except CorruptDataError as problem:
                failures.add_corrupt(position, problem)
                continue
            if not found.values:
                missing.append(position)
                continue
            serialized = found.SerializeToString()
            left -= len(serialized)
            if left < 0 and values:
                failures.add_too_large(position)
                continue
            values.append(serialized)
        return values, missing

    @staticmethod
    def _expired(route: StateRoute, value: bytes, now_ms: int) -> bool:
        return not route.registration.ttl.return_expired and is_expired(value, now_ms)

    def _info(self, route: StateRoute, query: query_pb2.Query) -> query_pb2.ReadInfo:
        """The commit the values are read at, or the sealed batch where those are asked for."""
        info = route.job.info
        if query.consistency == query_pb2.UNCOMMITTED:
            staged = max(
                (-1 if version is None else version)
                for version in (subtask.store.staged_version for subtask in route.subtasks)
            )
            if staged > info.version:
                info = _copy(info)
                info.version = staged
                info.commit_time_ms = 0
        return info

    def _check_freshness(
        self, route: StateRoute, query: query_pb2.Query, info: query_pb2.ReadInfo, now_ms: int
    ) -> None:
        if query.min_version and info.version < query.min_version:
            raise RetryLaterError(
                f"server {self.server_id} is at batch {info.version} of state {query.state_id}, "
                f"batch {query.min_version} was asked for: ask again once it is committed",
                reason=Reason.BEHIND,
                retry_after_ms=_BEHIND_RETRY_MS,
            )
        age_ms = now_ms - route.job.info.commit_time_ms
        if query.max_staleness_ms and age_ms > query.max_staleness_ms:
            raise RetryLaterError(
                f"the newest commit of state {query.state_id} on server {self.server_id} is batch "
                f"{route.job.committed_version}, {age_ms} ms old; at most "
                f"{query.max_staleness_ms} ms were asked for: ask again after the next commit",
                reason=Reason.BEHIND,
                retry_after_ms=_BEHIND_RETRY_MS,
            )


def _no_key_group(route: StateRoute, position: int, key: bytes) -> InvalidRequestError:
    return InvalidRequestError(
        f"key {position} of the query ({key[:16].hex()}...) does not begin with a key group below "
        f"{route.registration.max_parallelism}: send key group (2 bytes) and encoded key"
    )


def _copy(info: query_pb2.ReadInfo) -> query_pb2.ReadInfo:
    copied = query_pb2.ReadInfo()
    copied.CopyFrom(info)
    return copied
