"""A checkpoint that is being loaded: its description with the progress, and refusals of reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from queryable_state.server.checkpoint_server.catalog import CheckpointCatalog
from queryable_state.v1 import query_pb2, registration_pb2, status_pb2
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from queryable_state.server.checkpoint.completed import Completed
    from queryable_state.server.checkpoint_server.checkpoint_loader import CheckpointLoader
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.v1 import hot_keys_pb2, watch_pb2
    from queryable_state.wire.located_state import LocatedState

_RETRY_MS = 500


class LoadingCheckpoint:
    """The engine and the locations of a checkpoint server that has not loaded its state yet.

    Jobs, servers and `describe_job` are answered; everything else is refused for now.
    """

    def __init__(self, uri: str, *, server_id: str) -> None:
        self.address = ""
        """HOST:PORT of the server; set before it answers."""
        self.frames = registration_pb2.FrameEndpoint()
        """The frame port of the server; set before it answers."""
        self._uri = uri
        self._server_id = server_id
        self._loading: tuple[Completed, CheckpointLoader] | None = None

    def begins(self, completed: Completed, loader: CheckpointLoader) -> None:
        """The server begins to load this checkpoint."""
        self._loading = completed, loader

    def progress(self) -> list[status_pb2.RestoreProgress]:
        """How far each subtask is; empty before the first file is known."""
        if self._loading is None:
            return []
        progress = self._loading[1].progress()
        for each in progress:
            each.server_id = self._server_id
        return progress

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """Lists the one job; none before its checkpoint is known."""
        catalog = self._catalog()
        return query_pb2.ListJobsResponse() if catalog is None else await catalog.list_jobs(request)

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        """Describes the one job, with the progress of its subtasks as restores."""
        catalog = self._catalog()
        if catalog is None:
            raise self._refusal()
        description = await catalog.describe_job(request)
        for operator in description.operators:
            for owner in operator.owners:
                owner.open = False
        description.restores.extend(self.progress())
        return description

    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        """Lists this server, once its checkpoint is known."""
        catalog = self._catalog()
        if catalog is None:
            raise self._refusal()
        return await catalog.list_servers(request)

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        """Lists the states of the job."""
        catalog = self._catalog()
        if catalog is None:
            raise self._refusal()
        return await catalog.list_states(request)

    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        """Refuses for now."""
        raise self._refusal()

    async def registered(self, state_id: int) -> registration_pb2.StateRegistration:
        """Refuses for now."""
        raise self._refusal()

    def look_up(self, query: query_pb2.Query) -> None:
        """Returns None: `answer` refuses."""

    def answer(self, query: query_pb2.Query) -> query_pb2.Answer:
        """Refuses for now, in the answer."""
        return query_pb2.Answer(id=query.id, last=True, error=self._refusal().to_proto())

    async def answer_later(self, query: query_pb2.Query) -> query_pb2.Answer:
        """As `answer`."""
        return self.answer(query)

    def scan(self, query: ScanQuery) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """Refuses for now."""
        self._refuse()

    def watch(self, query: WatchQuery) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """Refuses for now."""
        self._refuse()

    async def measure(self, state_id: int) -> list[query_pb2.StatePart]:
        """Refuses for now."""
        self._refuse()

    def hot_keys(self, state_id: int, limit: int) -> hot_keys_pb2.ListHotKeysResponse:
        """Refuses for now."""
        self._refuse()

    def _catalog(self) -> CheckpointCatalog | None:
        if self._loading is None:
            return None
        catalog = CheckpointCatalog(self._loading[0], server_id=self._server_id)
        catalog.address, catalog.frames = self.address, self.frames
        return catalog

    def _refuse(self) -> NoReturn:
        raise self._refusal()

    def _refusal(self) -> RetryLaterError:
        progress = self.progress()
        done = sum(each.bytes_done for each in progress)
        total = sum(each.bytes for each in progress)
        share = f" ({100 * done // total} %)" if total else ""
        return RetryLaterError(
            f"{self._uri} is still being loaded{share}: ask again, or see `queryable-state status`",
            retry_after_ms=_RETRY_MS,
        )
