"""The asyncio client."""

from __future__ import annotations

import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Self

from queryable_state.client._arguments import (
    Job,
    check_name,
    checked_address,
    checked_timeout,
    job_text,
    running_loop,
)
from queryable_state.client._dispatcher import Dispatcher
from queryable_state.client._errors import ClientClosedError
from queryable_state.client._expectation import Expectation
from queryable_state.client._info import Consistency
from queryable_state.client._lane import Lane, QueryOptions
from queryable_state.client._listing import JobInfo, StateInfo
from queryable_state.client._waiters import Collection, CollectionWaiters
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from queryable_state.client._state import KvState

DEFAULT_PORT = 9069
DEFAULT_TIMEOUT_S = 5.0


def client_name() -> str:
    """What the client calls itself in hello."""
    try:
        return f"python/{version('spark-queryable-state')}"
    except PackageNotFoundError:
        return "python"


class QueryableStateClient:
    """Looks up the keyed state of running jobs.

        async with QueryableStateClient("host", 9069) as client:
            state = await client.get_kv_state(job, "lastTemperature", "sensor_1")
            print(state.value(), state.info.version)

    `host` and `port` are those of any proxy or state server of the job. Jobs are
    named by id (32 hex digits, dashes allowed, or a `UUID`), by name, or not at
    all (None) while only one job has the state.

    A client belongs to the event loop it is first used on and is not
    thread-safe; `queryable_state.client.blocking` is. Open one and share it:
    what is asked for in one turn of the loop travels together, so that
    thousands of awaits at a time are the fast case. Queries go to the owner of
    the key once a connection to it is open, and through the given server until
    then or where the owner cannot be reached.

    A query that is refused because state moves, or because a server is gone, is
    asked again until `timeout_s` has passed since the call; then it fails with
    the last refusal, or with `QueryTimeoutError` where nobody answered.

    The client changes nothing in its process. Where single queries must be
    fast, set `GRPC_EXPERIMENTS=-event_engine_client,-event_engine_listener`
    before the first `import grpc` (30 to 40 % off their latency) and run on
    uvloop (10 to 25 %); at many thousands of queries a second,
    `gc.freeze()` and `gc.set_threshold(100_000, 50, 1000)` keep the longest
    answers short.
    """

    def __init__(
        self,
        host: str,
        port: int = DEFAULT_PORT,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        direct: bool = True,
        unpickle: bool = False,
    ) -> None:
        """`direct=False` always asks the given server, which must be a proxy then.

        `unpickle=True` loads values of pickled types: only where everybody who
        can write to the job's state may run code here.
        """
        self._address = checked_address(host, port)
        self._timeout_s = checked_timeout(timeout_s)
        self._direct = direct
        self._unpickle = unpickle
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: Dispatcher | None = None
        self._closed = False
        # The default lane of every state asked for, by what the caller calls it.
        self._lanes: dict[tuple[Job, str], Lane] = {}

    def get_kv_state(
        self,
        job: Job,
        state_name: str,
        key: Any,
        *,
        key_type: object = None,
        descriptor: object = None,
        namespace: bytes | None = None,
        consistency: Consistency = Consistency.COMMITTED,
        allow_incomplete: bool = False,
        timeout_s: float | None = None,
    ) -> asyncio.Future[KvState]:
        """A future of the state under one key. Every refusal comes through the future.

        Args:
            job: Id or name; None where only one job has the state.
            state_name: The queryable name.
            key: A value of the registered key type.
            key_type: What the caller takes the key type for: a type, Spark DDL
                or a pyspark `DataType`. `KeyTypeError` where it is another.
            descriptor: What the caller takes the state for: any object with
                `kind`, `value_type` and, of a map, `map_key_type`.
                `DescriptorMismatchError` where it is another.
            namespace: Encoded namespace; None: the state outside windows.
            consistency: Whether sealed batches that are not committed count.
            allow_incomplete: Accept the answer of a range that lost older state;
                `info.complete_since_batch` says since when it is complete.
            timeout_s: Seconds until the query fails; None: the client's.

        Raises (through the future): `UnknownKeyOrNamespaceError` where nothing
            is stored under the key, and the errors of `queryable_state.client`.
        """
        lane = self._lanes.get((job, state_name))
        if (
            lane is None
            or key_type is not None
            or descriptor is not None
            or namespace is not None
            or consistency
            or allow_incomplete
            or timeout_s is not None
        ):
            try:
                lane = self._lane(
                    job,
                    state_name,
                    key_type,
                    descriptor,
                    namespace,
                    consistency,
                    allow_incomplete,
                    timeout_s,
                )
            except QueryableStateError as error:
                return self._failed(error)
        loop = self._loop
        assert loop is not None
        future: asyncio.Future[KvState] = loop.create_future()
        encode = lane.encode
        if encode is not None:
            try:
                key = encode(key)
            except QueryableStateError as error:
                future.set_exception(lane.key_error(error))
                return future
        lane.keys.append(key)
        lane.futures.append(future)
        if not lane.scheduled:
            lane.scheduled = True
            loop.call_soon(lane.flush)
        return future

    def get_kv_states(
        self,
        job: Job,
        state_name: str,
        keys: Iterable[Any],
        *,
        key_type: object = None,
        descriptor: object = None,
        namespace: bytes | None = None,
        consistency: Consistency = Consistency.COMMITTED,
        allow_incomplete: bool = False,
        timeout_s: float | None = None,
    ) -> asyncio.Future[list[KvState | None]]:
        """One future of the states under many keys, aligned with `keys`; None where there is none.

        The first key that cannot be read fails the whole call. Arguments as of
        `get_kv_state`.
        """
        try:
            lane = self._lane(
                job,
                state_name,
                key_type,
                descriptor,
                namespace,
                consistency,
                allow_incomplete,
                timeout_s,
            )
        except QueryableStateError as error:
            return self._failed(error)
        encode = lane.encode
        try:
            encoded = list(keys) if encode is None else [encode(key) for key in keys]
        except QueryableStateError as error:
            return self._failed(lane.key_error(error))
        assert self._loop is not None
        future: asyncio.Future[list[KvState | None]] = self._loop.create_future()
        if not encoded:
            future.set_result([])
            return future
        collection = Collection(future, len(encoded))
        self._dispatcher().submit(lane, encoded, CollectionWaiters(collection, range(len(encoded))))
        return future

    async def list_jobs(self, *, timeout_s: float | None = None) -> list[JobInfo]:
        """The jobs the coordinator knows, oldest first."""
        seconds = self._timeout_s if timeout_s is None else checked_timeout(timeout_s)
        response = await self._dispatcher().peers.list_jobs(
            query_pb2.ListJobsRequest(), timeout_s=seconds
        )
        return [JobInfo.from_proto(job) for job in response.jobs]

    async def list_states(
        self, job: Job = None, *, timeout_s: float | None = None
    ) -> list[StateInfo]:
        """The queryable states of a job, or of all jobs, by job and name."""
        seconds = self._timeout_s if timeout_s is None else checked_timeout(timeout_s)
        response = await self._dispatcher().peers.list_states(
            query_pb2.ListStatesRequest(job=job_text(job)), timeout_s=seconds
        )
        return [StateInfo.from_proto(state) for state in response.states]

    async def aclose(self) -> None:
        """Closes every connection; pending queries fail with `ClientClosedError`. Idempotent."""
        self._closed = True
        self._lanes.clear()
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

    async def __aenter__(self) -> Self:
        self._dispatcher()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if getattr(self, "_opened", None) is not None:
            _warn(
                f"client of {self._address} was never closed: use `async with`, or await aclose()",
                ResourceWarning,
                source=self,
            )

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._opened else "not opened yet"
        return f"<QueryableStateClient of {self._address}, {state}>"

    def _dispatcher(self) -> Dispatcher:
        if self._closed:
            raise ClientClosedError("this client is closed: open another")
        loop = running_loop()
        if loop is None:
            raise InvalidRequestError(
                "the client is asked outside of a running event loop: ask it in a coroutine, or "
                "use queryable_state.client.blocking"
            )
        if self._opened is not None and self._loop is not loop:
            raise InvalidRequestError(
                "the client belongs to the event loop it was first used on: open one on each loop, "
                "or share one of queryable_state.client.blocking"
            )
        if self._opened is None:
            self._loop = loop
            self._opened = Dispatcher(
                self._address, client=client_name(), unpickle=self._unpickle, direct=self._direct
            )
        return self._opened

    def _lane(
        self,
        job: Job,
        state_name: str,
        key_type: object,
        descriptor: object,
        namespace: bytes | None,
        consistency: Consistency,
        allow_incomplete: bool,
        timeout_s: float | None,
    ) -> Lane:
        dispatcher = self._dispatcher()
        check_name(state_name)
        expectation = None
        if key_type is not None or descriptor is not None:
            expectation = Expectation.of(key_type, descriptor)
        options = QueryOptions(
            timeout_s=self._timeout_s if timeout_s is None else checked_timeout(timeout_s),
            consistency=Consistency(consistency).value,
            namespace=namespace or b"",
            allow_incomplete=bool(allow_incomplete),
            expectation=expectation,
        )
        lane = dispatcher.handle(job_text(job), state_name).lane(dispatcher, options)
        if options.is_default and expectation is None and timeout_s is None:
            self._lanes[(job, state_name)] = lane
        return lane

    def _failed(self, error: QueryableStateError) -> asyncio.Future[Any]:
        loop = running_loop()
        if loop is None:
            raise error
        future: asyncio.Future[Any] = loop.create_future()
        future.set_exception(error)
        return future
