"""The registrations of a job in its root: kept before a file uses their ids, checked on restore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import RootRegistrations
from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Collection

    from queryable_state.server.coordinator.books import Books
    from queryable_state.server.coordinator.job_roots import JobRoot


def keep_registrations(books: Books, root: JobRoot) -> None:
    """Writes the states of a job to its root, where they are not as written last. I/O."""
    with root.registering:
        with books.changed:
            states = books.states.of_job(root.query_id)
        written = root.registrations
        if list(written.states) == states:
            return
        record = RootRegistrations()
        record.CopyFrom(written)
        del record.states[:]
        record.states.extend(states)
        root.write_registrations(record)


def check_states(root: JobRoot, uid: str, names: Collection[str]) -> None:
    """Refuses an operator that lacks states of the savepoint its root starts from.

    Asked when the operator registers first in this root; later it may give up states.
    """
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
