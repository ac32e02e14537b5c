"""A subtask that this server owns: its store, and the task attempts at uncommitted batches."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.internal.v1 import backend_pb2
from queryable_state.internal.v1.user_metrics_pb2 import UserMetric
from queryable_state.server.state_server.key_sampler import RecentKeys
from queryable_state.server.state_server.watches.change_history import ChangeHistory
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.internal.v1 import changes_pb2, checkpoint_pb2, user_metrics_pb2
    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.store import StateStore, Token
    from queryable_state.server.storage.time_index import NextTimers
    from queryable_state.v1 import registration_pb2


_log = logging.getLogger(__name__)

MOST_METRICS = 256
"""Metrics of one subtask. A function that names them after its data would make ever more."""


class UserMetrics:
    """Sums of counters, meters and distributions; the newest values of gauges.

    `add` is called on the event loop, `values` on any thread.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._values: dict[tuple[tuple[str, ...], str, int], UserMetric] = {}
        self._is_full = False

    def add(self, reported: Iterable[UserMetric]) -> None:
        """Adds the metrics of a committed batch."""
        for metric in reported:
            identity = (tuple(metric.groups), metric.name, metric.kind)
            known = self._values.get(identity)
            if known is None and len(self._values) >= MOST_METRICS:
                self._refuse(metric)
            else:
                self._values[identity] = metric if known is None else _sum(known, metric)

    def values(self) -> Sequence[UserMetric]:
        """The metrics. COUNTER, METER, DISTRIBUTION: since the server opened the subtask."""
        return list(self._values.values())

    def _refuse(self, metric: UserMetric) -> None:
        if not self._is_full:
            _log.warning(
                "%s: metric %s is left out, because its functions have more than %d metrics: do "
                "not name metrics after keys or batches",
                self._where,
                ".".join((*metric.groups, metric.name)),
                MOST_METRICS,
            )
        self._is_full = True


def _sum(known: UserMetric, newer: UserMetric) -> UserMetric:
    """A message of its own, because a scrape may be reading the known one."""
    metric = UserMetric()
    metric.CopyFrom(newer)
    if newer.kind == UserMetric.GAUGE:
        return metric
    metric.value += known.value
    if newer.kind == UserMetric.DISTRIBUTION:
        metric.count += known.count
        if not newer.count:
            metric.least, metric.largest = known.least, known.largest
    return metric


class SubtaskId(NamedTuple):
    """A subtask of a stateful operator."""

    query_id: bytes
    operator_uid: str
    subtask: int
    parallelism: int
    max_parallelism: int

    @classmethod
    def of(cls, subtask: backend_pb2.Subtask) -> SubtaskId:
        """The subtask of a request; raises `InvalidRequestError` if it is malformed."""
        if len(subtask.query_id) != 16 or not (
            0 <= subtask.index < subtask.parallelism <= subtask.max_parallelism < 1 << 15
        ):
            raise InvalidRequestError(
                f"subtask {subtask.index} of {subtask.parallelism} (max_parallelism "
                f"{subtask.max_parallelism}) of a query id of {len(subtask.query_id)} bytes: want "
                "index < parallelism <= max_parallelism <= 32767 and 16 bytes"
            )
        return cls(
            subtask.query_id,
            subtask.operator_uid,
            subtask.index,
            subtask.parallelism,
            subtask.max_parallelism,
        )

    def to_proto(self) -> backend_pb2.Subtask:
        """The protobuf message of the subtask."""
        return backend_pb2.Subtask(
            query_id=self.query_id,
            operator_uid=self.operator_uid,
            index=self.subtask,
            parallelism=self.parallelism,
            max_parallelism=self.max_parallelism,
        )

    def __str__(self) -> str:
        return (
            f"subtask {self.subtask}/{self.parallelism} of operator {self.operator_uid!r} "
            f"of job {self.query_id.hex()}"
        )


@dataclass(frozen=True)
class SealMark:
    """A seal of a batch. Equal marks are retries of one prepare."""

    token: Token
    fingerprint: int
    row_count: int
    record_count: int
    checksum: int
    changelog: checkpoint_pb2.ChangelogFile | None = field(default=None, compare=False)
    """The durable changelog of the seal; None if the job is not durable."""
    broadcast_digest: int = field(default=0, compare=False)
    """Digest of the broadcast states that the seal changed; 0: none."""
    next_timers: NextTimers | None = field(default=None, compare=False)
    """The timers that are pending after the batch; None: the operator has no timers."""
    user_metrics: Sequence[user_metrics_pb2.UserMetric] = field(default=(), compare=False)
    """What the functions of the operator counted in the batch."""

    @classmethod
    def of(
        cls, seal: changes_pb2.Seal, changelog: checkpoint_pb2.ChangelogFile | None = None
    ) -> SealMark:
        """Returns the mark of a seal."""
        return cls(
            (seal.token.run_epoch, seal.token.task_attempt),
            seal.fingerprint,
            seal.row_count,
            seal.record_count,
            seal.checksum,
            changelog,
        )

    def __str__(self) -> str:
        return (
            f"{self.record_count} records (checksum {self.checksum:08x}) of {self.row_count} rows "
            f"(fingerprint {self.fingerprint:016x})"
        )


@dataclass(eq=False)
class BegunAttempt:
    """A task attempt that has begun on this server."""

    offsets_digest: bytes
    """Digest of the offsets of its batch."""
    execution: int
    """Number of the only execution of the operator that the attempt may have."""
    seal: SealMark | None = None
    """The first seal of the attempt; later seals must be equal."""


