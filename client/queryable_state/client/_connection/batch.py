"""Keys asked for together, until each has its answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from queryable_state.client._reading.decode_context import DecodeContext
from queryable_state.client._reading.operation import EntryKey
from queryable_state.client._reading.states import states_of
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    QueryableStateError,
    QueryTimeoutError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Sequence

    from queryable_state.client._connection.server_connection import ServerConnection
    from queryable_state.client._reading.pending_results import PendingResults
    from queryable_state.client._routing.key_batcher import KeyBatcher
    from queryable_state.wire.state_codecs import StateCodecs

Failure = tuple[list[int], QueryableStateError]

# Batches that wait are joined when their deadlines are this near.
_JOIN_S = 0.02


class Batch:
    """Keys of one lane with one deadline.

    `keys` are wire keys once `codecs` is set, else keys as the caller gave them,
    of a state not located yet. Positions count within the batch.
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
        """How often these keys were refused."""
        self.failure: QueryableStateError | None = None
        """Why they were refused last."""
        self.pending: set[int] | None = None
        """Positions without an answer, where some have one already."""
        self.server: ServerConnection | None = None
        self.query_id = 0
        """Its query in flight at `server`; 0: none."""
        self.sent_at = 0.0
        self.widens = False
        """Whether it makes room for one more batch in flight at `server`."""
        self.timer: asyncio.TimerHandle | None = None
        self.done = False

    def takes(self, other: Batch, most_keys: int) -> bool:
        """Takes the keys of another batch that waits behind this one, if they are alike."""
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
        """The frame that asks for the keys."""
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
            self._specify(query)
        return request.SerializeToString()

    def settle(self, answer: query_pb2.Answer) -> Sequence[Failure]:
        """Hands out what an answer, or a part of one, holds; returns what it could not read.

        Raises `CorruptDataError` for an answer that contradicts itself.
        """
        values = answer.values
        if self.pending is None and len(values) == len(self.keys) and not answer.indexes:
            context = self._context(answer)
            self.results.found_all(states_of(self.batcher.answer_type, list(values), context))
            return ()
        return self._settle_part(answer)

    def left(self) -> list[int]:
        """Positions without an answer, ascending."""
        return list(range(len(self.keys))) if self.pending is None else sorted(self.pending)

    def fail(self, positions: Iterable[int], error: QueryableStateError) -> None:
        """Ends the wait for some keys."""
        self.results.fail(positions, error)

    def timeout_error(self) -> QueryableStateError:
        """Why time ran out: the last refusal, where there was one."""
        if self.failure is not None:
            return self.failure.after(self.attempts)
        where = "" if self.server is None else f", asked of {self.server.address}"
        return QueryTimeoutError(
            f"no answer for {self.batcher.describe()} within "
            f"{self.batcher.options.timeout_s:g} s{where}: increase timeout_s, or find out "
            "why the server is slow"
        )

    def _specify(self, query: query_pb2.Query) -> None:
        """Says what goes beyond keys and the kind of read."""
        options = self.batcher.options
        consistency = options.consistency
        query.consistency = consistency.wire
        query.min_version = consistency.min_version
        query.max_staleness_ms = consistency.max_staleness_ms
        query.namespace = options.namespace
        query.allow_incomplete = options.allow_incomplete
        if options.at_version is not None:
            query.at_version = options.at_version
        query.explain = options.trace is not None
        if options.operation.of_entries:
            query.elements.extend([key.element for key in self.keys if isinstance(key, EntryKey)])

    def _settle_part(self, answer: query_pb2.Answer) -> Sequence[Failure]:
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
        settled = [*indexes, *missing]
        for positions, _ in failures:
            settled.extend(positions)
        if len(indexes) != len(answer.values) or not pending.issuperset(settled):
            raise CorruptDataError(
                f"an answer for {self.batcher.describe()} contradicts itself: {len(answer.values)} "
                f"values for {len(indexes)} positions of {len(self.keys)} keys"
            )
        pending.difference_update(settled)
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
        return DecodeContext(self.codecs, answer.info)
