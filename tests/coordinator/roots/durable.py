"""Batches of durable jobs, and the tokens of their manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.coordinator.drivers import subtask_of

if TYPE_CHECKING:
    from tests.coordinator.drivers import Driver

    from queryable_state.internal.v1 import checkpoint_pb2


FIRST, SECOND = subtask_of(0), subtask_of(1)


def run(job: Driver, batch: int, *, subtasks: tuple[int, ...] = (0, 1)) -> None:
    """One whole batch: begun, opened where needed, sealed, committed."""
    epoch = job.begin(batch)
    for index in subtasks:
        subtask = subtask_of(index)
        job.open(subtask, batch)
        job.seal(subtask, batch, attempt=10 * batch + index, epoch=epoch)
    job.commit(batch)


def tokens(manifest: checkpoint_pb2.Manifest | None) -> list[tuple[int, int, int, int]]:
    """First and last key group, epoch and attempt of each entry."""
    assert manifest is not None
    return [
        (f.first_key_group, f.last_key_group, f.token.run_epoch, f.token.task_attempt)
        for f in manifest.changelogs
    ]
