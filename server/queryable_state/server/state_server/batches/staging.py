"""Staging of an attempt's changes until they are sealed."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2, changes_pb2
from queryable_state.server.state_server.batches.block_checks import check_block
from queryable_state.server.state_server.batches.changelog_writer import SealedBlocks
from queryable_state.server.state_server.stores.due_timers import timer_state, timers_after
from queryable_state.server.state_server.stores.owned_subtask import (
    OwnedSubtask,
    SealMark,
    SubtaskId,
)
from queryable_state.server.storage.operator_states import broadcast_digest
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.wire.changes import BlockSums, read_block, record_count
from queryable_state.wire.errors import (
    InvalidRequestError,
    JobError,
    LimitExceededError,
    PlacementError,
    Reason,
    RetryLaterError,
    SupersededError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from queryable_state.internal.v1 import checkpoint_pb2
    from queryable_state.server.config.limits import Limits
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.batches.changelog_writer import ChangelogWriter
    from queryable_state.server.state_server.stores.job_stores import JobStores
    from queryable_state.server.state_server.stores.store_table import StoreTable
    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.time_index import NextTimers

_log = logging.getLogger(__name__)

_OVERLOADED_RETRY_MS = 200


class Staging:
    """Serves `Prepare`: collects change blocks in memory; a seal turns them into a staged version.

    Nothing is visible before the seal, and unsealed blocks are dropped when their stream ends.
    Blocks are parsed and built on the background thread; the seal itself is one turn of the
    loop. If the job keeps a durable copy, the changelog is written before the seal: an attempt
    that is refused after that leaves an unacknowledged file, which any newer attempt replaces.
    """

    def __init__(
        self,
        table: StoreTable,
        lease: Lease,
        background: BackgroundThread,
        changelogs: ChangelogWriter,
        limits: Limits,
        *,
        server_id: str,
        strict_determinism: bool,
    ) -> None:
        self._table = table
        self._lease = lease
        self._background = background
        self._changelogs = changelogs
        self._limits = limits
        self._server_id = server_id
        self._strict_determinism = strict_determinism
        self._building_bytes = 0

    @property
    def building_bytes(self) -> int:
        """Bytes of unsealed attempts."""
        return self._building_bytes

    def begun(
        self, subtask_proto: backend_pb2.Subtask, batch_id: int, token: changes_pb2.Token
    ) -> tuple[JobStores, OwnedSubtask]:
        """Returns job and subtask of an attempt that was begun here and is still valid."""
        self._lease.check()
        subtask_id = SubtaskId.of(subtask_proto)
        job = self._table.job(subtask_id.query_id)
        subtask = self._table.subtask(subtask_id)
        if job is None or subtask is None:
            raise PlacementError(
                f"{subtask_id} is not owned by server {self._server_id}: locate its owner and "
                "begin there",
                placement_version=self._lease.placement_version,
            )
        job.check_epoch(token.run_epoch)
        job.check_uncommitted(batch_id)
        if (token.run_epoch, token.task_attempt) not in subtask.begun.get(batch_id, ()):
            raise PlacementError(
                f"{subtask_id}: batch {batch_id} was not begun by attempt {token.task_attempt} of "
                f"epoch {token.run_epoch} on server {self._server_id}: begin it there first",
                placement_version=self._lease.placement_version,
            )
        return job, subtask

    async def prepare(
        self, frames: AsyncIterator[backend_pb2.PrepareRequest]
    ) -> backend_pb2.PrepareResponse:
        """Receives one attempt's frames (open, blocks, seal); returns once it is sealed."""
        first = await anext(aiter(frames), None)
        if first is None or not first.HasField("open"):
            raise InvalidRequestError("the first frame of a prepare must be `open`")
        opening = first.open
        job, subtask = self.begun(opening.subtask, opening.batch_id, opening.token)
        attempt = _Attempt(opening, [] if job.files is not None else None)
        try:
            async for frame in frames:
                kind = frame.WhichOneof("frame")
                if kind == "block":
                    data = frame.block
                    # Blocks kept for the changelog count in addition to the overlay being built.
                    more_bytes = len(data) * (1 if attempt.blocks is None else 2)
                    self._check_room(subtask, attempt.held_bytes + more_bytes, more_bytes)
                    self._hold(attempt, more_bytes)
                    await self._background.run(self._add, attempt, subtask, data)
                elif kind == "seal":
                    if frame.seal.token != opening.token:
                        raise InvalidRequestError(
                            "the token of the seal differs from that of the open frame"
                        )
                    attempt.sums.verify(frame.seal)
                    return await self._seal(attempt, subtask, frame.seal)
                else:
                    raise InvalidRequestError(
                        f"a frame of a prepare after `open` must be `block` or `seal`, not {kind}"
                    )
        finally:
            self._building_bytes -= attempt.held_bytes
        raise InvalidRequestError(
            f"{subtask.id}: the prepare of batch {opening.batch_id} ended without a seal, and its "
            "blocks are dropped: send it again"
        )

    def _hold(self, attempt: _Attempt, more_bytes: int) -> None:
        attempt.held_bytes += more_bytes
        self._building_bytes += more_bytes

    def _add(self, attempt: _Attempt, subtask: OwnedSubtask, data: bytes) -> None:
        block = read_block(data)
        check_block(block, subtask, self._limits)
        attempt.builder.add_block(block)
        attempt.sums.add(data, record_count(block))
        if attempt.blocks is not None:
            attempt.blocks.append(data)

    def _check_room(self, subtask: OwnedSubtask, attempt_bytes: int, more_bytes: int) -> None:
        limit = self._limits.max_staged_bytes
        if attempt_bytes > limit:
            raise LimitExceededError(
                f"the changes of {subtask.id} in one batch exceed {attempt_bytes} bytes, and "
                f"max_staged_bytes of server {self._server_id} is {limit}: make batches "
                "smaller (maxFilesPerTrigger, maxOffsetsPerTrigger), raise parallelism or the limit"
            )
        held = self._building_bytes + sum(
            owned.store.overlay_bytes for owned in self._table.subtasks()
        )
        if held + more_bytes > limit:
            raise RetryLaterError(
                f"server {self._server_id} holds {held} bytes of staged and uncompacted changes, "
                f"and its limit is {limit} (max_staged_bytes): {subtask.id} must prepare again "
                "later; if this persists, make batches smaller or raise the limit",
                reason=Reason.OVERLOADED,
                retry_after_ms=_OVERLOADED_RETRY_MS,
            )

    async def _seal(
        self, attempt: _Attempt, begun: OwnedSubtask, seal: changes_pb2.Seal
    ) -> backend_pb2.PrepareResponse:
        opening = attempt.opening
        batch_id = opening.batch_id
        key_rows = changes_pb2.KeyRows()
        key_rows.CopyFrom(seal.key_rows)
        user_metrics = tuple(seal.user_metrics)
        seal.ClearField("key_rows")
        seal.ClearField("user_metrics")
        overlay, next_timers = await self._background.run(_built, attempt, begun)
        # Checked before the write as well as after it, so that a refused attempt leaves no file.
        self._admit(opening, seal)
        changelog = await self._written(attempt, seal)
        # No await below, so lease, ownership, epoch and commit are still valid at the seal.
        subtask, mark = self._admit(opening, seal)
        digest = broadcast_digest(overlay, subtask.states)
        mark = replace(
            mark,
            changelog=changelog,
            broadcast_digest=digest,
            next_timers=next_timers,
            user_metrics=user_metrics,
        )
        marks = subtask.seals.get(batch_id, [])
        subtask.store.seal(batch_id, overlay, mark.token)
        conflict = _conflict(subtask, batch_id, marks, mark)
        if conflict is not None:
            _log.error("NON_DETERMINISTIC_INPUT: %s", conflict)
        subtask.seals[batch_id] = [earlier for earlier in marks if earlier.token != mark.token] + [
            mark
        ]
        subtask.key_rows.current().merge(
            zip(key_rows.keys, key_rows.rows, strict=False),
            total=key_rows.total,
            missed=key_rows.most_omitted,
        )
        # Checked last: sealing may have taken longer than the lease.
        self._lease.check()
        return backend_pb2.PrepareResponse(staged_bytes=self._table.staged_bytes())

    async def _written(
        self, attempt: _Attempt, seal: changes_pb2.Seal
    ) -> checkpoint_pb2.ChangelogFile | None:
        """Writes the attempt's changelog; returns None if the job keeps no durable copy."""
        opening = attempt.opening
        job, subtask = self.begun(opening.subtask, opening.batch_id, opening.token)
        if job.files is None or attempt.blocks is None:
            return None
        token = (opening.token.run_epoch, opening.token.task_attempt)
        sealed = SealedBlocks(
            batch_id=opening.batch_id,
            blocks=attempt.blocks,
            seal=seal,
            offsets_digest=subtask.begun[opening.batch_id][token].offsets_digest,
        )
        # Counts the bytes of the file while it is being written.
        self._hold(attempt, sum(map(len, attempt.blocks)))
        return await self._changelogs.write(job.files, subtask, sealed)

    def _admit(
        self, opening: backend_pb2.PrepareOpen, seal: changes_pb2.Seal
    ) -> tuple[OwnedSubtask, SealMark]:
        """Returns subtask and seal mark if the seal may be staged now; raises otherwise."""
        _, subtask = self.begun(opening.subtask, opening.batch_id, opening.token)
        mark = SealMark.of(seal)
        store = subtask.store
        if store.staged_token is not None and mark.token < store.staged_token:
            raise SupersededError(
                f"{subtask.id}: batch {opening.batch_id}, attempt {mark.token}: attempt "
                f"{store.staged_token} has sealed batch {store.staged_version} meanwhile: stop "
                "this attempt",
                reason=Reason.STALE_TOKEN,
            )
        subtask.claim_seal(opening.batch_id, mark)
        conflict = _conflict(
            subtask, opening.batch_id, subtask.seals.get(opening.batch_id, []), mark
        )
        if conflict is not None and self._strict_determinism:
            raise conflict
        return subtask, mark


