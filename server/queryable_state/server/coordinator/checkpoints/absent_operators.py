"""Operators that have state in a job's root, and that a run has not opened yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.checkpoints.history import DeclinedError

if TYPE_CHECKING:
    from collections.abc import Collection

    from queryable_state.server.coordinator.roots.job_roots import JobRoot


def check_none_absent(
    root: JobRoot, label: str, opened: Collection[str], version: int, *, ran_whole: bool
) -> None:
    """DeclinedError where a snapshot of the opened operators would leave out state of others.

    A restore from it would find nothing of them. A run opens an operator with its first task,
    which comes after the stages before it, or when the user's function runs it. `ran_whole`: the
    run has committed a batch; what it has not opened by then may be left behind where the job
    allows state that is not restored.
    """
    if ran_whole and root.config.allow_non_restored_state:
        return
    absent = sorted(
        uid
        for uid in root.stored_uids(version).difference(opened)
        if not root.stored.is_given_up(uid)
    )
    if absent:
        raise DeclinedError(
            f"job {label}: {root.uri} has state of operators that have not run since the job was "
            f"started: {', '.join(map(repr, absent))}; where the job has them no more, allow state "
            "that is not restored"
        )
