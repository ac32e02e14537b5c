"""The RPCs of a state server for tasks and the coordinator."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.internal.v1 import backend_pb2, backend_pb2_grpc
from queryable_state.server.serving.error_boundary import ErrorBoundary
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, LimitExceededError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Container, Coroutine, Iterable, Sequence

    from queryable_state.server.serving.error_boundary import Context
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.batches.attempt_starter import AttemptStarter
    from queryable_state.server.state_server.batches.staging import Staging
    from queryable_state.server.state_server.owned_stores import OwnedStores
    from queryable_state.server.state_server.snapshots.snapshots import Snapshots
    from queryable_state.server.state_server.stores.owner_table import OwnerTable
    from queryable_state.server.storage.store import StateStore, StateView


_log = logging.getLogger(__name__)
_T = TypeVar("_T")

# Below 2 GiB, the largest protobuf message.
_MOST_BYTES = 1 << 30


def read_fetches(
    store: StateStore,
    version: int,
    fetches: Sequence[backend_pb2.StateFetch],
    state_ids: Container[int],
) -> backend_pb2.FetchResponse:
    """Answers all fetches from one view. For the background thread."""
    response = backend_pb2.FetchResponse()
    left = _MOST_BYTES
    with store.view(version) as view:
        for fetch in fetches:
            if fetch.state_id not in state_ids:
                raise InvalidRequestError(
                    f"a fetch names state {fetch.state_id}, which its operator has not declared "
                    "in begin"
                )
            values = (
                _read_prefixes(view, fetch)
                if fetch.read == query_pb2.PREFIX
                else _read_points(view, fetch)
            )
            left -= values.ByteSize()
            if left < 0:
                raise LimitExceededError(
                    f"a fetch of {sum(len(other.keys) for other in fetches)} keys exceeds "
                    f"{_MOST_BYTES} bytes: fetch fewer keys at once"
                )
            response.results.append(values)
    return response


def _read_points(view: StateView, fetch: backend_pb2.StateFetch) -> backend_pb2.StateValues:
    found = view.multi_get(fetch.state_id, list(fetch.keys))
    return backend_pb2.StateValues(
        values=[value for value in found if value is not None],
        missing=[position for position, value in enumerate(found) if value is None],
    )


def _read_prefixes(view: StateView, fetch: backend_pb2.StateFetch) -> backend_pb2.StateValues:
    values = backend_pb2.StateValues()
    limit = fetch.limit
    for position, prefix in enumerate(fetch.keys):
        # One record above the limit tells that there are more.
        records = view.prefix(fetch.state_id, prefix, limit + 1 if limit else 0)
        if limit and len(records) > limit:
            del records[limit:]
            values.truncated.append(position)
        start = len(prefix)
        values.records.add(
            elements=[key[start:] for key, _ in records], values=[value for _, value in records]
        )
    return values


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

    async def LocateSubtask(
        self, request: backend_pb2.LocateSubtaskRequest, context: Context
    ) -> backend_pb2.LocateSubtaskResponse:
        async with ErrorBoundary(context, "LocateSubtask"):
            return await self._owners.locate(request)

    async def OpenSubtasks(
        self, request: backend_pb2.OpenSubtasksRequest, context: Context
    ) -> backend_pb2.OpenSubtasksResponse:
        async with ErrorBoundary(context, "OpenSubtasks"):
            await self._opener.open_subtasks(request)
            return backend_pb2.OpenSubtasksResponse()

    async def Begin(
        self, request: backend_pb2.BeginRequest, context: Context
    ) -> backend_pb2.BeginResponse:
        async with ErrorBoundary(context, "Begin"):
            return await self._opener.begin(request)

    async def Fetch(
        self, request: backend_pb2.FetchRequest, context: Context
    ) -> backend_pb2.FetchResponse:
        async with ErrorBoundary(context, "Fetch"):
            return await self._fetched(request)

    async def _fetched(self, request: backend_pb2.FetchRequest) -> backend_pb2.FetchResponse:
        _, subtask = self._staging.begun(request.subtask, request.batch_id, request.token)
        return await self._background.run(
            read_fetches,
            subtask.store,
            request.batch_id - 1,
            request.fetches,
            frozenset(subtask.states),
        )

    async def Prepare(
        self, request_iterator: AsyncIterator[backend_pb2.PrepareRequest], context: Context
    ) -> backend_pb2.PrepareResponse:
        async with ErrorBoundary(context, "Prepare"):
            return await self._staging.prepare(aiter(request_iterator))

    async def BeginAll(
        self, request: backend_pb2.BeginAllRequest, context: Context
    ) -> backend_pb2.BeginAllResponse:
        async with ErrorBoundary(context, "BeginAll"):
            begun = await _all(self._opener.begin(each) for each in request.begins)
            return backend_pb2.BeginAllResponse(begun=begun)

    async def FetchAll(
        self, request: backend_pb2.FetchAllRequest, context: Context
    ) -> backend_pb2.FetchAllResponse:
        async with ErrorBoundary(context, "FetchAll"):
            answers = await _all(self._fetched(each) for each in request.fetches)
            return backend_pb2.FetchAllResponse(answers=answers)

    async def PrepareAll(
        self, request: backend_pb2.PrepareAllRequest, context: Context
    ) -> backend_pb2.PrepareAllResponse:
        async with ErrorBoundary(context, "PrepareAll"):
            staged = await _all(self._staging.prepare(_frames(each)) for each in request.prepares)
            staged_bytes = max((each.staged_bytes for each in staged), default=0)
            return backend_pb2.PrepareAllResponse(staged_bytes=staged_bytes)

    async def ReportSeals(
        self, request: backend_pb2.ReportSealsRequest, context: Context
    ) -> backend_pb2.ReportSealsResponse:
        async with ErrorBoundary(context, "ReportSeals"):
            sealed = self._owned_stores.sealed(request.query_id, request.version)
            return backend_pb2.ReportSealsResponse(sealed=sealed)

    async def Commit(
        self, request: backend_pb2.CommitRequest, context: Context
    ) -> backend_pb2.CommitResponse:
        async with ErrorBoundary(context, "Commit"):
            return backend_pb2.CommitResponse(sealed=self._owned_stores.commit(request))

    async def Snapshot(
        self, request: backend_pb2.SnapshotRequest, context: Context
    ) -> AsyncIterator[backend_pb2.SnapshotEvent]:
        async with ErrorBoundary(context, "Snapshot"):
            events = self._snapshots.write(request)
            async with aclosing(events):
                async for event in events:
                    yield event

    async def DropQuery(
        self, request: backend_pb2.DropQueryRequest, context: Context
    ) -> backend_pb2.DropQueryResponse:
        async with ErrorBoundary(context, "DropQuery"):
            await self._owned_stores.drop_job(request.query_id)
            return backend_pb2.DropQueryResponse()

    async def Shutdown(
        self, request: backend_pb2.ShutdownRequest, context: Context
    ) -> backend_pb2.ShutdownResponse:
        async with ErrorBoundary(context, "Shutdown"):
            _log.info("stopping on request of the coordinator")
            self._stop.set()
            return backend_pb2.ShutdownResponse()
