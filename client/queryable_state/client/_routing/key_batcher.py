"""Queries that may share a message: of one state, alike in all but their keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from queryable_state.client._consistency import Consistency
from queryable_state.client._reading.operation import VALUE, Operation
from queryable_state.client._reading.pending_results import JoinedResults
from queryable_state.client._reading.states import KvState
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from queryable_state.client._expectation import Expectation
    from queryable_state.client._lookup_trace import LookupTrace
    from queryable_state.client._reading.decode_context import DecodeContext
    from queryable_state.client._reading.pending_results import PendingResults
    from queryable_state.client._routing.dispatcher import Dispatcher
    from queryable_state.client._routing.state_handle import StateHandle
    from queryable_state.wire.state_codecs import StateCodecs


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What queries of one lane have in common."""

    timeout_s: float
    consistency: Consistency = Consistency.COMMITTED
    namespace: bytes = b""
    """Encoded; empty: the void namespace."""
    allow_incomplete: bool = False
    expectation: Expectation | None = None
    """What the caller says of the state's types."""
    operation: Operation = VALUE
    at_version: int | None = None
    """As of exactly this committed batch; None: the newest one."""
    trace: LookupTrace | None = None
    """Of an explained look-up."""

    @property
    def is_plain(self) -> bool:
        """Whether a query message has nothing but keys and the kind of read."""
        return not (
            self.namespace
            or self.allow_incomplete
            or self.at_version is not None
            or self.trace is not None
            or self.operation.of_entries
            or self.consistency != Consistency.COMMITTED
        )


