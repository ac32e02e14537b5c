"""What the query service asks of whoever knows the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.settings import Limits
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.located_state import LocatedState

    Deliver = Callable[[bytes, bool], None]


class Engine(Protocol):
    """The state of one process, read on its event loop; `QueryEngine` is one.

    Never raises for what a query can cause: a refusal stands in the answer, as
    `error` for all keys or as `failed` for some. The answer carries the query's
    id, part 0 and `last`.
    """

    def answer(self, query: query_pb2.Query) -> query_pb2.Answer:
        """Reads what the query asks, at once."""
        ...


class Locations(Protocol):
    """What is known of jobs and of where their states are; `LocationTable` is one."""

    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        """A state's registration and the owners of its key groups."""
        ...

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """The jobs there are."""
        ...

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        """Their queryable states."""
        ...


@dataclass(frozen=True, kw_only=True)
class ServiceInfo:
    """What a query service says of itself in hello."""

    server_id: str
    """Unique to the process."""

    role: query_pb2.Role.ValueType
    """OWNER or CHECKPOINT where a `LocalRouter` answers, PROXY where a `ProxyRouter` does."""

    limits: Limits
    """What the service refuses to exceed."""

    default_deadline_ms: int = 10_000
    """For queries that name no deadline."""


class QuerySession(ABC):
    """The queries of one stream. Lives on the event loop; `aclose` is idempotent."""

    @abstractmethod
    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        """Answers a query, whose `StreamKvStateRequest` is `frame`.

        Returns a serialized `StreamKvStateResponse` where the whole answer is
        known at once, else None, and each part is delivered later. Never raises
        for what a query can cause.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Forgets what is pending; nothing is delivered any more."""


class Router(ABC):
    """Where the answers of a `QueryableStateService` come from.

    The one who makes a router closes it, after the service's server stopped.
    """

    @abstractmethod
    def session(self, deliver: Deliver) -> QuerySession:
        """Opens the session of one stream.

        `deliver(frame, last)` takes a serialized `StreamKvStateResponse` and
        whether it ends the answer to its query; it does not block.
        """

    @abstractmethod
    async def answers(self, query: query_pb2.Query) -> list[query_pb2.Answer]:
        """All parts of the answer to one query outside any stream."""

    @abstractmethod
    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        """A state's registration and the owners of its key groups.

        Raises the coordinator's refusal, or `RetryLaterError` without one.
        """

    @abstractmethod
    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """The jobs the coordinator knows."""

    @abstractmethod
    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        """The queryable states the coordinator knows."""

    @abstractmethod
    async def aclose(self) -> None:
        """Ends what the router holds open; idempotent."""
