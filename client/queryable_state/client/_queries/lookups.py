"""Look-ups of one state with the same options, in batches of keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from queryable_state.client._consistency import Consistency
from queryable_state.client._reading.operation import (
    VALUE,
    EntryKey,
    Operation,
    SliceKey,
    WindowsKey,
)
from queryable_state.client._reading.pending_results import JoinedResults
from queryable_state.client._reading.state_types import states_of
from queryable_state.client._reading.states import DecodeContext, KvState
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import CorruptDataError, QueryableStateError, QueryTimeoutError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from queryable_state.client._queries.handle import Expectation, StateHandle
    from queryable_state.client._queries.lookup_trace import LookupTrace
    from queryable_state.client._reading.pending_results import PendingResults
    from queryable_state.wire.keys.time_window import TimeWindow
    from queryable_state.wire.state_codecs import StateCodecs

Failure = tuple[list[int], QueryableStateError]

# A key is held for the answer to another one, but not if that takes longer.
_HOLD_S = 0.002
# Waiting batches are joined if their deadlines are closer than this.
_JOIN_S = 0.02


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Everything that a lookup sends beside its key."""

    timeout_s: float
    consistency: Consistency = Consistency.COMMITTED
    window: TimeWindow | None = None
    """None: the state has no windows, or all of them are read."""
    allow_incomplete: bool = False
    expectation: Expectation | None = None
    """Types the caller expects; None: not checked."""
    operation: Operation = VALUE
    at_version: int | None = None
    """Read exactly this committed batch; None: the newest one."""
    trace: LookupTrace | None = None
    """Set for an explained lookup only."""

    @property
    def namespace(self) -> bytes:
        """The encoded namespace of the window; empty: there is none."""
        return b"" if self.window is None else self.window.namespace

    @property
    def is_plain(self) -> bool:
        """True if a query message needs only the keys and the kind of read."""
        return not (
            self.window
            or self.allow_incomplete
            or self.at_version is not None
            or self.trace is not None
            or self.operation.of_pairs
            or self.consistency != Consistency.COMMITTED
        )

    def at(self, version: int) -> QueryOptions:
        """Returns the same options for a read of exactly one committed batch."""
        return replace(self, consistency=Consistency.COMMITTED, at_version=version)

    def traced(self, trace: LookupTrace) -> QueryOptions:
        """Returns the same options with a trace that records the steps of the lookup."""
        return replace(self, trace=trace)


Submit = Callable[["KeyBatcher", list[Any], "PendingResults", float | None], None]
"""Sends keys of a batcher: wire keys if the state is located, else keys as the caller gave them.

The last argument is the deadline on the loop's clock; None: now plus the batcher's timeout.
"""

SendAlone = Callable[["KeyBatcher", bytes, "asyncio.Future[Any]"], bool]
"""Sends one wire key at once, if nothing else is in flight to its owner; else False."""


class KeyBatcher:
    """Collects the keys of one turn of the event loop and submits them at its end.

    The key of a caller that asks for one key after the other is sent within its call instead: if
    the last submitted key was the only one and nothing else was in flight. Once a second caller
    asks meanwhile, the first one's next key is held for the second one's answer, so that their
    keys are in one batch from then on.

    `encode` returns the wire key of a key, `encode_all` those of many. Both are None until the
    state is located; keys are then collected as the caller gave them. `refusal` is the error of
    every key if the state does not match the caller's expectation.
    """

    __slots__ = (
        "__weakref__",
        "_answer_codecs",
        "_loop",
        "_send_alone",
        "_submit",
        "alone_frame",
        "alone_query",
        "answer_type",
        "encode",
        "encode_all",
        "futures",
        "groups",
        "handle",
        "is_alone",
        "is_held",
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
        send_alone: SendAlone,
        handle: StateHandle,
        options: QueryOptions,
    ) -> None:
        self._loop = loop
        self._submit = submit
        self._send_alone = send_alone
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
        self.is_alone = False
        """True while one caller asks for one key after the other."""
        self.is_held = False
        """True if collected keys are submitted once a batch in flight has ended."""
        # What is the same in the queries of single keys is set once a placement.
        self.alone_frame = query_pb2.ClientFrame()
        self.alone_query = self.alone_frame.query
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
        query = self.alone_query
        query.state_id = located.state_id
        query.placement_version = located.placement_version
        query.read = self.read_kind
        query.deadline_ms = max(1, int(self.options.timeout_s * 1000))
        query.keys[:] = (b"",)
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

    def add_all(
        self, keys: list[Any], results: PendingResults, deadline: float | None = None
    ) -> None:
        """Adds the encoded keys of one call; submits them at once if there is a deadline."""
        if deadline is not None:
            self._submit(self, keys, results, deadline)
            return
        self.groups.append((keys, results))
        self.flush_soon()

    def hold(self) -> None:
        """Collects keys until `flush_soon`, or for two milliseconds."""
        self.is_held = True
        self._loop.call_later(_HOLD_S, self._release)

    def _release(self) -> None:
        if self.is_held:
            self.flush_soon()

    def flush_soon(self) -> None:
        """Schedules `flush` behind the callbacks that are already scheduled.

        Also called after answers were delivered: callers that continue with another lookup run
        first, and their keys are sent before the loop reads more input.
        """
        self.is_held = False
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
        self._send_alone = never_alone
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
        future: asyncio.Future[Any] = self._loop.create_future()
        encode = self.encode
        if encode is not None:
            try:
                key = encode(key)
            except QueryableStateError as error:
                future.set_exception(self.key_error(error))
                return future
            if self.is_alone:
                if not self.keys and self._send_alone(self, key, future):
                    return future
                self.is_alone = False
        self.keys.append(key)
        self.futures.append(future)
        if not self.scheduled and not self.is_held:
            self.scheduled = True
            self._loop.call_soon(self.flush)
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


