"""Collector of lookups on one state with identical options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from queryable_state.client._reading.pending_results import JoinedResults
from queryable_state.client._reading.states import KvState
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    import asyncio

    from queryable_state.client._batching.query_options import QueryOptions
    from queryable_state.client._batching.state_handle import StateHandle
    from queryable_state.client._reading.decode_context import DecodeContext
    from queryable_state.client._reading.pending_results import PendingResults
    from queryable_state.wire.state_codecs import StateCodecs


Submit = Callable[["KeyBatcher", list[Any], "PendingResults", float | None], None]
"""Sends keys of a batcher: wire keys if the state is located, else keys as the caller gave them.

The last argument is the deadline on the loop's clock; None: now plus the batcher's timeout.
"""


class KeyBatcher:
    """Collects the keys of one turn of the event loop and submits them at its end.

    `encode` returns the wire key of a key, `encode_all` those of many. Both are None until the
    state is located; keys are then collected as the caller gave them. `refusal` is the error of
    every key if the state does not match the caller's expectation.
    """

    __slots__ = (
        "__weakref__",
        "_answer_codecs",
        "_loop",
        "_submit",
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

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        submit: Submit,
        handle: StateHandle,
        options: QueryOptions,
    ) -> None:
        self._loop = loop
        self._submit = submit
        self.handle = handle
        self.options = options
        self.is_plain = options.is_plain
        self.trace = options.trace
        self.may_wait = options.consistency.may_wait or options.at_version is not None
        """True if an answer may wait for a commit, or reads an older batch."""
        self.keys: list[Any] = []
        self.futures: list[asyncio.Future[Any]] = []
        self.groups: list[tuple[list[Any], PendingResults]] = []
        """The keys of each multi-key call, with its results."""
        self.scheduled = False
        self.encode: Callable[[Any], bytes] | None = None
        self.encode_all: Callable[[Sequence[Any]], list[bytes]] | None = None
        self.answer_type: Callable[[bytes, DecodeContext], Any] = KvState
        self.read_kind: query_pb2.ReadKind.ValueType = query_pb2.POINT
        self.refusal: QueryableStateError | None = None
        self._answer_codecs: tuple[StateCodecs, StateCodecs] | None = None
        self.adopt_placement(cached=True)

    def answer_codecs(self, codecs: StateCodecs) -> StateCodecs:
        """The codecs of answers: with the serializers and classes of the caller's descriptor."""
        expectation = self.options.expectation
        declared = None if expectation is None else expectation.value_type
        if declared is None or not declared.has_python_objects:
            return codecs
        if self._answer_codecs is None or self._answer_codecs[0] is not codecs:
            self._answer_codecs = (codecs, codecs.delivering(declared))
        return self._answer_codecs[1]

    def adopt_placement(self, *, cached: bool = False) -> None:
        """Takes over placement and types of the handle; `cached`: known before this lookup."""
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
            operation.check_window(located, self.options.namespace)
            self.encode = operation.encoder(codecs, located)
            self.encode_all = operation.encoder_of_many(codecs, self.encode)
        except QueryableStateError as refusal:
            self.refusal = refusal
            self.encode = self.encode_all = self._refuse

    def add(self, key: Any, future: asyncio.Future[Any]) -> None:
        """Adds an encoded key, submitted at the end of this turn of the loop."""
        self.keys.append(key)
        self.futures.append(future)
        self.flush_soon()

    def add_all(
        self, keys: list[Any], results: PendingResults, deadline: float | None = None
    ) -> None:
        """Adds the encoded keys of one call; submits them at once if there is a deadline."""
        if deadline is not None:
            self._submit(self, keys, results, deadline)
            return
        self.groups.append((keys, results))
        self.flush_soon()

    def flush_soon(self) -> None:
        """Schedules `flush` behind the callbacks that are already scheduled.

        Also called after answers were delivered: callers that continue with another lookup run
        first, and their keys are sent before the loop reads more input.
        """
        if not self.scheduled:
            self.scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Submits the collected keys."""
        self.scheduled = False
        keys = self.keys
        if self.groups:
            self._flush_groups()
        elif keys:
            results = self.options.operation.results(self.futures)
            self.keys = []
            self.futures = []
            self._submit(self, keys, results, None)

    def divert(self, submit: Submit) -> None:
        """Submits the collected keys, and all further ones, to `submit`."""
        self._submit = submit
        self.flush()

    def _flush_groups(self) -> None:
        groups, self.groups = self.groups, []
        if self.keys:
            # Single keys go first, so that they do not wait for multi-key calls.
            groups.insert(0, (self.keys, self.options.operation.results(self.futures)))
            self.keys = []
            self.futures = []
        keys, results = groups[0]
        if len(groups) > 1:
            keys = [key for each, _ in groups for key in each]
            results = JoinedResults(each for _, each in groups)
        self._submit(self, keys, results, None)

    def look_up(self, key: Any) -> asyncio.Future[Any]:
        """Returns a future of the result for one key; it also carries every error."""
        future = self.new_future()
        try:
            self.add(key if self.encode is None else self.encode(key), future)
        except QueryableStateError as error:
            future.set_exception(self.key_error(error))
        return future

    def new_future(self) -> asyncio.Future[Any]:
        """Returns a future of the client's event loop."""
        return self._loop.create_future()

    def check(self) -> None:
        """Raises `refusal` if the state does not match the caller's expectation."""
        if self.refusal is not None:
            raise self.refusal.copy()

    def describe(self) -> str:
        """Names the state for error texts."""
        return self.handle.describe()

    def key_error(self, error: QueryableStateError) -> QueryableStateError:
        """Returns the error of a lookup whose key cannot be encoded."""
        if self.refusal is not None:
            return self.refusal.copy()
        return type(error)(f"key of {self.describe()}: {error.message}", reason=error.reason)

    def missing_text(self, key: Any) -> str:
        """Returns the error text of one key, or map entry, without a value."""
        window = self.options.window
        where = "" if window is None else f" in {window}"
        return (
            f"nothing is stored under {self.options.operation.describe(key)}{where} of "
            f"{self.describe()}"
        )

    def missing_text_of(self, key: bytes, codecs: StateCodecs) -> str:
        """Returns the same text for a wire key encoded by `codecs`."""
        return self.missing_text(self.options.operation.decoded(key, codecs))

    def _refuse(self, key: object) -> NoReturn:
        assert self.refusal is not None
        raise self.refusal.copy()
