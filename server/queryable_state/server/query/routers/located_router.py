"""Router that takes jobs, states and their locations from one source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.query.router import Router

if TYPE_CHECKING:
    from queryable_state.server.query.router import Locations
    from queryable_state.v1 import query_pb2, registration_pb2, status_pb2
    from queryable_state.wire.located_state import LocatedState


class LocatedRouter(Router):
    """Answers what is known of jobs and states from `_locations`; the caller closes it."""

    _locations: Locations

    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        return await self._locations.locate(request)

    async def registered(self, state_id: int) -> registration_pb2.StateRegistration:
        return await self._locations.registered(state_id)

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        return await self._locations.list_jobs(request)

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        return await self._locations.list_states(request)

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        return await self._locations.describe_job(request)

    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        return await self._locations.list_servers(request)
