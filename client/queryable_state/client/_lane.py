"""Queries that may share a message: of one state, alike in all but their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from queryable_state.client._errors import afresh
from queryable_state.client._state import STATE_TYPES, KvState
from queryable_state.client._waiters import FutureWaiters
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryableStateError, UnknownKeyOrNamespaceError
from queryable_state.wire.store_keys import VOID_NAMESPACE

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from queryable_state.client._dispatcher import Dispatcher
    from queryable_state.client._expectation import Expectation
    from queryable_state.client._handle import StateHandle


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What queries of one lane have in common."""

    timeout_s: float
    consistency: query_pb2.Consistency.ValueType = query_pb2.COMMITTED
    namespace: bytes = b""
    """Encoded; empty: the void namespace."""
    allow_incomplete: bool = False
    expectation: Expectation | None = None
    """What the caller says of the state's types."""

    @property
    def is_default(self) -> bool:
        """Whether a query message says nothing of them."""
        return not (self.consistency or self.namespace or self.allow_incomplete)


class Lane:
    """Gathers the keys asked for in one turn of the loop; sends them at its end.

    `encode` makes the wire key of a key; it is None while the state is not
    located, and keys are then gathered as they are. `refusal` is why no key can
    be asked for: the state is not what the caller takes it for.
    """

    __slots__ = (
        "__weakref__",
        "_dispatcher",
        "encode",
        "futures",
        "handle",
        "keys",
        "options",
        "read_kind",
        "refusal",
        "scheduled",
        "state_type",
    )

    def __init__(self, dispatcher: Dispatcher, handle: StateHandle, options: QueryOptions) -> None:
        self._dispatcher = dispatcher
        self.handle = handle
        self.options = options
        self.keys: list[Any] = []
        self.futures: list[asyncio.Future[KvState]] = []
        self.scheduled = False
        self.encode: Callable[[Any], bytes] | None = None
        self.state_type: type[KvState] = KvState
        self.read_kind: query_pb2.ReadKind.ValueType = query_pb2.POINT
        self.refusal: QueryableStateError | None = None
        self.adopt()

    def adopt(self) -> None:
        """Takes over where and of what types the handle's state is."""
        located, codecs = self.handle.located, self.handle.codecs
        if located is None or codecs is None:
            return
        self.encode = codecs.key_groups.wire_key
        self.state_type = STATE_TYPES[located.registration.kind]
        self.read_kind = located.read_kind
        self.refusal = None
        if self.options.expectation is not None:
            try:
                self.options.expectation.check(located)
            except QueryableStateError as refusal:
                self.refusal = refusal
                self.encode = self._refuse

    def flush(self) -> None:
        """Sends what was gathered."""
        self.scheduled = False
        keys = self.keys
        if keys:
            waiters = FutureWaiters(self.futures)
            self.keys = []
            self.futures = []
            self._dispatcher.submit(self, keys, waiters)

    def describe(self) -> str:
        """The state for error texts."""
        return self.handle.describe()

    def key_error(self, error: QueryableStateError) -> QueryableStateError:
        """What a query for a key that cannot be encoded raises."""
        if self.refusal is not None:
            return afresh(self.refusal)
        return type(error)(f"key of {self.describe()}: {error.message}", reason=error.reason)

    def missing_error(self, key: Any) -> UnknownKeyOrNamespaceError:
        """What a query for one key without a value raises."""
        namespace = self.options.namespace
        where = "" if namespace in (b"", VOID_NAMESPACE) else f" in namespace {namespace.hex()}"
        return UnknownKeyOrNamespaceError(
            f"nothing is stored under key {key!r}{where} of {self.describe()}"
        )

    def _refuse(self, key: object) -> NoReturn:
        assert self.refusal is not None
        raise afresh(self.refusal)