class KeyBatcher:
    """Gathers the keys asked for in one turn of the loop; sends them at its end.

    `encode` makes the wire key of a key, `encode_all` those of many; they are None while the
    state is not located, and keys are then gathered as they are. `refusal` is why no key can
    be asked for: the state is not what the caller takes it for.
    """

    __slots__ = (
        "__weakref__",
        "_dispatcher",
        "answer_type",
        "encode",
        "encode_all",
        "futures",
        "groups",
        "handle",
        "is_plain",
        "keys",
        "may_wait",
        "options",
        "read_kind",
        "refusal",
        "scheduled",
        "trace",
    )

    def __init__(self, dispatcher: Dispatcher, handle: StateHandle, options: QueryOptions) -> None:
        self._dispatcher = dispatcher
        self.handle = handle
        self.options = options
        self.is_plain = options.is_plain
        self.trace = options.trace
        self.may_wait = options.consistency.may_wait or options.at_version is not None
        """Whether its answers may take their time: a commit, or a look into an older batch."""
        self.keys: list[Any] = []
        self.futures: list[asyncio.Future[Any]] = []
        self.groups: list[tuple[list[Any], PendingResults]] = []
        """The keys of calls for many, with who waits for them."""
        self.scheduled = False
        self.encode: Callable[[Any], bytes] | None = None
        self.encode_all: Callable[[Sequence[Any]], list[bytes]] | None = None
        self.answer_type: Callable[[bytes, DecodeContext], Any] = KvState
        self.read_kind: query_pb2.ReadKind.ValueType = query_pb2.POINT
        self.refusal: QueryableStateError | None = None
        self.adopt(cached=True)

    def adopt(self, *, cached: bool = False) -> None:
        """Takes over where and of what types the handle's state is; `cached`: it was known."""
        located, codecs = self.handle.located, self.handle.codecs
        if located is None or codecs is None:
            return
        if self.trace is not None:
            self.trace.located(located.placement_version, cached=cached)
        operation = self.options.operation
        self.answer_type = operation.answer_type(located)
        self.read_kind = operation.read_kind(located)
        self.refusal = None
        try:
            if self.options.expectation is not None:
                self.options.expectation.check(located)
            self.encode = operation.encoder(codecs, located)
            self.encode_all = operation.encoder_of_many(codecs, self.encode)
        except QueryableStateError as refusal:
            self.refusal = refusal
            self.encode = self.encode_all = self._refuse

    def gather(self, key: Any, future: asyncio.Future[Any]) -> None:
        """Takes a key, as `encode` makes it, that is sent at the end of this turn of the loop."""
        self.keys.append(key)
        self.futures.append(future)
        self.flush_soon()

    def gather_all(
        self, keys: list[Any], results: PendingResults, deadline: float | None = None
    ) -> None:
        """Takes the keys of one call, sent at the end of this turn too; at once with a deadline."""
        if deadline is not None:
            self._dispatcher.submit(self, keys, results, deadline)
            return
        self.groups.append((keys, results))
        self.flush_soon()

    def flush_soon(self) -> None:
        """Sends what is gathered by all who are to run in this turn of the loop before it.

        Also called where answers were just handed out: who waited for them runs first and asks
        again, and that goes out before the loop looks at what else has come.
        """
        if not self.scheduled:
            self.scheduled = True
            self._dispatcher.call_soon(self.flush)

    def flush(self) -> None:
        """Sends what was gathered."""
        self.scheduled = False
        keys = self.keys
        if self.groups:
            self._flush_groups()
        elif keys:
            results = self.options.operation.results(self.futures)
            self.keys = []
            self.futures = []
            self._dispatcher.submit(self, keys, results)

    def _flush_groups(self) -> None:
        groups, self.groups = self.groups, []
        if self.keys:
            # In front: who waits for one key does not wait for the many of others.
            groups.insert(0, (self.keys, self.options.operation.results(self.futures)))
            self.keys = []
            self.futures = []
        keys, results = groups[0]
        if len(groups) > 1:
            keys = [key for each, _ in groups for key in each]
            results = JoinedResults(each for _, each in groups)
        self._dispatcher.submit(self, keys, results)

    def at(self, version: int) -> KeyBatcher:
        """The lane that asks the same as of one committed batch."""
        options = replace(self.options, consistency=Consistency.COMMITTED, at_version=version)
        return self.handle.batcher(self._dispatcher, options)

    def traced(self, trace: LookupTrace) -> KeyBatcher:
        """The lane that asks the same and notes what is done for it."""
        return self.handle.batcher(self._dispatcher, replace(self.options, trace=trace))

    def ask(self, key: Any) -> asyncio.Future[Any]:
        """A future of the answer to one key; every refusal comes through it."""
        future = self.new_future()
        try:
            self.gather(key if self.encode is None else self.encode(key), future)
        except QueryableStateError as error:
            future.set_exception(self.key_error(error))
        return future

    def new_future(self) -> asyncio.Future[Any]:
        """A future of the lane's loop."""
        return self._dispatcher.new_future()

    def check(self) -> None:
        """Raises where the state is not what the caller takes it for."""
        if self.refusal is not None:
            raise self.refusal.copy()

    def describe(self) -> str:
        """The state for error texts."""
        return self.handle.describe()

    def key_error(self, error: QueryableStateError) -> QueryableStateError:
        """What a query for a key that cannot be encoded raises."""
        if self.refusal is not None:
            return self.refusal.copy()
        return type(error)(f"key of {self.describe()}: {error.message}", reason=error.reason)

    def missing_text(self, asked: Any) -> str:
        """The error text of one key, or entry, without a value."""
        namespace = self.options.namespace
        where = "" if namespace in (b"", VOID_NAMESPACE) else f" in namespace {namespace.hex()}"
        return (
            f"nothing is stored under {self.options.operation.describe(asked)}{where} of "
            f"{self.describe()}"
        )

    def missing_text_of(self, key: bytes, codecs: StateCodecs) -> str:
        """The same for a wire key that `codecs` made."""
        return self.missing_text(self.options.operation.decoded(key, codecs))

    def _refuse(self, key: object) -> NoReturn:
        assert self.refusal is not None
        raise self.refusal.copy()
