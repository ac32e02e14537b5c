"""Public query RPCs, the same on state servers and proxies.

`QueryableStateService` only translates: requests into queries of its router, errors into statuses.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing, asynccontextmanager, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from google.protobuf.message_factory import GetMessageClass

from queryable_state.server.query.admission import (
    admission,
    check_name,
    check_size,
    located_by,
    most_fields,
    parser,
)
from queryable_state.server.query.hot_keys import list_hot_keys
from queryable_state.server.query.reads.scan_read import ScanRead
from queryable_state.server.query.reads.snapshot_read import snapshot_answers
from queryable_state.server.query.reads.unary_reads import BatchRead, PointRead
from queryable_state.server.query.reads.watch_read import WatchRead
from queryable_state.server.serving.error_boundary import ErrorBoundary
from queryable_state.v1 import query_pb2, watch_pb2
from queryable_state.wire.errors import Reason, RetryLaterError
from queryable_state.wire.located_state import location_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from queryable_state.server.public_grpc import PublicGrpcServer
    from queryable_state.server.query.frames.open_streams import OpenStreams
    from queryable_state.server.query.router import Router, ServiceInfo
    from queryable_state.server.serving.error_boundary import Context
    from queryable_state.v1 import hot_keys_pb2, status_pb2
    from queryable_state.wire.located_state import LocatedState

# A connection has room for 1,024 calls. The others are for its look-ups and scans.
_MOST_OF_A_CLIENT = 512
_MOST_OF_A_PROXY = 960

_RETRY_MS = 1_000


class OpenWatches:
    """Counts the open watches of one port."""

    def __init__(self, info: ServiceInfo) -> None:
        self._info = info
        self._by_peer: Counter[str] = Counter()

    @contextmanager
    def watch(self, peer: str, *, by_proxy: bool) -> Iterator[None]:
        """Counts a watch while the block lasts; raises `RetryLaterError` at a limit."""
        most = _MOST_OF_A_PROXY if by_proxy else _MOST_OF_A_CLIENT
        if self._by_peer[peer] >= most:
            raise self._refusal(
                f"this connection has {most} open watches, which is the limit: watch several keys "
                "or a prefix in one watch, or open another client"
            )
        if self._by_peer.total() >= self._info.limits.watches:
            raise self._refusal(
                f"server {self._info.server_id} has {self._info.limits.watches:,} open watches, "
                "which is its limit (spark.queryable_state.watches): share watches, or use another "
                "server"
            )
        self._by_peer[peer] += 1
        try:
            yield
        finally:
            self._by_peer[peer] -= 1
            if not self._by_peer[peer]:
                del self._by_peer[peer]

    @staticmethod
    def _refusal(text: str) -> RetryLaterError:
        return RetryLaterError(text, reason=Reason.OVERLOADED, retry_after_ms=_RETRY_MS)


_SERVICE = "queryable_state.v1.QueryableState"

_QUERY_FIELD = query_pb2.BatchGetKvStateRequest.QUERY_FIELD_NUMBER

# A scan releases its version if the client reads nothing for so long.
_IDLE_S = 60.0


class QueryableStateService:
    """Serves `QueryableState` from one router.

    Call `add_to` before the server starts. The caller drains `streams` before the server stops,
    and closes the router.
    """

    def __init__(self, router: Router, info: ServiceInfo, streams: OpenStreams) -> None:
        self._router = router
        self._info = info
        self._streams = streams
        self._check = admission(info.limits)
        self._watches = OpenWatches(info)
        self._answering = f"the answer of server {info.server_id}"
        self.description = query_pb2.ServerDescription(
            server_id=info.server_id, role=info.role, limits=info.limits.to_proto()
        )
        """The answer of `DescribeServer`, which `LocateState` has too."""

    def add_to(self, server: PublicGrpcServer) -> None:
        """Registers the RPCs."""
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for method in query_pb2.DESCRIPTOR.services_by_name["QueryableState"].methods:
            name = method.name
            kind = (
                grpc.unary_stream_rpc_method_handler
                if method.server_streaming
                else grpc.unary_unary_rpc_method_handler
            )
            handlers[name] = kind(
                getattr(self, name),
                request_deserializer=parser(
                    GetMessageClass(method.input_type).FromString,
                    method.input_type.name,
                    most_fields(name, self._info.limits),
                    self._info.limits,
                    within=_QUERY_FIELD if name == "BatchGetKvState" else 0,
                ),
                response_serializer=GetMessageClass(method.output_type).SerializeToString,
            )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))

    async def GetKvState(
        self, request: query_pb2.GetKvStateRequest, context: Context
    ) -> query_pb2.GetKvStateResponse:
        async with ErrorBoundary(context, self._answering):
            limits = self._info.limits
            read = PointRead.of(request, await self._locate(request), limits)
            self._admit(read.query, context)
            answers = await self._answers(read.query)
            if request.explain:
                return await read.explained(answers)
            return await read.response(answers)

    async def BatchGetKvState(
        self, request: query_pb2.BatchGetKvStateRequest, context: Context
    ) -> query_pb2.BatchGetKvStateResponse:
        async with ErrorBoundary(context, self._answering):
            limits = self._info.limits
            if request.HasField("query"):
                self._check_server_id(request.server_id)
                query = request.query
                self._check(query, query.keys, query.ByteSize())
                answers = await self._answers(request.query)
                return query_pb2.BatchGetKvStateResponse(answers=answers)
            read = await BatchRead.of(request, await self._locate(request), limits)
            self._admit(read.query, context)
            if request.one_cut:
                begun_s = perf_counter()
                snapshot = await snapshot_answers(self._router, read.query)
                self._info.traffic.unary_answered(read.query, begun_s)
                return await read.response(snapshot)
            return await read.response(await self._answers(read.query))

    async def ScanKvState(self, request: query_pb2.ScanKvStateRequest, context: Context) -> None:
        async with ErrorBoundary(context, self._answering), self._streams.scan():
            located = await self._locate(request)
            most_ms = request.page_timeout_ms or self._info.default_deadline_ms
            page_timeout_ms = _time_ms(context, most_ms)
            read = ScanRead.of(request, located, self._info.limits, page_timeout_ms)
            # An owner's part may wait while the proxy reads other parts; the proxy has the timeout.
            idle_s = None if request.placement_version else _IDLE_S
            # Sent before the first message: a call cannot be refused while headers are in flight.
            await context.send_initial_metadata(())
            async with aclosing(read.messages(self._router)) as messages:
                async for message in messages:
                    async with _while_client_reads(idle_s):
                        await context.write(message)

    async def WatchKvState(self, request: watch_pb2.WatchKvStateRequest, context: Context) -> None:
        # A method of the contexts of grpc.aio, an attribute of those of `grpc_core`.
        given: Any = context.peer
        peer = given() if callable(given) else given
        by_proxy = bool(request.placement_version)
        async with ErrorBoundary(context, self._answering), self._streams.scan():
            with self._watches.watch(peer, by_proxy=by_proxy):
                read = WatchRead.of(request, await self._locate(request), self._info.limits)
                # Sent before the first message, as for a scan.
                await context.send_initial_metadata(())
                async with aclosing(read.messages(self._router)) as messages:
                    async for message in messages:
                        await context.write(message)

    async def MeasureState(
        self, request: query_pb2.MeasureStateRequest, context: Context
    ) -> query_pb2.MeasureStateResponse:
        async with ErrorBoundary(context, self._answering):
            located = await self._locate(request)
            timeout_ms = _time_ms(context, self._info.default_deadline_ms)
            return await self._router.measure(
                located, timeout_ms, placement_version=request.placement_version
            )

    async def ListHotKeys(
        self, request: hot_keys_pb2.ListHotKeysRequest, context: Context
    ) -> hot_keys_pb2.ListHotKeysResponse:
        async with ErrorBoundary(context, self._answering):
            located_by(request, self._info.limits)
            return await list_hot_keys(
                self._router, request, _time_ms(context, self._info.default_deadline_ms)
            )

    async def LocateState(
        self, request: query_pb2.LocateStateRequest, context: Context
    ) -> query_pb2.LocateStateResponse:
        async with ErrorBoundary(context, self._answering):
            located_by(request, self._info.limits)
            located = await self._router.locate(request)
            answer = location_answer(request, located.location)
            answer.server.CopyFrom(self.description)
            return answer

    async def DescribeServer(
        self, _request: query_pb2.DescribeServerRequest, _context: Context
    ) -> query_pb2.ServerDescription:
        return self.description

    async def ListJobs(
        self, request: query_pb2.ListJobsRequest, context: Context
    ) -> query_pb2.ListJobsResponse:
        async with ErrorBoundary(context, self._answering):
            return await self._router.list_jobs(request)

    async def ListStates(
        self, request: query_pb2.ListStatesRequest, context: Context
    ) -> query_pb2.ListStatesResponse:
        async with ErrorBoundary(context, self._answering):
            check_name("job", request.job, self._info.limits)
            return await self._router.list_states(request)

    async def DescribeJob(
        self, request: status_pb2.DescribeJobRequest, context: Context
    ) -> status_pb2.JobDescription:
        async with ErrorBoundary(context, self._answering):
            check_name("job", request.job, self._info.limits)
            return await self._router.describe_job(request)

    async def ListServers(
        self, request: status_pb2.ListServersRequest, context: Context
    ) -> status_pb2.ListServersResponse:
        async with ErrorBoundary(context, self._answering):
            return await self._router.list_servers(request)

    async def _answers(self, query: query_pb2.Query) -> list[query_pb2.Answer]:
        begun_s = perf_counter()
        answers = await self._router.answers(query)
        self._info.traffic.unary_answered(query, begun_s)
        return answers

    async def _locate(
        self,
        request: query_pb2.GetKvStateRequest
        | query_pb2.BatchGetKvStateRequest
        | query_pb2.ScanKvStateRequest
        | query_pb2.MeasureStateRequest
        | watch_pb2.WatchKvStateRequest,
    ) -> LocatedState:
        located_by(request, self._info.limits)
        return await self._router.locate(
            query_pb2.LocateStateRequest(job=request.job, state_name=request.state_name)
        )

    async def locate(self, job: str, state_name: str) -> LocatedState:
        """A state, located for the caller of the current task."""
        return await self._locate(query_pb2.GetKvStateRequest(job=job, state_name=state_name))

    def _check_server_id(self, server_id: str) -> None:
        """Raises if the caller expects another server at this address."""
        if server_id not in ("", self._info.server_id):
            raise RetryLaterError(
                f"server {server_id} was asked, and {self._info.server_id} answers at its address: "
                "locate the state again",
                retry_after_ms=100,
            )

    def _admit(self, query: query_pb2.Query, context: Context) -> None:
        """Checks a query and sets its deadline to the time that the client has left."""
        query_bytes = query.ByteSize()
        self._check(query, query.keys, query_bytes)
        # Encoded keys may be longer than the JSON of the request.
        check_size(query_bytes, self._info.limits)
        query.deadline_ms = _time_ms(context, self._info.default_deadline_ms)


def _time_ms(context: Context, most_ms: int) -> int:
    """The time that the client has left, at most `most_ms`."""
    remaining_s: float | None = context.time_remaining()
    # None if the client set no deadline, as grpcurl does.
    return most_ms if remaining_s is None else max(1, min(most_ms, int(remaining_s * 1000)))


@asynccontextmanager
async def _while_client_reads(idle_s: float | None) -> AsyncIterator[None]:
    """Raises if the client reads nothing for `idle_s`; None: no limit."""
    try:
        async with asyncio.timeout(idle_s):
            yield
    except TimeoutError:
        raise RetryLaterError(
            f"the scan has released its batch, because the client read nothing for {idle_s:g} s: "
            "continue with its page token",
            retry_after_ms=1,
        ) from None
