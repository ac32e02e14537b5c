"""A query on its way through a proxy, in as many parts as it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.query.frames.answer_frames import frame_of
from queryable_state.server.query.proxy_trace import ProxyTrace
from queryable_state.server.query.retries import OWNERS, is_retried
from queryable_state.v1 import errors_pb2, query_pb2
from queryable_state.wire.errors import CorruptDataError, QueryTimeoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.metrics.proxy_counts import ProxyCounts
    from queryable_state.wire.errors import QueryableStateError
    from queryable_state.wire.located_state import LocatedState, Owner

Refused = tuple[list[int], errors_pb2.Error]


class SubQuery:
    """Keys of one query that are pending at one owner, or wait for a retry."""

    __slots__ = ("positions", "query")

    def __init__(self, query: ProxiedQuery, positions: Sequence[int] | None) -> None:
        self.query = query
        self.positions = positions
        """Indexes of the keys in the query; None: all keys, relayed in the original frame."""

    def keys(self) -> Sequence[bytes]:
        """The keys of this part."""
        keys = self.query.keys
        return keys if self.positions is None else [keys[at] for at in self.positions]

    def started(self, owner: Owner) -> None:
        """Traces the call of an owner."""
        if self.query.trace is not None:
            self.query.trace.asks(self, owner)

    def answered(self, answer: query_pb2.Answer, how: str) -> None:
        """Moves the trace of an answer into that of the query; `how` names the transport."""
        if self.query.trace is not None and answer.last:
            self.query.trace.answered(self, answer, how)

    def refused(self, error: errors_pb2.Error) -> None:
        """Traces that no owner answers."""
        if self.query.trace is not None:
            self.query.trace.refused(self, error)

    def indexes(self) -> Sequence[int]:
        """Indexes of the keys in the query, also if it is all of them."""
        return range(len(self.query.keys)) if self.positions is None else self.positions


class ProxiedQuery:
    """A query from its arrival until the end of its answer.

    `parts` are the parts without an answer; the answer ends with the last of them.
    """

    __slots__ = (
        "attempts",
        "counts",
        "deadline",
        "failure",
        "frame",
        "keys",
        "parts",
        "query",
        "sent",
        "trace",
    )

    def __init__(
        self,
        query: query_pb2.Query,
        frame: bytes,
        deadline: float,
        counts: ProxyCounts,
        *,
        server_id: str,
    ) -> None:
        """`counts` and `server_id` are those of the proxy."""
        self.query = query
        self.counts = counts
        self.frame = frame
        self.keys: Sequence[bytes] = query.keys
        self.deadline = deadline
        """On the loop's clock; before the client's, so that the client receives the reason."""
        self.parts: set[SubQuery] = set()
        self.sent = 0
        """Number of answer frames delivered."""
        self.attempts = 0
        self.failure: errors_pb2.Error | None = None
        """The newest refusal of keys."""
        self.trace = ProxyTrace(server_id, query.keys) if query.explain else None
        """None without `explain`."""

    def retry_delay_s(self, error: errors_pb2.Error) -> float:
        """Counts a refusal of keys; returns the seconds until they may be tried again."""
        self.failure = error
        self.counts.retries += 1
        delay_s = OWNERS.delay_s(error, self.attempts)
        self.attempts += 1
        return delay_s

    def located(self, located: LocatedState, took_s: float = 0.0, *, cached: bool = False) -> None:
        """Traces the placement that routes the query."""
        if self.trace is not None:
            self.trace.located(located, took_s, cached=cached)

    def part(self, positions: Sequence[int] | None) -> SubQuery:
        """Opens a part; None: of all keys."""
        part = SubQuery(self, positions)
        self.parts.add(part)
        return part

    def sub_query(self, query_id: int, positions: Sequence[int], now: float) -> query_pb2.Query:
        """Returns a query for some of the keys, with an id of its own."""
        whole = self.query
        keys = self.keys
        query = query_pb2.Query(
            id=query_id,
            state_id=whole.state_id,
            placement_version=whole.placement_version,
            consistency=whole.consistency,
            deadline_ms=max(1, int((self.deadline - now) * 1000)),
            namespace=whole.namespace,
            read=whole.read,
            keys=[keys[position] for position in positions],
            allow_incomplete=whole.allow_incomplete,
            min_version=whole.min_version,
            max_staleness_ms=whole.max_staleness_ms,
            timeline=whole.timeline,
            elements=whole.elements,
            explain=whole.explain,
            partitions=whole.partitions,
            ranges=whole.ranges if len(whole.ranges) != len(keys) else (),
            windows=whole.windows if len(whole.windows) != len(keys) else (),
        )
        if len(whole.elements) == len(keys):
            query.elements[:] = [whole.elements[position] for position in positions]
        if len(whole.ranges) == len(keys):
            query.ranges.extend(whole.ranges[position] for position in positions)
        if len(whole.windows) == len(keys):
            query.windows.extend(whole.windows[position] for position in positions)
        if whole.HasField("at_version"):
            query.at_version = whole.at_version
        return query

    def take(self, part: SubQuery, answer: query_pb2.Answer) -> list[Refused]:
        """Rewrites an answer to a part as an answer to the query, in place.

        Removes retryable refusals from the answer and returns them.
        Raises `CorruptDataError` for a contradictory answer.
        """
        positions = part.indexes()
        if answer.HasField("error"):
            error = errors_pb2.Error()
            error.CopyFrom(answer.error)
            answer.ClearField("error")
            failed = [(list(positions), error)]
            values_at: list[int] = []
            missing: list[int] = []
        else:
            try:
                failed = [([positions[at] for at in f.indexes], f.error) for f in answer.failed]
                missing = [positions[at] for at in answer.missing]
                values_at = [positions[at] for at in answer.indexes]
            except IndexError:
                raise CorruptDataError("an owner answered for keys it was not asked for") from None
            if not values_at and answer.values:
                others = set(missing)
                for refused, _ in failed:
                    others.update(refused)
                values_at = [at for at in positions if at not in others]
            if len(values_at) != len(answer.values):
                raise CorruptDataError(
                    f"an owner answered {len(answer.values)} values for {len(values_at)} keys"
                )
        retried = [(refused, error) for refused, error in failed if is_retried(error)]
        final = [
            query_pb2.KeyFailure(indexes=refused, error=error)
            for refused, error in failed
            if not is_retried(error)
        ]
        answer.id = self.query.id
        del answer.indexes[:]
        answer.indexes.extend(values_at)
        del answer.missing[:]
        answer.missing.extend(missing)
        del answer.failed[:]
        answer.failed.extend(final)
        return retried

    def frame_of_part(self, answer: query_pb2.Answer, *, last: bool) -> bytes | None:
        """The next frame of the answer; None if it would be empty."""
        if not last and not (answer.indexes or answer.missing or answer.failed):
            return None
        return self._frame(answer, last)

    def frame_of_failure(
        self, positions: Sequence[int] | None, error: errors_pb2.Error, *, last: bool
    ) -> bytes:
        """Counts a failure; returns the frame that fails keys; None: all keys."""
        self.counts.fail(error)
        answer = query_pb2.Answer(id=self.query.id)
        if last and not self.sent and (positions is None or len(positions) == len(self.keys)):
            answer.error.CopyFrom(error)
        else:
            indexes = range(len(self.keys)) if positions is None else positions
            answer.failed.append(query_pb2.KeyFailure(indexes=indexes, error=error))
        return self._frame(answer, last)

    def _frame(self, answer: query_pb2.Answer, last: bool) -> bytes:
        answer.part = self.sent
        answer.last = last
        self.sent += 1
        if last and self.trace is not None:
            self.trace.put_into(answer)
        return frame_of(answer)

    def open_positions(self) -> list[int]:
        """Indexes of the keys without an answer, ascending."""
        positions: set[int] = set()
        for part in self.parts:
            positions.update(part.indexes())
        return sorted(positions)

    def timeout_error(self, server_id: str) -> errors_pb2.Error:
        """The error at the deadline: the last refusal if there was one."""
        if self.failure is not None:
            return self.failure
        error: QueryableStateError = QueryTimeoutError(
            f"the owner of these keys did not answer proxy {server_id} within "
            f"{self.query.deadline_ms} ms: allow more time, or find out why it is slow"
        )
        return error.to_proto()
