"""The RPCs of a state server for tasks and the coordinator."""

from __future__ import annotations

import logging
from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2, backend_pb2_grpc
from queryable_state.server.serving.error_boundary import ErrorBoundary
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, LimitExceededError
from queryable_state.wire.operator_state import OPERATOR_KINDS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Mapping, Sequence

    from queryable_state.server.serving.error_boundary import Context
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.batches.attempt_starter import AttemptStarter
    from queryable_state.server.state_server.batches.staging import Staging
    from queryable_state.server.state_server.owned_stores import OwnedStores
    from queryable_state.server.state_server.snapshots.snapshots import Snapshots
    from queryable_state.server.state_server.stores.owner_table import OwnerTable
    from queryable_state.server.storage.store import StateStore, StateView
    from queryable_state.v1 import registration_pb2


_log = logging.getLogger(__name__)

# Below 2 GiB, the largest protobuf message.
_MOST_BYTES = 1 << 30


def read_fetches(
    store: StateStore,
    version: int,
    fetches: Sequence[backend_pb2.StateFetch],
    kinds: Mapping[int, registration_pb2.StateKind.ValueType],
) -> backend_pb2.FetchResponse:
    """Answers all fetches from one view. For the background thread."""
    response = backend_pb2.FetchResponse()
    left = _MOST_BYTES
    with store.view(version) as view:
        for fetch in fetches:
            if fetch.state_id not in kinds:
                raise InvalidRequestError(
                    f"a fetch names state {fetch.state_id}, which its operator has not declared "
                    "in begin"
                )
            values = _read(view, fetch, kinds[fetch.state_id])
            left -= values.ByteSize()
            if left < 0:
                raise LimitExceededError(
                    f"a fetch of {sum(len(other.keys) for other in fetches)} keys exceeds "
                    f"{_MOST_BYTES} bytes: fetch fewer keys at once"
                )
            response.results.append(values)
    return response


def _read(
    view: StateView, fetch: backend_pb2.StateFetch, kind: registration_pb2.StateKind.ValueType
) -> backend_pb2.StateValues:
    if kind in OPERATOR_KINDS:
        elements = query_pb2.Records(values=view.operator_state(fetch.state_id))
        return backend_pb2.StateValues(records=[elements])
    if fetch.HasField("scan_from"):
        return _read_page(view, fetch)
    if fetch.read == query_pb2.PREFIX:
        return _read_prefixes(view, fetch)
    return _read_points(view, fetch)


def _read_page(view: StateView, fetch: backend_pb2.StateFetch) -> backend_pb2.StateValues:
    if not fetch.limit:
        raise InvalidRequestError(
            f"a fetch of a page of state {fetch.state_id} has no limit: send the maximum number of "
            "records"
        )
    # One record above the limit tells that there are more.
    records = list(islice(view.scan(fetch.state_id, fetch.scan_from, None), fetch.limit + 1))
    more = len(records) > fetch.limit
    del records[fetch.limit :]
    page = query_pb2.Records(
        elements=[key for key, _ in records], values=[value for _, value in records]
    )
    return backend_pb2.StateValues(records=[page], truncated=[0] if more else ())


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
        async with ErrorBoundary(context, "Prepare"):
            return await self._staging.prepare(aiter(request_iterator))

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
