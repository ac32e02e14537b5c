"""Answers from the state of the own process alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.query.answer_frames import frame_of
from queryable_state.server.query.router import QuerySession, Router

if TYPE_CHECKING:
    from queryable_state.server.query.router import Deliver, Engine, Locations
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.located_state import LocatedState


class LocalRouter(Router):
    """Answers what the engine owns, on the event loop and without a task.

    Keys of others are refused (NOT_OWNER) by the engine. `locations` answers
    where they are, and stays the caller's to close.
    """

    def __init__(self, engine: Engine, locations: Locations) -> None:
        self._engine = engine
        self._locations = locations
        self._session = _LocalSession(engine)

    def session(self, deliver: Deliver) -> QuerySession:
        return self._session

    async def answers(self, query: query_pb2.Query) -> list[query_pb2.Answer]:
        return [self._engine.answer(query)]

    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        return await self._locations.locate(request)

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        return await self._locations.list_jobs(request)

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        return await self._locations.list_states(request)

    async def aclose(self) -> None:
        """Holds nothing open."""


class _LocalSession(QuerySession):
    """Nothing is ever pending, so all streams share one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes:
        return frame_of(self._engine.answer(query))

    async def aclose(self) -> None:
        """Nothing is pending."""
