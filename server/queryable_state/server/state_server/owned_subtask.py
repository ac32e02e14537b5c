"""One subtask this server owns: its store, and the attempts at its open batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.internal.v1 import backend_pb2
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.key_groups import key_group_range

if TYPE_CHECKING:
    from queryable_state.internal.v1 import checkpoint_pb2
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
    """What a seal said of its input."""

    token: Token
    fingerprint: int
    row_count: int
    changelog: checkpoint_pb2.ChangelogFile | None = None
    """Where the seal is durable; None: the job has no durable copy."""


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

    begun: dict[int, dict[Token, bytes]] = field(default_factory=dict)
    """Attempts begun here, by batch not yet committed, with the digest of its offsets."""

    seals: dict[int, list[SealMark]] = field(default_factory=dict)
    """Every acknowledged seal, by batch not yet committed, in order: the last one holds."""

    offsets: dict[int, bytes] = field(default_factory=dict)
    """Digest of the offsets that what is sealed was made of, by batch not yet committed."""

    def __post_init__(self) -> None:
        self.first_key_group, self.last_key_group = key_group_range(
            self.id.subtask, self.id.parallelism, self.id.max_parallelism
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