def never_alone(_: KeyBatcher, __: bytes, ___: asyncio.Future[Any]) -> bool:
    """A `SendAlone` that leaves every key to a batch."""
    return False


class LoneQuery(NamedTuple):
    """The key of a caller that asks for one key after the other, in flight."""

    query_id: int
    batcher: KeyBatcher
    codecs: StateCodecs
    key: bytes
    future: asyncio.Future[Any]
    deadline: float
    """On the loop's clock."""

    sent_after: int
    """As in a batch."""

    def deliver(self, answer: query_pb2.Answer) -> bool:
        """Delivers the value of a whole answer; False if it is a part, a refusal, or has none."""
        values = answer.values
        if len(values) != 1 or not answer.last or answer.indexes:
            return False
        future, batcher = self.future, self.batcher
        if not future.done():
            codecs = self.codecs
            if batcher.options.expectation is not None:
                codecs = batcher.answer_codecs(codecs)
            context = DecodeContext(codecs, answer.info)
            future.set_result(batcher.answer_type(values[0], context))
        return True

    def batch(self) -> Batch:
        """The same look-up as a batch."""
        results = self.batcher.options.operation.results([self.future])
        batch = Batch(self.batcher, self.codecs, [self.key], results, self.deadline)
        batch.query_id, batch.sent_after = self.query_id, self.sent_after
        return batch