@dataclass(eq=False)
class _Attempt:
    """The received changes of one attempt."""

    opening: backend_pb2.PrepareOpen
    blocks: list[bytes] | None
    """The blocks as received, for the changelog; None: the job keeps none."""
    builder: OverlayBuilder = field(default_factory=OverlayBuilder)
    sums: BlockSums = field(default_factory=BlockSums)
    held_bytes: int = 0
    """Bytes counted against `max_staged_bytes` until the stream ends."""


def _built(attempt: _Attempt, subtask: OwnedSubtask) -> tuple[Overlay, NextTimers | None]:
    """The attempt's overlay, and the timers that are pending after it."""
    overlay = attempt.builder.build()
    timers = timer_state(list(subtask.states.values()))
    return overlay, timers_after(subtask.store, timers, overlay)


def _conflict(
    subtask: OwnedSubtask, batch_id: int, marks: Sequence[SealMark], mark: SealMark
) -> JobError | None:
    """Describes the conflict if an earlier seal of the batch had other input, else None."""
    others = [earlier for earlier in marks if earlier.fingerprint != mark.fingerprint]
    if not others:
        return None
    return JobError(
        f"{subtask.id} received different rows when batch {batch_id} was run again: attempt "
        f"{others[-1].token} had {others[-1].row_count} rows with fingerprint "
        f"{others[-1].fingerprint:016x}, attempt {mark.token} {mark.row_count} with "
        f"{mark.fingerprint:016x}. State follows the newer attempt, but rows already emitted may "
        "not: make everything upstream of the operator deterministic, and do not truncate its "
        "output with limit or take",
        reason=Reason.NON_DETERMINISTIC_INPUT,
    )
