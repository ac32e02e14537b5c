"""Registrations of a job in its root: written before a file uses their ids, checked on restore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import RootRegistrations
from queryable_state.server.coordinator.model.registrations import operator_label
from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.roots.job_roots import JobRoot
    from queryable_state.v1.registration_pb2 import StateRegistration


def keep_registrations(state: CoordinatorState, root: JobRoot) -> None:
    """Writes the states of a job to its root, where they are not as written last. I/O."""
    with root.registering:
        with state.transaction():
            states = state.states.of_job(root.query_id)
        written, given_up = root.registrations, root.stored.given_up
        if list(written.states) == states and list(written.given_up) == given_up:
            return
        record = RootRegistrations()
        record.CopyFrom(written)
        del record.states[:], record.given_up[:]
        record.states.extend(states)
        record.given_up.extend(given_up)
        root.write_registrations(record)


def check_states(root: JobRoot, uid: str, name: str, states: Sequence[StateRegistration]) -> None:
    """Refuses an operator that claims other states than its root has.

    At its first registration in a root that starts from a savepoint it lacks none of that.
    """
    _check_savepoint(root, uid, {state.state_name for state in states})
    root.stored.check_states(
        uid, operator_label(uid, name), states, allow=root.config.allow_non_restored_state
    )


def _check_savepoint(root: JobRoot, uid: str, names: Collection[str]) -> None:
    savepoint = root.savepoint
    if savepoint is None or root.registrations.allow_non_restored_state:
        return
    if any(state.operator_uid == uid for state in root.registrations.states):
        return
    stored = [s for o in savepoint.operators if o.uid == uid for s in o.states]
    gone = sorted({state.state_name for state in stored} - set(names))
    if gone:
        raise RestoreMismatchError(
            f"the savepoint has states of operator {uid!r} that it does not declare any more: "
            f"{', '.join(map(repr, gone))}: declare them, or allow state that is not restored"
        )
