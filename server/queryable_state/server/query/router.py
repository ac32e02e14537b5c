"""Interfaces behind the query service: routers, sessions, and readers of local state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from queryable_state.server.metrics.port_traffic import PortTraffic
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.v1 import hot_keys_pb2, query_pb2, registration_pb2, status_pb2, watch_pb2
    from queryable_state.wire.errors import QueryableStateError
    from queryable_state.wire.located_state import LocatedState

    Deliver = Callable[[int, bytes, bool], None]


class DriverAwayError(RetryLaterError):
    """The coordinator does not answer, whatever it is asked; the text names nothing."""


class Engine(Protocol):
    """Reader of the state of one process, on its event loop; `StateReader` is one.

    An answer has the query's id, part 0 and `last`. Refusals are part of the answer, never
    raised: `error` for all keys, `failed` for some.
    """

    def look_up(self, query: query_pb2.Query) -> bytes | None:
        """Answers a query of one key at once, as a serialized `ServerFrame`.

        Returns None unless it is the newest committed value of a key of this process, or its
        absence: the caller calls `answer`, which also counts what `look_up` refuses. Never raises.
        """
        ...

    def answer(self, query: query_pb2.Query) -> query_pb2.Answer | None:
        """Answers a query at once, or returns None if that takes longer.

        That is the case if the query waits for a commit (`min_version`, `max_staleness_ms`, an
        `at_version` ahead), reads an older version, or has `explain`. The engine then keeps
        nothing of the query: the caller awaits `answer_later`, in the same turn of the loop or
        later.
        """
        ...

    async def answer_later(self, query: query_pb2.Query) -> query_pb2.Answer:
        """Answers any query; waits for commits if necessary.

        Refuses with BEHIND after 90 % of the query's `deadline_ms`, counted from the call; the
        refusal needs no retry by the caller. Cancelling leaves nothing behind.
        """
        ...

    def scan(self, query: ScanQuery) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """The keys of a range, as of one version, in messages of bounded size.

        The version is pinned from the first message until the generator is closed
        (`contextlib.aclosing`). The engine reads one message ahead of the caller.

        Each message has encoded keys and the same `info`; all records of a key are in one
        message. Exactly one message, which may have no keys, is `last`; it is `complete` if every
        requested key group was read to its end and none has lost state. `page_token` is the plain
        wire key after which the scan continues, empty at the end of the range; on the last
        message it is set if `limit` ended the scan. The service does JSON and sealed tokens.

        Raises refusals of the whole scan before the first message: NOT_OWNER unless this process
        owns every requested key group, VERSION_GONE, STATE_LOST, BEHIND after waiting for the
        version. Later refusals, such as a lost lease or moved state, end the scan.
        """
        ...

    def watch(self, query: WatchQuery) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """The committed changes of keys of a state, in the order of batches and store keys.

        The first message has no changes and says that the watch is open. It goes on until the
        generator is closed (`contextlib.aclosing`) or raises: NOT_OWNER unless this process owns
        every watched key group, UNSUPPORTED for a state without changes by key.
        """
        ...

    async def measure(self, state_id: int) -> list[query_pb2.StatePart]:
        """Estimates the size of a state in this process: a part for each subtask, by key group."""
        ...

    def hot_keys(self, state_id: int, limit: int) -> hot_keys_pb2.ListHotKeysResponse:
        """The keys of a state that were touched most often in this process, without their JSON.

        Raises NOT_OWNER if this process owns no part of the state.
        """
        ...


class Locations(Protocol):
    """Source of jobs, states and their locations; `LocationTable` is one."""

    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        """A state's registration and the owners of its key groups."""
        ...

    async def registered(self, state_id: int) -> registration_pb2.StateRegistration:
        """A state's registration by its id; raises `UnknownStateError` if there is none."""
        ...

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """All jobs."""
        ...

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        """Their queryable states."""
        ...

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        """What is known of a job; callers do not modify the answer."""
        ...

    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        """The state servers; callers do not modify the answer."""
        ...


