"""Registry of states: ids, types and queryable names of every operator's states."""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.queryable_names import (
    NameClaim,
    check_queryable_names,
)
from queryable_state.server.coordinator.model.state_evolution import check_timer_states, evolve
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import CheckpointError, InvalidRequestError, JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

_STATE_ID_MAX = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class OperatorClaim:
    """The operator that registers states, within its job."""

    job_id: bytes
    job_name: str
    uid: str
    name: str
    depth: int
    max_parallelism: int

    @property
    def label(self) -> str:
        """The operator as errors and logs name it."""
        return operator_label(self.uid, self.name)


def operator_label(uid: str, name: str) -> str:
    """An operator as errors and logs name it."""
    return f"{uid!r} ({name})" if name and name != uid else repr(uid)


_Identity = tuple[bytes, str, str]


class RegistrationTable:
    """Registered states, each with an id that is never used again.

    To register a state again returns the same registration. A value type may change if stored
    values can be adapted; that adds a schema version, always as the last one. Other changes to
    the bytes of a state are refused. Ids start at random, so that clients do not mix up states of
    two drivers at one address. Not thread-safe.
    """

    def __init__(self, *, first_state_id: int | None = None) -> None:
        self._next_id = secrets.randbelow(2**31) + 1 if first_state_id is None else first_state_id
        self._states: dict[_Identity, registration_pb2.StateRegistration] = {}
        self._incarnations: defaultdict[_Identity, int] = defaultdict(int)
        self._unclaimed: set[_Identity] = set()
        """Stored by an earlier driver, and not registered by an operator of this one yet."""
        self._served: set[_Identity] = set()
        """Unclaimed states that can be queried until their operator registers its states."""
        self._depths: defaultdict[bytes, Counter[int]] = defaultdict(Counter)
        """Number of claimed states by job and operator depth: each begin needs the deepest."""

    def register(
        self, operator: OperatorClaim, states: Sequence[registration_pb2.StateRegistration]
    ) -> list[registration_pb2.StateRegistration]:
        """Registers all states of an operator, or none of them.

        Raises DUPLICATE_NAME if a name is claimed twice, INCOMPATIBLE_STATE if stored values
        cannot be read as the new type.
        """
        self._check_names(operator, states)
        check_timer_states(states, operator.label)
        # All are checked before one is stored: a refusal leaves the table unchanged.
        made = [self._merged(operator, state) for state in states]
        for registration in made:
            identity = (operator.job_id, operator.uid, registration.state_name)
            if not registration.state_id:
                registration.state_id = self._new_id()
                self._incarnations[identity] += 1
                registration.incarnation = self._incarnations[identity]
            self._put(identity, registration, claimed=True)
        # The operator no longer has states that it does not declare.
        self._served = {i for i in self._served if i[:2] != (operator.job_id, operator.uid)}
        return [_copy(registration) for registration in made]

    def adopt(self, job_id: bytes, states: Sequence[registration_pb2.StateRegistration]) -> None:
        """Adds the states of a job's root, under the ids in its files.

        They can be queried after `serve`, or after an operator has registered them. Raises
        CheckpointError, and adds none, if another job of this driver has one of the ids.
        """
        taken = {s.state_id: s for s in self._states.values() if s.job_id != job_id}
        for state in states:
            other = taken.get(state.state_id)
            if other is not None:
                raise CheckpointError(
                    f"state {state.state_name!r} of operator {state.operator_uid!r} is stored with "
                    f"the id {state.state_id}, which state {other.state_name!r} of job "
                    f"{other.job_name or other.job_id.hex()!r} has in this driver: run one of the "
                    "two jobs in a driver of its own"
                )
        for state in states:
            self._keep(job_id, _copy(state))

    def adopt_anew(
        self, job_id: bytes, job_name: str, states: Sequence[registration_pb2.StateRegistration]
    ) -> None:
        """Adds states of a savepoint, which may be another job's, under new ids.

        States that the job already has stay unchanged.
        """
        for state in states:
            if (job_id, state.operator_uid, state.state_name) not in self._states:
                made = _copy(state)
                made.job_id, made.job_name, made.state_id = job_id, job_name, self._new_id()
                self._keep(job_id, made)

    def declare(self, job_id: bytes, states: Iterable[registration_pb2.StateRegistration]) -> None:
        """Applies the types that an operator will register to its stored states.

        Raises JobError if stored values cannot be read as the new type.
        """
        for state in states:
            if (job_id, state.operator_uid, state.state_name) in self._states:
                operator = OperatorClaim(
                    job_id=job_id,
                    job_name=state.job_name,
                    uid=state.operator_uid,
                    name=state.operator_name,
                    depth=state.operator_depth,
                    max_parallelism=state.max_parallelism,
                )
                identity = (job_id, state.operator_uid, state.state_name)
                claimed = identity not in self._unclaimed
                self._put(identity, self._merged(operator, state), claimed=claimed)

    def serve(self, job_id: bytes, uids: Container[str]) -> None:
        """Makes the stored states of a run's operators queryable before they register.

        States of all other operators of the job are not queryable any more.
        """
        for identity in [identity for identity in self._states if identity[0] == job_id]:
            if identity[1] not in uids:
                self._put(identity, self._states[identity], claimed=False)
                self._served.discard(identity)
            elif identity in self._unclaimed:
                self._served.add(identity)

    def of_job(self, job_id: bytes) -> list[registration_pb2.StateRegistration]:
        """All states of a job, claimed or not, by operator and name."""
        return [
            _copy(state)
            for identity, state in sorted(self._states.items(), key=lambda s: s[0])
            if identity[0] == job_id
        ]

    def _keep(self, job_id: bytes, state: registration_pb2.StateRegistration) -> None:
        identity = (job_id, state.operator_uid, state.state_name)
        claimed = identity in self._states and identity not in self._unclaimed
        self._put(identity, state, claimed=claimed)
        self._incarnations[identity] = max(self._incarnations[identity], state.incarnation)

    def _put(
        self, identity: _Identity, state: registration_pb2.StateRegistration, *, claimed: bool
    ) -> None:
        self._count_depth(identity, -1)
        self._states[identity] = state
        if claimed:
            self._unclaimed.discard(identity)
        else:
            self._unclaimed.add(identity)
        self._count_depth(identity, 1)

    def _count_depth(self, identity: _Identity, by: int) -> None:
        state = self._states.get(identity)
        if state is None or identity in self._unclaimed:
            return
        depths = self._depths[identity[0]]
        depths[state.operator_depth] += by
        if not depths[state.operator_depth]:
            del depths[state.operator_depth]

    def _claimed(self) -> Iterator[tuple[_Identity, registration_pb2.StateRegistration]]:
        return (item for item in self._states.items() if item[0] not in self._unclaimed)

    def _answered(self) -> Iterator[tuple[_Identity, registration_pb2.StateRegistration]]:
        """The queryable states; for one queryable name, the claimed state comes last."""
        yield from ((identity, self._states[identity]) for identity in self._served)
        yield from self._claimed()

    def queryable(self, job_id: bytes) -> dict[str, registration_pb2.StateRegistration]:
        """The queryable states of a job by name, sorted."""
        found = {
            state.queryable_name: _copy(state)
            for identity, state in self._answered()
            if identity[0] == job_id and state.queryable_name
        }
        return dict(sorted(found.items()))

    def of_operator(self, job_id: bytes, uid: str) -> list[registration_pb2.StateRegistration]:
        """All states of an operator, by id."""
        found = [_copy(s) for identity, s in self._states.items() if identity[:2] == (job_id, uid)]
        return sorted(found, key=lambda state: state.state_id)

    def jobs_with(self, queryable_name: str) -> list[bytes]:
        """The jobs that have a state of this queryable name."""
        return [
            identity[0]
            for identity, state in self._answered()
            if state.queryable_name == queryable_name
        ]

    def operator_name(self, job_id: bytes, uid: str) -> str:
        """The operator as errors and logs name it."""
        for identity, state in self._states.items():
            if identity[:2] == (job_id, uid):
                return operator_label(uid, state.operator_name)
        return repr(uid)

    def deepest(self, job_id: bytes) -> int:
        """The greatest operator depth of a job's claimed states; 0 if it has none."""
        return max(self._depths.get(job_id, ()), default=0)

    def drop(self, job_id: bytes) -> None:
        """Forgets the states of a job; registered again, a state has a new id and incarnation."""
        for identity in [identity for identity in self._states if identity[0] == job_id]:
            del self._states[identity]
            self._unclaimed.discard(identity)
            self._served.discard(identity)
        self._depths.pop(job_id, None)

    def _check_names(
        self, operator: OperatorClaim, states: Sequence[registration_pb2.StateRegistration]
    ) -> None:
        names: set[str] = set()
        for state in states:
            if not state.state_name:
                raise InvalidRequestError(f"a state of operator {operator.label} has no name")
            if state.state_name in names:
                raise JobError(
                    f"operator {operator.label} has two states named {state.state_name!r}: give "
                    "each descriptor its own name",
                    reason=Reason.DUPLICATE_NAME,
                )
            names.add(state.state_name)
        others = [
            _name_claim(state, operator_label(uid, state.operator_name))
            for (job_id, uid, name), state in self._claimed()
            if job_id == operator.job_id
            and state.queryable_name
            and (uid != operator.uid or name not in names)
        ]
        claims = [_name_claim(state, operator.label) for state in states if state.queryable_name]
        check_queryable_names([*others, *claims])

    def _merged(
        self, operator: OperatorClaim, state: registration_pb2.StateRegistration
    ) -> registration_pb2.StateRegistration:
        known = self._states.get((operator.job_id, operator.uid, state.state_name))
        merged = _copy(state)
        merged.state_id = known.state_id if known else 0
        merged.incarnation = known.incarnation if known else 0
        merged.job_id = operator.job_id
        merged.job_name = operator.job_name
        merged.operator_uid = operator.uid
        merged.operator_name = operator.name
        merged.operator_depth = operator.depth
        merged.max_parallelism = operator.max_parallelism
        where = f"state {state.state_name!r} of operator {operator.label}"
        evolve(known, merged, where)
        return merged

    def _new_id(self) -> int:
        taken = {state.state_id for state in self._states.values()}
        while self._next_id in taken:
            self._next_id += 1
        if self._next_id > _STATE_ID_MAX:
            raise JobError("this driver has given out every state id: restart it")
        self._next_id += 1
        return self._next_id - 1


def _name_claim(state: registration_pb2.StateRegistration, operator: str) -> NameClaim:
    return NameClaim(
        queryable_name=state.queryable_name, operator=operator, state_name=state.state_name
    )


def _copy(state: registration_pb2.StateRegistration) -> registration_pb2.StateRegistration:
    copy = registration_pb2.StateRegistration()
    copy.CopyFrom(state)
    return copy
