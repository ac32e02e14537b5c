"""Location of a state: its registration and the owner of each of its key groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError
from queryable_state.wire.operator_state import OPERATOR_KINDS
from queryable_state.wire.state_json import StateJson

if TYPE_CHECKING:
    from collections.abc import Sequence

_READ_KINDS: dict[registration_pb2.StateKind.ValueType, query_pb2.ReadKind.ValueType] = {
    registration_pb2.VALUE: query_pb2.POINT,
    registration_pb2.REDUCING: query_pb2.POINT,
    registration_pb2.AGGREGATING: query_pb2.POINT,
    registration_pb2.LIST: query_pb2.PREFIX,
    registration_pb2.MAP: query_pb2.PREFIX,
    registration_pb2.TIMER: query_pb2.PREFIX,
    registration_pb2.OPERATOR_LIST: query_pb2.PREFIX,
    registration_pb2.OPERATOR_UNION: query_pb2.PREFIX,
    registration_pb2.BROADCAST: query_pb2.PREFIX,
}


NOT_HASH_PARTITIONED = "not hash-partitioned: look-ups ask all partitions"
"""The field `asks_all_partitions` in words."""


@dataclass(frozen=True)
class Owner:
    """A server that owns key groups of a state."""

    server_id: str
    """Empty: no server owns the key group now."""

    address: str
    """HOST:PORT of its `QueryableState`."""

    frames: registration_pb2.FrameEndpoint = field(
        default_factory=registration_pb2.FrameEndpoint, compare=False, repr=False
    )
    """Where it takes look-ups as frames."""

    def description(self) -> query_pb2.ServerDescription:
        """The server as far as the placement describes it."""
        return query_pb2.ServerDescription(server_id=self.server_id, frames=self.frames)


@dataclass(frozen=True)
class LocatedState:
    """A `StateLocation` prepared for routing."""

    location: registration_pb2.StateLocation
    owners: tuple[Owner, ...] = field(repr=False)
    """Every owner, once."""

    by_key_group: tuple[Owner, ...] = field(repr=False)
    """The owner of each key group, one of `owners`."""

    read_kind: query_pb2.ReadKind.ValueType
    """How a key of the state is read."""

    @classmethod
    def of(cls, location: registration_pb2.StateLocation) -> LocatedState:
        """Checks a location and expands its ranges.

        Raises `CorruptDataError` if the ranges do not cover all key groups, and
        `InvalidRequestError` for a state without look-ups by key.
        """
        registration = location.registration
        read_kind = _read_kind(registration)
        owners: dict[tuple[str, str], Owner] = {}
        by_key_group: list[Owner] = []
        for owned in location.owners:
            if owned.first_key_group != len(by_key_group):
                break
            name = (owned.server_id, owned.address)
            owner = owners.setdefault(name, Owner(*name, owned.frames))
            by_key_group.extend([owner] * (owned.last_key_group - owned.first_key_group + 1))
        if len(by_key_group) != registration.max_parallelism:
            raise CorruptDataError(
                f"the location of state {registration.queryable_name!r} covers "
                f"{len(by_key_group)} of {registration.max_parallelism} key groups"
            )
        return cls(location, tuple(owners.values()), tuple(by_key_group), read_kind)

    def of_same_operator(self, registration: registration_pb2.StateRegistration) -> LocatedState:
        """Another keyed state of its operator, whose key groups have the same owners.

        Raises `InvalidRequestError` for a state without look-ups by key.
        """
        location = registration_pb2.StateLocation(
            registration=registration,
            placement_version=self.placement_version,
            owners=self.location.owners,
        )
        return LocatedState(location, self.owners, self.by_key_group, _read_kind(registration))

    @property
    def registration(self) -> registration_pb2.StateRegistration:
        """The registration of the state."""
        return self.location.registration

    @cached_property
    def state_id(self) -> int:
        """The coordinator's number of the state."""
        return self.location.registration.state_id

    @cached_property
    def placement_version(self) -> int:
        """Version of the owners; every change of an owner raises it."""
        return self.location.placement_version

    @cached_property
    def json(self) -> StateJson:
        """The JSON codec of its keys and values."""
        return StateJson(self.registration, self.ranges)

    @cached_property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """First and last key group of each subtask, by index; empty for keyed state."""
        if self.registration.kind not in OPERATOR_KINDS:
            return ()
        return tuple(
            (owner.first_key_group, owner.last_key_group) for owner in self.location.owners
        )

    def describe(self) -> str:
        """Name and job of the state, for error texts."""
        registration = self.registration
        return (
            f"state {registration.queryable_name!r} of job {registration.job_name!r} "
            f"({registration.job_id.hex()})"
        )

    def split(self, keys: Sequence[bytes]) -> dict[Owner, list[int]]:
        """The positions of `keys` by owner, each list ascending.

        Raises `InvalidRequestError` for a key outside the state's key groups.
        """
        by_key_group = self.by_key_group
        if len(self.owners) == 1:
            self._check(keys)
            return {self.owners[0]: list(range(len(keys)))}
        parts: dict[Owner, list[int]] = {}
        try:
            for position, key in enumerate(keys):
                owner = by_key_group[key[0] << 8 | key[1]]
                part = parts.get(owner)
                if part is None:
                    parts[owner] = [position]
                else:
                    part.append(position)
        except IndexError:
            self._check(keys)
            raise
        return parts

    def _check(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            if len(key) < 2 or (key[0] << 8 | key[1]) >= len(self.by_key_group):
                raise InvalidRequestError(
                    f"key {bytes(key[:16]).hex()} does not begin with one of the "
                    f"{len(self.by_key_group)} key groups of {self.describe()}"
                )


def location_answer(
    request: query_pb2.LocateStateRequest, location: registration_pb2.StateLocation
) -> query_pb2.LocateStateResponse:
    """The answer to a request, without the owners if the client knows them."""
    registration = location.registration
    if (request.known_state_id, request.known_version) != (
        registration.state_id,
        location.placement_version,
    ):
        return query_pb2.LocateStateResponse(location=location)
    return query_pb2.LocateStateResponse(
        location=registration_pb2.StateLocation(
            registration=registration, placement_version=location.placement_version
        ),
        unchanged=True,
    )


def _read_kind(
    registration: registration_pb2.StateRegistration,
) -> query_pb2.ReadKind.ValueType:
    read_kind = _READ_KINDS.get(registration.kind)
    if read_kind is None:
        raise InvalidRequestError(
            f"state {registration.queryable_name!r} of job {registration.job_name!r} is of "
            f"kind {_kind_name(registration.kind)}, which has no values by key"
        )
    return read_kind


def _kind_name(kind: registration_pb2.StateKind.ValueType) -> str:
    return registration_pb2.StateKind.Name(kind)