@dataclass(frozen=True, kw_only=True)
class ServiceInfo:
    """Description of a query service, for its hello."""

    server_id: str
    """Unique to the process."""

    role: query_pb2.Role.ValueType
    """OWNER or CHECKPOINT with a `LocalRouter`, PROXY with a `ProxyRouter`."""

    limits: Limits
    """Limits of requests and answers."""

    default_deadline_ms: int = 10_000
    """Deadline of queries without one."""

    plain_grpc: bool = False
    """Serve gRPC with `grpc.aio` even if gRPC's core can be used."""

    traffic: PortTraffic = field(default_factory=PortTraffic, compare=False)
    """Counters of the port."""


class QuerySession(ABC):
    """The queries of one stream. Event loop only; `aclose` is idempotent."""

    on_refused: Callable[[QueryableStateError], None] | None = None
    """Set by the owner of the stream, and cleared before `aclose`: ends the stream with a refusal.

    A session calls it between two calls of `ask`, in which it raises the refusal instead."""

    @abstractmethod
    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        """Answers a query, whose `ClientFrame` is `frame`.

        Returns a serialized `ServerFrame` if the whole answer is available at once. Otherwise
        returns None, and delivers each part later. Refusals are answers, never raised.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Drops pending queries; delivers nothing any more."""


class Router(ABC):
    """Source of the answers of a `QueryableStateService`.

    The creator of a router closes it after the server of the service has stopped.
    """

    @abstractmethod
    def session(self, deliver: Deliver, authorization: str = "") -> QuerySession:
        """Opens the session of one stream.

        `deliver(query_id, frame, last)` takes a serialized `ServerFrame`, with `last` if it ends
        the answer; it must not block. `authorization` is that of the stream's hello; a router
        that checks it raises `AuthenticationError`, here or in `ask`, which ends the stream.
        """

    @abstractmethod
    async def answers(self, query: query_pb2.Query) -> list[query_pb2.Answer]:
        """Returns all parts of the answer to one query outside of streams."""

    @abstractmethod
    def scan(
        self, query: ScanQuery, located: LocatedState
    ) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """The keys of a range, as of one version; same messages and refusals as `Engine.scan`.

        `located` is the state's location at the time of the query. Keys arrive in the order of
        their key groups. The caller closes the generator.
        """

    @abstractmethod
    def watch(
        self, query: WatchQuery, located: LocatedState
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """The committed changes of keys of a state; same messages as `Engine.watch`.

        The order holds over all owners: a batch is complete once every owner has sent it.
        `located` is the state's location at the time of the request. The caller closes the
        generator.
        """

    @abstractmethod
    async def measure(
        self, located: LocatedState, timeout_ms: int, *, placement_version: int = 0
    ) -> query_pb2.MeasureStateResponse:
        """Estimates the size of a state, by owner; an owner that fails is a part with its error.

        `timeout_ms` is the time that the caller waits. `placement_version` is that of a proxy's
        request; if not 0, only state of this process is measured.
        """

    @abstractmethod
    async def hot_keys(
        self,
        states: Sequence[LocatedState],
        limit: int,
        timeout_ms: int,
        *,
        placement_version: int = 0,
    ) -> hot_keys_pb2.ListHotKeysResponse:
        """The keys of these states that were touched most often, at most `limit` of each side.

        Without the JSON of the keys. `timeout_ms` and `placement_version` as in `measure`.
        """

    @abstractmethod
    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        """A state's registration and the owners of its key groups.

        Raises the coordinator's refusal, or `RetryLaterError` if the coordinator does not answer.
        """

    @abstractmethod
    async def registered(self, state_id: int) -> registration_pb2.StateRegistration:
        """A state's registration by its id; raises `UnknownStateError` if there is none."""

    @abstractmethod
    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """The jobs that the coordinator knows."""

    @abstractmethod
    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        """The queryable states that the coordinator knows."""

    @abstractmethod
    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        """What is known of a job; if the coordinator does not answer, what was known last.

        Raises `UnknownJobError`, or `RetryLaterError` if nothing is known. Callers do not modify
        the answer.
        """

    @abstractmethod
    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        """The state servers; if the coordinator does not answer, those that were known last."""

    @abstractmethod
    async def aclose(self) -> None:
        """Closes sessions and connections; idempotent."""


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
