"""Writer of changelogs: a batch of a subtask becomes durable before its seal is acknowledged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import checkpoint_pb2
from queryable_state.server.checkpoint.file_systems.storage import checksum, join
from queryable_state.server.checkpoint.layout import ChangelogPath, changelog_file
from queryable_state.wire.changelog import write_changelog
from queryable_state.wire.errors import CheckpointError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1 import changes_pb2
    from queryable_state.server.state_server.base.job_files import JobFiles
    from queryable_state.server.state_server.base.thread_pool import ThreadPool
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask


@dataclass(frozen=True, kw_only=True)
class SealedBlocks:
    """The change blocks of one attempt at a batch, as they were sent."""

    batch_id: int
    blocks: Sequence[bytes]
    seal: changes_pb2.Seal
    offsets_digest: bytes
    """Digest of Spark's offsets of the batch."""


class ChangelogWriter:
    """Writes changelogs atomically, on the storage threads."""

    def __init__(self, threads: ThreadPool) -> None:
        self._threads = threads

    async def write(
        self, files: JobFiles, subtask: OwnedSubtask, sealed: SealedBlocks
    ) -> checkpoint_pb2.ChangelogFile:
        """Writes a changelog; returns its path and checksum once it is durable.

        Raises `RetryLaterError` or `CheckpointError` if the file cannot be written; nothing of
        the attempt is stored then.
        """
        token = sealed.seal.token
        named = checkpoint_pb2.ChangelogFile(
            batch_id=sealed.batch_id,
            operator_uid=subtask.id.operator_uid,
            token=token,
            index=subtask.id.subtask,
            parallelism=subtask.id.parallelism,
            first_key_group=subtask.first_key_group,
            last_key_group=subtask.last_key_group,
            path=changelog_file(
                ChangelogPath(
                    sealed.batch_id,
                    subtask.id.operator_uid,
                    subtask.first_key_group,
                    subtask.last_key_group,
                    token.run_epoch,
                    token.task_attempt,
                )
            ),
        )
        try:
            await self._threads.run(_write, files, named, sealed)
        except RetryLaterError as failure:
            raise RetryLaterError(
                f"{subtask.id}: the changelog of batch {sealed.batch_id} was not written, so the "
                f"batch is not sealed: {failure}",
                reason=failure.reason,
                retry_after_ms=failure.retry_after_ms,
            ) from failure
        except CheckpointError as failure:
            raise CheckpointError(
                f"{subtask.id}: the changelog of batch {sealed.batch_id} cannot be written to "
                f"{files.root}, so the batch is not sealed: {failure}",
                reason=failure.reason,
            ) from failure
        return named


def _write(files: JobFiles, named: checkpoint_pb2.ChangelogFile, sealed: SealedBlocks) -> None:
    data = write_changelog(
        sealed.blocks, sealed.seal, batch_id=sealed.batch_id, offsets_digest=sealed.offsets_digest
    )
    files.storage.write(join(files.root, named.path), data)
    named.size_bytes = len(data)
    named.checksum = checksum(data)
