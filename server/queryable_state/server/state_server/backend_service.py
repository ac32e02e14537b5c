"""The RPCs of a state server for tasks and the coordinator."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.internal.v1 import backend_pb2, backend_pb2_grpc
from queryable_state.server.metrics.call_counts import CallCounts
from queryable_state.server.serving.timed_boundary import TimedBoundary
from queryable_state.server.state_server.batches.fetches import read_fetches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable

    from queryable_state.server.serving.error_boundary import Context
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.batches.attempt_starter import AttemptStarter
    from queryable_state.server.state_server.batches.staging import Staging
    from queryable_state.server.state_server.owned_stores import OwnedStores
    from queryable_state.server.state_server.snapshots.snapshots import Snapshots
    from queryable_state.server.state_server.stores.owner_table import OwnerTable


_log = logging.getLogger(__name__)
_T = TypeVar("_T")


async def _all(calls: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Runs calls concurrently; when all have ended, raises the first error or returns the results.

    A call is never cancelled half-way because another one failed.
    """
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    results = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results


async def _frames(changes: backend_pb2.SealedChanges) -> AsyncIterator[backend_pb2.PrepareRequest]:
    yield backend_pb2.PrepareRequest(open=changes.open)
    for block in changes.blocks:
        yield backend_pb2.PrepareRequest(block=block)
    yield backend_pb2.PrepareRequest(seal=changes.seal)


class BackendService(backend_pb2_grpc.StateBackendServicer):
    """The `StateBackend` RPCs: translates each request into a call of one part of the server."""

    def __init__(
        self,
        owners: OwnerTable,
        opener: AttemptStarter,
        staging: Staging,
        owned_stores: OwnedStores,
        snapshots: Snapshots,
        background: BackgroundThread,
        *,
        stop: asyncio.Event,
    ) -> None:
        self._owners = owners
        self._opener = opener
        self._staging = staging
        self._owned_stores = owned_stores
        self._snapshots = snapshots
        self._background = background
        self._stop = stop
        self.calls = CallCounts()

    async def LocateSubtask(
        self, request: backend_pb2.LocateSubtaskRequest, context: Context
    ) -> backend_pb2.LocateSubtaskResponse:
        async with TimedBoundary(context, "LocateSubtask", self.calls):
            return await self._owners.locate(request)

    async def ReportFailedAttempt(
        self, request: backend_pb2.FailedAttempt, context: Context
    ) -> backend_pb2.ReportFailedAttemptResponse:
        async with TimedBoundary(context, "ReportFailedAttempt", self.calls):
            return await self._opener.report_failed(request)

    async def OpenSubtasks(
        self, request: backend_pb2.OpenSubtasksRequest, context: Context
    ) -> backend_pb2.OpenSubtasksResponse:
        async with TimedBoundary(context, "OpenSubtasks", self.calls):
            await self._opener.open_subtasks(request)
            return backend_pb2.OpenSubtasksResponse()

    async def Begin(
        self, request: backend_pb2.BeginRequest, context: Context
    ) -> backend_pb2.BeginResponse:
        async with TimedBoundary(context, "Begin", self.calls):
            return await self._opener.begin(request)

    async def Fetch(
        self, request: backend_pb2.FetchRequest, context: Context
    ) -> backend_pb2.FetchResponse:
        async with TimedBoundary(context, "Fetch", self.calls):
            return await self._fetched(request)

    async def _fetched(self, request: backend_pb2.FetchRequest) -> backend_pb2.FetchResponse:
        _, subtask = self._staging.begun(request.subtask, request.batch_id, request.token)
        return await self._background.run(
            read_fetches,
            subtask.store,
            request.batch_id - 1,
            request.fetches,
            {state_id: state.kind for state_id, state in subtask.states.items()},
        )

    async def Prepare(
        self, request_iterator: AsyncIterator[backend_pb2.PrepareRequest], context: Context
    ) -> backend_pb2.PrepareResponse:
        async with TimedBoundary(context, "Prepare", self.calls):
            return await self._staging.prepare(aiter(request_iterator))

    async def BeginAll(
        self, request: backend_pb2.BeginAllRequest, context: Context
    ) -> backend_pb2.BeginAllResponse:
        async with TimedBoundary(context, "BeginAll", self.calls):
            begun = await _all(self._opener.begin(each) for each in request.begins)
            return backend_pb2.BeginAllResponse(begun=begun)

    async def FetchAll(
        self, request: backend_pb2.FetchAllRequest, context: Context
    ) -> backend_pb2.FetchAllResponse:
        async with TimedBoundary(context, "FetchAll", self.calls):
            answers = await _all(self._fetched(each) for each in request.fetches)
            return backend_pb2.FetchAllResponse(answers=answers)

    async def PrepareAll(
        self, request: backend_pb2.PrepareAllRequest, context: Context
    ) -> backend_pb2.PrepareAllResponse:
        async with TimedBoundary(context, "PrepareAll", self.calls):
            staged = await _all(self._staging.prepare(_frames(each)) for each in request.prepares)
            staged_bytes = max((each.staged_bytes for each in staged), default=0)
            return backend_pb2.PrepareAllResponse(staged_bytes=staged_bytes)

    async def ReportSeals(
        self, request: backend_pb2.ReportSealsRequest, context: Context
    ) -> backend_pb2.ReportSealsResponse:
        async with TimedBoundary(context, "ReportSeals", self.calls):
            sealed = self._owned_stores.sealed(request.query_id, request.version)
            return backend_pb2.ReportSealsResponse(sealed=sealed)

    async def Commit(
        self, request: backend_pb2.CommitRequest, context: Context
    ) -> backend_pb2.CommitResponse:
        async with TimedBoundary(context, "Commit", self.calls):
            return backend_pb2.CommitResponse(sealed=self._owned_stores.commit(request))

    async def Snapshot(
        self, request: backend_pb2.SnapshotRequest, context: Context
    ) -> AsyncIterator[backend_pb2.SnapshotEvent]:
        async with TimedBoundary(context, "Snapshot", self.calls):
            await self._opener.replace_failed(request.query_id)
            events = self._snapshots.write(request)
            async with aclosing(events):
                async for event in events:
                    yield event

    async def DropQuery(
        self, request: backend_pb2.DropQueryRequest, context: Context
    ) -> backend_pb2.DropQueryResponse:
        async with TimedBoundary(context, "DropQuery", self.calls):
            await self._owned_stores.drop_job(request.query_id)
            return backend_pb2.DropQueryResponse()

    async def Shutdown(
        self, request: backend_pb2.ShutdownRequest, context: Context
    ) -> backend_pb2.ShutdownResponse:
        async with TimedBoundary(context, "Shutdown", self.calls):
            _log.info("stopping on request of the coordinator")
            self._stop.set()
            return backend_pb2.ShutdownResponse()