class Batch:
    """Keys of one `KeyBatcher` with one deadline.

    `keys` are wire keys encoded by `codecs`; if `codecs` is None, the state is not located yet
    and they are keys as the caller gave them. A position is an index into `keys`.
    """

    __slots__ = (
        "address",
        "attempts",
        "batcher",
        "codecs",
        "deadline",
        "done",
        "failure",
        "keys",
        "pending",
        "query_id",
        "results",
        "sent_after",
        "timer",
        "widens",
    )

    def __init__(
        self,
        batcher: KeyBatcher,
        codecs: StateCodecs | None,
        keys: list[bytes],
        results: PendingResults,
        deadline: float,
    ) -> None:
        self.batcher = batcher
        self.codecs = codecs
        self.keys = keys
        self.results = results
        self.deadline = deadline
        """On the loop's clock."""
        self.attempts = 0
        """How many attempts with these keys have failed."""
        self.failure: QueryableStateError | None = None
        """Error of the last attempt."""
        self.pending: set[int] | None = None
        """Positions without a result; None: all of them."""
        self.address = ""
        """The server it was given to last; empty: none."""
        self.query_id = 0
        """Id of its query in flight there; 0: none is in flight."""
        self.sent_after = 0
        """Number of frames that had arrived on its connection when it was sent."""
        self.widens = False
        """True while it widens the window of its connection by one batch."""
        self.timer: asyncio.TimerHandle | None = None
        self.done = False

    def join(self, other: Batch, most_keys: int) -> bool:
        """Appends the keys of a batch behind this one if both may be joined; True if it did."""
        if (
            self.batcher is not other.batcher
            or self.codecs is not other.codecs
            or self.done
            or self.pending is not None
            or self.attempts
            or other.attempts
            or len(self.keys) + len(other.keys) > most_keys
            or other.deadline - self.deadline >= _JOIN_S
        ):
            return False
        self.keys.extend(other.keys)
        self.results = self.results.joined(other.results)
        return True

    def request(self, query_id: int, placement_version: int, state_id: int, now: float) -> bytes:
        """Returns the request frame."""
        batcher = self.batcher
        request = query_pb2.ClientFrame()
        query = request.query
        query.id = query_id
        query.state_id = state_id
        query.placement_version = placement_version
        query.read = batcher.read_kind
        query.deadline_ms = max(1, int((self.deadline - now) * 1000))
        query.keys.extend(self.keys)
        if not batcher.is_plain:
            self._add_options(query)
        return request.SerializeToString()

    def complete(self, answer: query_pb2.Answer) -> Sequence[Failure]:
        """Delivers the results of an answer, or of one part; returns the positions that failed.

        Raises `CorruptDataError` if the answer contradicts itself.
        """
        values = answer.values
        if self.pending is None and len(values) == len(self.keys) and not answer.indexes:
            context = self._context(answer)
            self.results.found_all(states_of(self.batcher.answer_type, list(values), context))
            return ()
        return self._complete_part(answer)

    def unanswered(self) -> list[int]:
        """Returns the positions without a result, ascending."""
        return list(range(len(self.keys))) if self.pending is None else sorted(self.pending)

    def fail(self, positions: Iterable[int], error: QueryableStateError) -> None:
        """Fails the keys at some positions."""
        self.results.fail(positions, error)

    def timeout_error(self) -> QueryableStateError:
        """Returns the error of the last attempt; a `QueryTimeoutError` if none has failed."""
        if self.failure is not None:
            return self.failure.after(self.attempts)
        where = f" from {self.address}" if self.address else ""
        return QueryTimeoutError(
            f"no answer for {self.batcher.describe()} within "
            f"{self.batcher.options.timeout_s:g} s{where}: increase timeout_s, or find out "
            "why the server is slow"
        )

    def _add_options(self, query: query_pb2.Query) -> None:
        """Adds every option beyond the keys and the kind of read."""
        options = self.batcher.options
        consistency = options.consistency
        query.consistency = consistency.wire
        query.min_version = consistency.min_version
        query.max_staleness_ms = consistency.max_staleness_ms
        query.timeline = consistency.timeline
        query.namespace = options.namespace
        query.allow_incomplete = options.allow_incomplete
        if options.at_version is not None:
            query.at_version = options.at_version
        query.explain = options.trace is not None
        if options.operation.of_entries:
            query.elements.extend([key.element for key in self.keys if isinstance(key, EntryKey)])
        if options.operation.of_slices:
            query.ranges.extend([key.range for key in self.keys if isinstance(key, SliceKey)])
        if options.operation.of_windows:
            query.windows.extend([key.windows for key in self.keys if isinstance(key, WindowsKey)])

    def _complete_part(self, answer: query_pb2.Answer) -> Sequence[Failure]:
        if self.pending is None:
            self.pending = set(range(len(self.keys)))
        pending = self.pending
        if answer.HasField("error"):
            refused = sorted(pending)
            pending.clear()
            return [(refused, QueryableStateError.from_proto(answer.error))]
        missing = list(answer.missing)
        indexes = list(answer.indexes)
        failures = [
            (list(failed.indexes), QueryableStateError.from_proto(failed.error))
            for failed in answer.failed
        ]
        if not indexes and answer.values:
            others = set(missing)
            for positions, _ in failures:
                others.update(positions)
            indexes = [position for position in range(len(self.keys)) if position not in others]
        done_now = [*indexes, *missing]
        for positions, _ in failures:
            done_now.extend(positions)
        if len(indexes) != len(answer.values) or not pending.issuperset(done_now):
            raise CorruptDataError(
                f"an answer for {self.batcher.describe()} contradicts itself: {len(answer.values)} "
                f"values for {len(indexes)} positions of {len(self.keys)} keys"
            )
        pending.difference_update(done_now)
        context = self._context(answer)
        answer_type = self.batcher.answer_type
        for position, value in zip(indexes, answer.values, strict=True):
            self.results.found(position, answer_type(value, context))
        codecs, text = context.codecs, self.batcher.missing_text_of
        for position in missing:
            self.results.missing(position, context, partial(text, self.keys[position], codecs))
        return failures

    def _context(self, answer: query_pb2.Answer) -> DecodeContext:
        assert self.codecs is not None
        codecs = self.batcher.answer_codecs(self.codecs)
        return DecodeContext(codecs, answer.info, self.batcher.options.window)

    def wire_keys(self, codecs: StateCodecs) -> tuple[list[bytes], PendingResults]:
        """Returns the keys encoded by `codecs`, and their results; fails those it cannot encode.

        The keys are as the caller gave them if the state was not located, or encoded by other
        codecs if it was registered again since.
        """
        encoded, results = self.codecs, self.results
        if encoded is codecs:
            return self.keys, results
        encode, decode = self.batcher.encode, self.batcher.options.operation.decoded
        assert encode is not None
        keys: list[bytes] = []
        positions: list[int] = []
        for position, key in enumerate(self.keys):
            try:
                keys.append(encode(key if encoded is None else decode(key, encoded)))
                positions.append(position)
            except QueryableStateError as error:
                results.fail([position], self.batcher.key_error(error))
        if len(keys) < len(self.keys):
            results = results.pick(positions)
        return keys, results
