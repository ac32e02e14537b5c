"""Calls of a proxy to owners outside of query streams: scans, watches, sizes and hot keys."""

from __future__ import annotations

import functools
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import grpc.aio

from queryable_state.server.query.reads.scan_read import PageToken, scan_hash_of
from queryable_state.v1 import hot_keys_pb2, query_pb2, watch_pb2
from queryable_state.wire.errors import PlacementError, UnknownJobError
from queryable_state.wire.security.authorization import call_metadata
from queryable_state.wire.security.credentialed_calls import with_credentials
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from queryable_state.server.query.proxy.owner_streams import Channels
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.v1 import registration_pb2
    from queryable_state.wire.errors import QueryableStateError
    from queryable_state.wire.located_state import LocatedState, Owner

_SERVICE = "/queryable_state.v1.QueryableState"


class OwnerCalls:
    """Calls owners at the addresses of a placement; raises their refusals."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def keep(self, owner: Owner) -> Callable[[], Awaitable[None]]:
        """Keeps the connection open between calls until the returned function is called."""
        return functools.partial(self._channels.give_back, self._channels.take(owner.address)[0])

    async def scan(
        self, owner: Owner, located: LocatedState, query: ScanQuery
    ) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """The owner's part of a scan; `page_token` of its messages is the plain wire key."""
        request = _scan_request(located.registration, query)
        messages = self._messages(owner, "ScanKvState", request, query_pb2.ScanKvStateResponse)
        async with aclosing(messages):
            async for message in messages:
                if message.page_token:
                    message.page_token = PageToken.unseal(message.page_token).key
                yield message

    def watch(
        self, owner: Owner, located: LocatedState, query: WatchQuery
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """The owner's part of a watch."""
        request = _watch_request(located.registration, query)
        return self._messages(owner, "WatchKvState", request, watch_pb2.WatchKvStateResponse)

    async def measure(
        self, owner: Owner, located: LocatedState, timeout_s: float
    ) -> query_pb2.MeasureStateResponse:
        """The size of the owner's own part of a state."""
        registration = located.registration
        request = query_pb2.MeasureStateRequest(
            job=registration.job_id.hex(),
            state_name=registration.queryable_name,
            placement_version=located.placement_version,
        )
        return cast(
            "query_pb2.MeasureStateResponse",
            await self._unary(
                owner, "MeasureState", request, query_pb2.MeasureStateResponse, timeout_s
            ),
        )

    async def hot_keys(
        self, owner: Owner, states: Sequence[LocatedState], limit: int, timeout_s: float
    ) -> hot_keys_pb2.ListHotKeysResponse:
        """The hot keys of the owner's own parts of some states of one job.

        Of more than one state: those of all its states of the job.
        """
        registration = states[0].registration
        request = hot_keys_pb2.ListHotKeysRequest(
            job=registration.job_id.hex(),
            state_name=registration.queryable_name if len(states) == 1 else "",
            limit=limit,
            placement_version=states[0].placement_version,
        )
        return cast(
            "hot_keys_pb2.ListHotKeysResponse",
            await self._unary(
                owner, "ListHotKeys", request, hot_keys_pb2.ListHotKeysResponse, timeout_s
            ),
        )

    async def _messages(
        self, owner: Owner, method: str, request: Any, response: Any
    ) -> AsyncGenerator[Any, None]:
        taken, channel = self._channels.take(owner.address)
        try:
            name = f"{_SERVICE}/{method}"
            call: Any = channel.unary_stream(
                name,
                request_serializer=type(request).SerializeToString,
                response_deserializer=response.FromString,
            )(request, metadata=call_metadata(self._channels.credentials(owner), name))
            try:
                async for message in call:
                    yield message
            except grpc.aio.AioRpcError as failure:
                raise self._refusal(failure, owner) from failure
            finally:
                call.cancel()
        finally:
            await self._channels.give_back(taken)

    async def _unary(
        self, owner: Owner, method: str, request: Any, response: Any, timeout_s: float
    ) -> Any:
        taken, channel = self._channels.take(owner.address)
        try:
            name = f"{_SERVICE}/{method}"
            call: Any = channel.unary_unary(
                name,
                request_serializer=type(request).SerializeToString,
                response_deserializer=response.FromString,
            )
            return await with_credentials(
                self._channels.credentials(owner),
                name,
                lambda metadata: call(request, timeout=timeout_s, metadata=metadata),
            )
        except grpc.aio.AioRpcError as failure:
            raise self._refusal(failure, owner) from failure
        finally:
            await self._channels.give_back(taken)

    def _refusal(self, failure: grpc.aio.AioRpcError, owner: Owner) -> QueryableStateError:
        error = error_from_call(failure, owner.address)
        if isinstance(error, UnknownJobError):
            # The request has the id of the job, which the caller may not have given.
            return PlacementError(
                f"server {owner.server_id} does not know the job of this state any more: locate it "
                "again"
            )
        return self._channels.refusal(error, owner)


def _watch_request(
    registration: registration_pb2.StateRegistration, query: WatchQuery
) -> watch_pb2.WatchKvStateRequest:
    """Returns the request for an owner's part of a watch."""
    request = watch_pb2.WatchKvStateRequest(
        job=registration.job_id.hex(),
        state_name=registration.queryable_name,
        keys=query.keys,
        after_batch=query.after_batch,
        after_change=query.after_change,
        placement_version=query.placement_version,
        every_batch=query.every_batch,
        groups=[watch_pb2.WatchedGroups(first=run.first, last=run.last) for run in query.groups],
    )
    if query.prefix:
        request.prefix_key = query.prefix
    return request


def _scan_request(
    registration: registration_pb2.StateRegistration, query: ScanQuery
) -> query_pb2.ScanKvStateRequest:
    """Returns the request for an owner's part of a scan."""
    request = query_pb2.ScanKvStateRequest(
        job=registration.job_id.hex(),
        state_name=registration.queryable_name,
        namespace=query.namespace,
        consistency=query.consistency,
        allow_incomplete=query.allow_incomplete,
        min_version=query.min_version,
        max_staleness_ms=query.max_staleness_ms,
        limit=query.limit,
        keys_only=query.keys_only,
        first_key_group=query.first_key_group,
        last_key_group=query.last_key_group,
        placement_version=query.placement_version,
        at_version=query.at_version,
        timeline=query.timeline,
        runs=[query_pb2.KeyGroupRun(first=run.first, last=run.last) for run in query.only],
        page_timeout_ms=query.page_timeout_ms,
    )
    if query.start:
        request.start_key = query.start
    if query.end is not None:
        request.end_key = query.end
    if query.after:
        # `at_version` carries the batch, so the token has none.
        request.page_token = PageToken(query.state_id, -1, scan_hash_of(query), query.after).seal()
    return request
