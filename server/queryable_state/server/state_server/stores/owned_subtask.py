"""One subtask this server owns: its store, and the attempts at its open batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.internal.v1 import backend_pb2
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from queryable_state.internal.v1 import changes_pb2, checkpoint_pb2
    from queryable_state.server.storage.store import StateStore, Token
    from queryable_state.v1 import registration_pb2


class SubtaskId(NamedTuple):
    """A subtask of a stateful operator."""

    query_id: bytes
    operator_uid: str
    subtask: int
    parallelism: int
    max_parallelism: int

    @classmethod
    def of(cls, subtask: backend_pb2.Subtask) -> SubtaskId:
        """The subtask of a request; raises where it cannot be one."""
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
        """The subtask as it crosses the wire."""
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
    """One seal of a batch. Equal marks are the same prepare, sent again."""

    token: Token
    fingerprint: int
    row_count: int
    record_count: int
    checksum: int
    changelog: checkpoint_pb2.ChangelogFile | None = field(default=None, compare=False)
    """Where the seal is durable; None: the job has no durable copy."""

    @classmethod
    def of(
        cls, seal: changes_pb2.Seal, changelog: checkpoint_pb2.ChangelogFile | None = None
    ) -> SealMark:
        """The mark of a seal."""
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
    """A task attempt begun here."""

    offsets_digest: bytes
    """Digest of the offsets of its batch."""
    execution: int
    """Number of the one execution of the operator that the attempt may be."""
    seal: SealMark | None = None
    """The first seal it sent; every later one must be equal."""


@dataclass(eq=False)
class OwnedSubtask:
    """The store of a subtask and what is known of its batches. Event loop only."""

    id: SubtaskId
    store: StateStore
    placement_version: int
    """Placement at which the store was opened: an older list of subtasks does not know it."""

    complete_since_batch: int
    """First batch since which the state is complete; 0: all."""

    states: dict[int, registration_pb2.StateRegistration] = field(default_factory=dict)
    """The operator's states, by state id."""

    begun: dict[int, dict[Token, BegunAttempt]] = field(default_factory=dict)
    """Attempts begun here, by batch not yet committed and token."""

    seals: dict[int, list[SealMark]] = field(default_factory=dict)
    """Every acknowledged seal, by batch not yet committed, in order: the last one holds."""

    offsets: dict[int, bytes] = field(default_factory=dict)
    """Digest of the offsets that what is sealed was made of, by batch not yet committed."""

    def __post_init__(self) -> None:
        self.first_key_group, self.last_key_group = key_group_range(
            self.id.subtask, self.id.parallelism, self.id.max_parallelism
        )

    def begin_attempt(
        self, batch_id: int, token: Token, offsets_digest: bytes, execution: int
    ) -> None:
        """Takes an attempt as begun; JobError if it began another execution before."""
        attempts = self.begun.setdefault(batch_id, {})
        known = attempts.get(token)
        if known is None or known.offsets_digest != offsets_digest:
            attempts[token] = BegunAttempt(offsets_digest, execution)
        elif known.execution != execution:
            raise self._ran_twice(
                f"task attempt {token[1]} runs the operator a second time in batch {batch_id}"
            )

    def claim_seal(self, batch_id: int, mark: SealMark) -> None:
        """Ties a begun attempt to its first seal, whatever becomes of that; JobError for another
        one. A prepare whose answer was lost has the same seal again."""
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
        """What is sealed of uncommitted batches up to a version, by batch."""
        return [
            self._sealed(batch_id, self.seals[batch_id])
            for batch_id in sorted(self.seals)
            if batch_id <= version
        ]

    def forget_up_to(self, version: int) -> list[backend_pb2.SealedSubtask]:
        """Forgets the attempts at committed batches; returns what was sealed in them."""
        sealed = self.sealed_up_to(version)
        for known in (self.begun, self.offsets, self.seals):
            for batch_id in [batch_id for batch_id in known if batch_id <= version]:
                del known[batch_id]
        return sealed

    def discard_other_offsets(self, batch_id: int, digest: bytes) -> None:
        """Discards what was sealed of a batch whose offsets have been planned anew since."""
        if self.offsets.setdefault(batch_id, digest) == digest:
            return
        self.offsets[batch_id] = digest
        self.seals.pop(batch_id, None)
        if self.store.staged_version == batch_id:
            self.store.discard_staged()

    def _sealed(self, batch_id: int, seals: list[SealMark]) -> backend_pb2.SealedSubtask:
        return backend_pb2.SealedSubtask(
            operator_uid=self.id.operator_uid,
            subtask=self.id.subtask,
            batch_id=batch_id,
            fingerprints=[seal.fingerprint for seal in seals],
            row_count=seals[-1].row_count,
            changelog=seals[-1].changelog,
        )
