"""A batch of lookups, until every key has its result."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from queryable_state.client._reading.decode_context import DecodeContext
from queryable_state.client._reading.operation import EntryKey, SliceKey, WindowsKey
from queryable_state.client._reading.state_types import states_of
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    QueryableStateError,
    QueryTimeoutError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Sequence

    from queryable_state.client._batching.key_batcher import KeyBatcher
    from queryable_state.client._reading.connection_info import ConnectionInfo
    from queryable_state.client._reading.pending_results import PendingResults
    from queryable_state.wire.state_codecs import StateCodecs

Failure = tuple[list[int], QueryableStateError]

# Waiting batches are joined if their deadlines are closer than this.
_JOIN_S = 0.02


class BatchServer(Protocol):
    """The server connection that a batch was given to."""

    address: str

    @property
    def info(self) -> ConnectionInfo:
        """The current transport to the server."""

    def forget(self, batch: Batch) -> None:
        """Drops a batch that timed out."""


class Batch:
    """Keys of one `KeyBatcher` with one deadline.

    `keys` are wire keys encoded by `codecs`; if `codecs` is None, the state is not located yet
    and they are keys as the caller gave them. A position is an index into `keys`.
    """

    __slots__ = (
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
        "sent_at",
        "server",
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
        self.server: BatchServer | None = None
        self.query_id = 0
        """Id of its query in flight at `server`; 0: none is in flight."""
        self.sent_at = 0.0
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
        where = "" if self.server is None else f" from {self.server.address}"
        return QueryTimeoutError(
            f"no answer for {self.batcher.describe()} within "
            f"{self.batcher.options.timeout_s:g} s{where}: increase timeout_s, or find out "
            "why the server is slow"
        )

    def way(self) -> str:
        """Names the server and the transport to it, for traces."""
        return "no server" if self.server is None else self.server.info.way

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
