"""Where states are, as far as this process has heard."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from queryable_state.server.coordinator_client import (
    CoordinatorSlowError,
    CoordinatorUnreachableError,
)
from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.v1 import query_pb2
from queryable_state.wire.calls.single_flight import SingleFlight
from queryable_state.wire.errors import QueryTimeoutError, RetryLaterError, UnknownStateError
from queryable_state.wire.located_state import LocatedState

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from queryable_state.server.coordinator_client import CoordinatorClient

# A job's name may move to another job, and a name that was unique may become
# ambiguous: what a name stands for is asked again after this time.
_NAME_TTL_S = 1.0


_failures = RateLimitedLog(logging.getLogger(__name__))

_T = TypeVar("_T")


@dataclass
class _Named:
    located: LocatedState
    asked_at: float


class LocationTable:
    """A cache of the coordinator's placement, valid by placement version.

    An entry holds until somebody asks for a newer one, because an owner said it
    is none or does not answer. Equal questions that overlap are asked once.
    The link stays the caller's to close.
    """

    def __init__(self, link: CoordinatorClient) -> None:
        self._link = link
        self._by_name: dict[tuple[str, str], _Named] = {}
        self._by_id: dict[int, LocatedState] = {}
        self._calls: SingleFlight[object, LocatedState] = SingleFlight()

    def cached(self, state_id: int) -> LocatedState | None:
        """The newest placement heard of, without asking."""
        return self._by_id.get(state_id)

    def known(self, request: query_pb2.LocateStateRequest) -> LocatedState | None:
        """What `locate` answers from the cache; None: it asks."""
        named = self._by_name.get((request.job, request.state_name))
        if named is None or time.monotonic() - named.asked_at >= _NAME_TTL_S:
            return None
        known = self._by_id.get(named.located.state_id, named.located)
        newer = not request.newer_than or known.placement_version > request.newer_than
        return known if newer else None

    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        """By job and queryable name; from the cache unless it is too old for the request.

        Where the coordinator does not answer, an aged entry is better than none,
        unless the request wants a newer placement.
        """
        known = self.known(request)
        if known is not None:
            return known
        try:
            return await self._calls.run(
                (request.job, request.state_name, request.newer_than), lambda: self._ask(request)
            )
        except (RetryLaterError, QueryTimeoutError):
            named = self._by_name.get((request.job, request.state_name))
            if named is None or request.newer_than:
                raise
            return self._by_id.get(named.located.state_id, named.located)

    async def locate_id(self, state_id: int, *, newer_than: int = 0) -> LocatedState:
        """By the coordinator's number; `UnknownStateError` where it has no such queryable state."""
        known = self._by_id.get(state_id)
        if known is not None and (not newer_than or known.placement_version > newer_than):
            return known
        return await self._calls.run(
            (state_id, newer_than), lambda: self._ask_id(state_id, newer_than)
        )

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """The jobs the coordinator knows now."""
        return await _told_to_clients(self._link.list_jobs(request))

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        """The queryable states the coordinator knows now."""
        return await _told_to_clients(self._link.list_states(request))

    async def aclose(self) -> None:
        """Ends pending calls; idempotent."""
        await self._calls.aclose()

    async def _ask(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        located = await self._asked_for(request)
        known = self._by_id.get(located.state_id)
        if known is not None and known.placement_version > located.placement_version:
            located = known
        self._by_id[located.state_id] = located
        self._by_name[(request.job, request.state_name)] = _Named(located, time.monotonic())
        return located

    async def _asked_for(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        """The coordinator's word; the owners travel only where they are others than before."""
        named = self._by_name.get((request.job, request.state_name))
        known = None if named is None else self._by_id.get(named.located.state_id)
        asked = query_pb2.LocateStateRequest(job=request.job, state_name=request.state_name)
        if known is not None:
            asked.known_state_id = known.state_id
            asked.known_version = known.placement_version
        response = await _told_to_clients(self._link.locate_state(asked))
        if known is None or not response.unchanged:
            return LocatedState.of(response.location)
        location = response.location
        if location.registration == known.registration:
            return known
        location.owners.extend(known.location.owners)
        return LocatedState.of(location)

    async def _ask_id(self, state_id: int, newer_than: int) -> LocatedState:
        known = self._by_id.get(state_id)
        if known is None:
            states = await self.list_states(query_pb2.ListStatesRequest())
            found = [state for state in states.states if state.state_id == state_id]
            if not found:
                raise UnknownStateError(
                    f"no queryable state has the id {state_id} any more: locate it anew by its name"
                )
            registration = found[0]
        else:
            registration = known.registration
        return await self._ask(
            query_pb2.LocateStateRequest(
                job=registration.job_id.hex(),
                state_name=registration.queryable_name,
                newer_than=newer_than,
            )
        )


async def _told_to_clients(asked: Awaitable[_T]) -> _T:
    """What the coordinator answers; where it does not, its address is for the log alone."""
    try:
        return await asked
    except CoordinatorUnreachableError as failure:
        _failures.write(logging.WARNING, "unreachable", "%s", failure)
        raise RetryLaterError(
            "the job's driver does not answer: it is starting again, or cannot be reached from "
            "here; the log of this server names its address",
            retry_after_ms=failure.retry_after_ms,
        ) from None
    except CoordinatorSlowError as failure:
        _failures.write(logging.WARNING, "slow", "%s", failure)
        raise QueryTimeoutError("the job's driver did not answer in time: ask again") from None
