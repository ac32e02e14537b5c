"""Queries that may share a message: of one state, alike in all but their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.client._state import STATE_TYPES, KvState
from queryable_state.client._waiters import FutureWaiters
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import UnknownKeyOrNamespaceError
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
    located, and keys are then gathered as they are.
    """

    __slots__ = (
        "_dispatcher",
        "encode",
        "futures",
        "handle",
        "keys",
        "options",
        "read_kind",
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
        self.adopt()

    def adopt(self) -> None:
        """Takes over where and of what types the handle's state is."""
        located, codecs = self.handle.located, self.handle.codecs
        if located is not None and codecs is not None:
            self.encode = codecs.key_groups.wire_key
            self.state_type = STATE_TYPES[located.registration.kind]
            self.read_kind = located.read_kind

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

    def missing_error(self, key: Any) -> UnknownKeyOrNamespaceError:
        """What a query for one key without a value raises."""
        namespace = self.options.namespace
        where = "" if namespace in (b"", VOID_NAMESPACE) else f" in namespace {namespace.hex()}"
        return UnknownKeyOrNamespaceError(
            f"nothing is stored under key {key!r}{where} of {self.describe()}"
        )