@dataclass(slots=True)
class CleanUpPass:
    """A pass of clean-up over the records of one state."""

    next_key: bytes | None
    """The first key that is not visited; None: the pass has ended."""
    oldest_ms: int
    """No value in the base was updated before this time, except in records not visited yet."""


@dataclass(eq=False)
class OwnedSubtask:
    """The store of a subtask and the state of its uncommitted batches. Event loop only."""

    id: SubtaskId
    store: StateStore
    placement_version: int
    """Placement at which the store was opened; owner lists of older placements lack it."""

    complete_since_batch: int
    """First batch from which the state is complete; 0: complete from the start."""

    states: dict[int, registration_pb2.StateRegistration] = field(default_factory=dict)
    """The operator's states, by state id."""

    begun: dict[int, dict[Token, BegunAttempt]] = field(default_factory=dict)
    """Attempts that have begun, by uncommitted batch and token."""

    seals: dict[int, list[SealMark]] = field(default_factory=dict)
    """Acknowledged seals in order, by uncommitted batch; the last one counts."""

    offsets: dict[int, bytes] = field(default_factory=dict)
    """Digest of the offsets of the sealed data, by uncommitted batch."""

    visits: dict[int, int] = field(default_factory=dict)
    """Records that clean-up has to visit, by state id."""

    passes: dict[int, CleanUpPass] = field(default_factory=dict)
    """The newest pass of clean-up, by state id."""

    key_rows: RecentKeys = field(default_factory=RecentKeys)
    """Rows that tasks processed, by key."""

    def __post_init__(self) -> None:
        self.user_metrics = UserMetrics(str(self.id))
        self.history = ChangeHistory(self.store.committed_version)
        """The changes of its newest batches, for watches."""
        self.first_key_group, self.last_key_group = key_group_range(
            self.id.subtask, self.id.parallelism, self.id.max_parallelism
        )

    def begin_attempt(
        self, batch_id: int, token: Token, offsets_digest: bytes, execution: int
    ) -> None:
        """Records an attempt; raises JobError if it began another execution before."""
        attempts = self.begun.setdefault(batch_id, {})
        known = attempts.get(token)
        if known is None or known.offsets_digest != offsets_digest:
            attempts[token] = BegunAttempt(offsets_digest, execution)
        elif known.execution != execution:
            raise self._ran_twice(
                f"task attempt {token[1]} runs the operator a second time in batch {batch_id}"
            )

    def claim_seal(self, batch_id: int, mark: SealMark) -> None:
        """Binds an attempt to its first seal, even if that seal fails; JobError for another seal.

        A retried prepare has the same seal.
        """
        attempt = self.begun[batch_id][mark.token]
        if attempt.seal is None:
            sealed = self.seals.get(batch_id, ())
            attempt.seal = next((seal for seal in sealed if seal.token == mark.token), mark)
        if attempt.seal != mark:
            raise self._ran_twice(
                f"task attempt {mark.token[1]} sealed batch {batch_id} with {attempt.seal}, and "
                f"seals it again with {mark}"
            )

    def _ran_twice(self, what: str) -> JobError:
        return JobError(
            f"{self.id}: {what}. This is refused, because one of the two would replace the other. "
            "Spark runs several subtasks in one task where coalesce() or union() are in the stage "
            "of the operator: call repartition() directly behind the operator",
            reason=Reason.SUBTASK_MISMATCH,
        )

    def sealed_up_to(self, version: int) -> list[backend_pb2.SealedSubtask]:
        """The seals of uncommitted batches up to a version, by batch."""
        return [
            self._sealed(batch_id, self.seals[batch_id])
            for batch_id in sorted(self.seals)
            if batch_id <= version
        ]

    def forget_up_to(self, version: int) -> list[backend_pb2.SealedSubtask]:
        """Removes the attempts at committed batches; returns the seals of these batches."""
        sealed = self.sealed_up_to(version)
        for each in sealed:
            self.user_metrics.add(self.seals[each.batch_id][-1].user_metrics)
        for known in (self.begun, self.offsets, self.seals):
            for batch_id in [batch_id for batch_id in known if batch_id <= version]:
                del known[batch_id]
        return sealed

    def plan_clean_up(self, changes: Overlay | None, row_count: int) -> None:
        """Adds the visits of clean-up for one commit: its changes, and the rows of its batch."""
        for state_id, state in self.states.items():
            ttl = state.ttl
            written = None if changes is None else changes.states.get(state_id)
            visits = ttl.visits_per_commit + ttl.visits_per_row * row_count
            visits += ttl.visits_per_change * (0 if written is None else len(written.records))
            if visits and ttl.ttl_ms:
                self.visits[state_id] = self.visits.get(state_id, 0) + visits

    def discard_other_offsets(self, batch_id: int, digest: bytes) -> None:
        """Discards the seals of a batch if Spark has planned it again with other offsets."""
        if self.offsets.setdefault(batch_id, digest) == digest:
            return
        self.offsets[batch_id] = digest
        self.seals.pop(batch_id, None)
        if self.store.staged_version == batch_id:
            self.store.discard_staged()

    def _sealed(self, batch_id: int, seals: list[SealMark]) -> backend_pb2.SealedSubtask:
        timers = seals[-1].next_timers
        return backend_pb2.SealedSubtask(
            operator_uid=self.id.operator_uid,
            subtask=self.id.subtask,
            batch_id=batch_id,
            fingerprints=[seal.fingerprint for seal in seals],
            row_count=seals[-1].row_count,
            changelog=seals[-1].changelog,
            broadcast_digest=seals[-1].broadcast_digest,
            next_timers=None if timers is None else backend_pb2.NextTimers(**timers._asdict()),
        )
