"""Timelines of a job's batches: sequences in which each number is one batch, as in PostgreSQL.

A job that begins again at an older batch, or from a savepoint, begins another timeline. It
continues the ones before it: up to some batch, their batches are its own.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import EndedTimeline, Timeline

if TYPE_CHECKING:
    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata

# A client that has seen an older one is refused as one that has seen another job.
_KEPT = 64

# Ids have 53 bits, which a number in JSON keeps.
_SHIFT = 11


def timeline_of(job_id: bytes, recorded: Timeline) -> Timeline:
    """The recorded timeline of a job; the one that it began with if none is recorded."""
    return (
        recorded if recorded.id else Timeline(id=int.from_bytes(job_id[:8], "big") >> _SHIFT or 1)
    )


def set_back(before: Timeline, first_batch: int, last_batch: int, now_ms: int) -> Timeline:
    """The timeline of a job that begins again at `first_batch` and had reached `last_batch`."""
    return _after(
        before,
        EndedTimeline(first_batch=first_batch, last_batch=last_batch, ended_at_ms=now_ms),
        secrets.randbits(64 - _SHIFT) or 1,
    )


def from_savepoint(job_id: bytes, savepoint: CheckpointMetadata, uri: str, now_ms: int) -> Timeline:
    """The timeline of a job that begins after a savepoint of another one."""
    return _after(
        timeline_of(savepoint.job_id, savepoint.timeline),
        EndedTimeline(
            first_batch=savepoint.version + 1, last_batch=-1, ended_at_ms=now_ms, savepoint=uri
        ),
        timeline_of(job_id, Timeline()).id,
    )


def _after(before: Timeline, ended: EndedTimeline, timeline_id: int) -> Timeline:
    ended.id = before.id
    return Timeline(id=timeline_id, ended=[*before.ended, ended][-_KEPT:])
