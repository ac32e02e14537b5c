"""States that a job's root has values of, and the operators that claim them.

A run that claims only some of them would start the others empty, often under the same queryable
name: a renamed uid, a shifted graph position, a renamed descriptor. That is refused, as Flink
refuses a checkpoint with unclaimed state, unless the job allows non-restored state. State that
such a run leaves behind is recorded as given up, so later runs are not refused because of it.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from queryable_state.internal.v1.checkpoint_pb2 import GivenUpState
from queryable_state.server.coordinator.model.registrations import operator_label
from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import (
        CheckpointMetadata,
        Manifest,
        RootRegistrations,
    )
    from queryable_state.v1.registration_pb2 import StateRegistration

_log = logging.getLogger(__name__)

ALLOW: Final = (
    "allow_non_restored_state=True (setting: execution.savepoint.ignore-unclaimed-state or "
    "spark.queryable_state.savepoint_ignore_unclaimed_state)"
)
"""How a user allows state that is not restored."""

_Identity = tuple[str, str]


def stored_uids(
    checkpoints: Sequence[CheckpointMetadata],
    manifests: Iterable[Manifest],
    savepoint: CheckpointMetadata | None,
) -> set[str]:
    """Returns the operators whose files a restore would read: those of the newest checkpoint
    (or of the savepoint that the root started from) and of the batches committed since.

    `checkpoints` are ordered newest first.
    """
    newest = checkpoints[0] if checkpoints else savepoint
    found = set() if newest is None else {operator.uid for operator in newest.operators}
    after = -1 if newest is None else newest.version
    for manifest in manifests:
        if manifest.batch_id > after:
            found |= {file.operator_uid for file in manifest.changelogs}
    return found


class StoredStates:
    """The stored states of a root at the start of a run, by operator. Thread-safe, no I/O."""

    def __init__(
        self,
        uri: str,
        states: Iterable[StateRegistration],
        given_up: Iterable[GivenUpState],
        uids: Collection[str],
    ) -> None:
        """`states`: all registrations of the root; `uids`: the operators that have files."""
        self._uri = uri
        self._known = {
            (state.operator_uid, state.state_name): state
            for state in states
            if state.operator_uid in uids
        }
        self._lock = threading.Lock()
        self._given_up: set[_Identity] = {
            (state.operator_uid, state.state_name) for state in given_up
        }

    @classmethod
    def of(
        cls,
        uri: str,
        record: RootRegistrations,
        checkpoints: Sequence[CheckpointMetadata],
        manifests: Iterable[Manifest],
        savepoint: CheckpointMetadata | None,
    ) -> StoredStates:
        """What a root has, by its registrations and by what it can be restored from."""
        restored = [s for o in savepoint.operators for s in o.states] if savepoint else []
        return cls(
            uri,
            [*restored, *record.states],
            record.given_up,
            stored_uids(checkpoints, manifests, savepoint),
        )

    @property
    def is_empty(self) -> bool:
        """True if the root has values of no state."""
        return not self._known

    @property
    def given_up(self) -> list[GivenUpState]:
        """The states that the job has left behind, by operator and name."""
        with self._lock:
            return [
                GivenUpState(operator_uid=uid, state_name=name)
                for uid, name in sorted(self._given_up)
            ]

    def is_given_up(self, uid: str) -> bool:
        """True if the job has left behind all states of an operator."""
        with self._lock:
            names = [identity for identity in self._known if identity[0] == uid]
            return bool(names) and self._given_up.issuperset(names)

    def check_operators(self, operators: Mapping[str, str], job: str, *, allow: bool) -> None:
        """Raises RestoreMismatchError if an operator with stored state is none of the job's.

        `operators` are the names of all operators of the job, by uid. With `allow` the state is
        given up.
        """
        with self._lock:
            unclaimed = [
                state
                for identity, state in sorted(self._known.items())
                if identity[0] not in operators and identity not in self._given_up
            ]
            if allow:
                self._given_up.update((s.operator_uid, s.state_name) for s in unclaimed)
            stored = {uid for uid, _ in self._known}
        if not unclaimed:
            return
        described = _by_operator(unclaimed)
        new = [
            operator_label(uid, name)
            for uid, name in sorted(operators.items())
            if uid not in stored
        ]
        if allow:
            _log.warning(
                "job %s leaves behind what %s has of operators it does not have: %s; operators "
                "without stored state: %s",
                job,
                self._uri,
                described,
                ", ".join(new) or "none",
            )
            return
        old = unclaimed[0].operator_uid
        raise RestoreMismatchError(
            f"{self._uri} has state that no operator of job {job} claims: {described}. "
            f"Operators of the job without stored state, which would start empty: "
            f"{', '.join(new) or 'none'}. If an operator was renamed or moved in the program, give "
            f"it the uid its state is stored under, .uid({old!r}); to leave that state behind, "
            f"start with {ALLOW}"
        )

    def check_states(
        self, uid: str, label: str, states: Sequence[StateRegistration], *, allow: bool
    ) -> None:
        """Raises RestoreMismatchError if an operator registers a new state and lacks a stored one,
        or if a queryable name belongs to another stored state.

        What it lacks without having a new one is given up, and so is all it lacks with `allow`.
        """
        declared = {state.state_name for state in states}
        with self._lock:
            had = {name: s for (of, name), s in self._known.items() if of == uid}
            gone = {n: s for n, s in had.items() if n not in declared}
            missing = {n: s for n, s in gone.items() if (uid, n) not in self._given_up}
            new = sorted(declared - had.keys()) if had else []
            if missing and new and not allow:
                old = ", ".join(_described(state) for _, state in sorted(missing.items()))
                raise RestoreMismatchError(
                    f"{self._uri} has state of operator {label} that it does not declare: {old}; "
                    f"and it declares states that are not stored, which would start empty: "
                    f"{', '.join(map(repr, new))}. If a state was renamed, give its descriptor the "
                    "name it is stored under; if the operator moved in the program, give each "
                    f"operator the uid its state is stored under, .uid({uid!r}); to leave that "
                    f"state behind, start with {ALLOW}"
                )
            if not allow:
                self._check_names(uid, label, states)
            back = {(uid, name) for name in declared} & self._given_up
            self._given_up -= back
            self._given_up |= {(uid, name) for name in missing}
        if missing:
            _log.warning(
                "operator %s does not declare any more, and leaves behind, what %s has of: %s",
                label,
                self._uri,
                ", ".join(_described(state) for _, state in sorted(missing.items())),
            )
        if back:
            _log.warning(
                "operator %s declares states again that the job had left behind, which have no "
                "change of the batches between: %s",
                label,
                ", ".join(repr(name) for _, name in sorted(back)),
            )

    def _check_names(self, uid: str, label: str, states: Iterable[StateRegistration]) -> None:
        owners = {
            state.queryable_name: state
            for identity, state in self._known.items()
            if state.queryable_name and identity not in self._given_up
        }
        for state in states:
            before = self._known.get((uid, state.state_name))
            owner = owners.get(state.queryable_name)
            if owner is None or (before and before.queryable_name == state.queryable_name):
                continue
            if (owner.operator_uid, owner.state_name) != (uid, state.state_name):
                had = operator_label(owner.operator_uid, owner.operator_name)
                raise RestoreMismatchError(
                    f"queryable name {state.queryable_name!r} was of state {owner.state_name!r} of "
                    f"operator {had} in {self._uri}, and state {state.state_name!r} of operator "
                    f"{label} claims it: its readers would be answered from another state. Give "
                    f"the state another queryable name, or start with {ALLOW}"
                )


def _by_operator(states: Iterable[StateRegistration]) -> str:
    found: dict[str, list[StateRegistration]] = {}
    for state in states:
        label = operator_label(state.operator_uid, state.operator_name)
        found.setdefault(label, []).append(state)
    return "; ".join(
        f"operator {label} with {', '.join(map(_described, of))}" for label, of in found.items()
    )


def _described(state: StateRegistration) -> str:
    queryable = f" (queryable as {state.queryable_name!r})" if state.queryable_name else ""
    return f"state {state.state_name!r}{queryable}"
