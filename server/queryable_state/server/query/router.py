"""What the query service asks of whoever knows the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.settings import Limits
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.located_state import LocatedState

    Deliver = Callable[[int, bytes, bool], None]


class Engine(Protocol):
    """The state of one process, read on its event loop; `StateReader` is one.

    An answer carries the query's id, part 0 and `last`. What a query can cause
    is never raised: a refusal stands in the answer, as `error` for all keys or
    as `failed` for some.
    """

    def answer(self, query: query_pb2.Query) -> query_pb2.Answer | None:
        """Reads what the query asks, at once.

        None where that takes longer: it waits for a commit (`min_version`,
        `max_staleness_ms`, an `at_version` ahead), reads an older version, or is to be explained.
        Nothing is kept of the query then: whoever wants the answer awaits
        `answer_later`, in the same turn of the loop or later.
        """
        ...

    async def answer_later(self, query: query_pb2.Query) -> query_pb2.Answer:
        """The answer to any query, when it is there.

        Waits for commits until 90 % of the query's `deadline_ms`, counted from
        here, then refuses with BEHIND; nobody needs to ask again for that.
        Cancelling it leaves nothing behind.
        """
        ...

    def scan(self, query: ScanQuery) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """The keys of a range, as of one version, a bounded message at a time.

        The version is pinned from the first message on until the generator is
        closed (`contextlib.aclosing`), and read one message ahead of the taker.

        Each message has encoded keys, all records of a key in one, and the same
        `info`. Exactly one, which may have no keys, is `last`; it is `complete`
        where every key group asked for was read to its end and none lost state.
        `page_token` is the bare wire key that the rest stands behind, empty where
        nothing follows; with `last` it is set where `limit` cut the answer off.
        JSON and sealed tokens are the service's.

        Raises refusals of the whole before the first message: NOT_OWNER unless
        every key group asked for is here, VERSION_GONE, STATE_LOST, BEHIND once
        the query has waited for its version. Later ones end the scan; a lease
        that is lost, or state that is moved, is one.
        """
        ...

    async def measure(self, state_id: int) -> list[query_pb2.StatePart]:
        """About how much there is of a state here, a part each subtask, by key group."""
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

    plain_grpc: bool = False
    """Serve gRPC with `grpc.aio` even if gRPC's core can be used."""


class QuerySession(ABC):
    """The queries of one stream. Lives on the event loop; `aclose` is idempotent."""

    @abstractmethod
    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        """Answers a query, whose `ClientFrame` is `frame`.

        Returns a serialized `ServerFrame` where the whole answer is
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

        `deliver(query_id, frame, last)` takes a serialized `ServerFrame` and
        whether it ends the answer to its query; it does not block.
        """

    @abstractmethod
    async def answers(self, query: query_pb2.Query) -> list[query_pb2.Answer]:
        """All parts of the answer to one query outside any stream, when they are there."""

    @abstractmethod
    def scan(
        self, query: ScanQuery, located: LocatedState
    ) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """The keys of a range, as of one version; messages and refusals as `Engine.scan` has them.

        `located` is where the state was when the query was made. Owners are asked in the order
        of their key groups. To be closed by the taker.
        """

    @abstractmethod
    async def measure(
        self, located: LocatedState, timeout_ms: int, *, placement_version: int = 0
    ) -> query_pb2.MeasureStateResponse:
        """About how much a state holds, and where.

        `timeout_ms`: how long the caller waits.

        `placement_version`: as a proxy sent it; not 0: only what is in this process is asked for.
        An owner that fails is a part with its error.
        """

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
