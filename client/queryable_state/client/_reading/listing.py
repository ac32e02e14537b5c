"""Listings of jobs and their queryable states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.v1 import registration_pb2
from queryable_state.wire.keys.time_window import is_windowed
from queryable_state.wire.schema.types import TypeInfo

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, kw_only=True, slots=True)
class JobInfo:
    """A job known to the coordinator."""

    job_id: str
    """32 hex digits; the id of its Spark query."""

    name: str

    status: str
    """RUNNING, FINISHED or FAILED."""

    started_at_ms: int
    """Milliseconds since the epoch of its first contact with the coordinator."""

    committed_batch: int
    """Newest committed batch; -1: none."""

    states: tuple[str, ...]
    """Queryable names, sorted."""

    health: str = "HEALTH_UNSPECIFIED"
    """HEALTHY, ATTENTION, RESTARTING, FAILING, ENDED or UNREACHABLE."""

    problem: str = ""
    """What is wrong, most urgent; empty: nothing is known to be wrong."""

    @classmethod
    def from_proto(cls, job: registration_pb2.JobInfo) -> Self:
        """Converts the wire message."""
        return cls(
            job_id=job.job_id.hex(),
            name=job.name,
            status=_name(registration_pb2.JobStatus, job.status),
            started_at_ms=job.started_at_ms,
            committed_batch=job.committed_batch,
            states=tuple(job.states),
            health=_name(registration_pb2.JobInfo.Health, job.health),
            problem=job.problem,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StateInfo:
    """A queryable state of a job."""

    job_id: str
    """32 hex digits."""

    job_name: str

    state_name: str
    """Queryable name."""

    kind: str
    """VALUE, LIST, MAP, REDUCING, AGGREGATING, TIMER, OPERATOR_LIST, OPERATOR_UNION or
    BROADCAST."""

    key_type: TypeInfo
    """Type of the keys; INT, the index of a subtask, for operator state."""

    value_type: TypeInfo | None
    """Type of the value, list element, map value or result; None: not registered."""

    map_key_type: TypeInfo | None
    """Type of the map keys of a MAP or BROADCAST; None for other kinds."""

    is_windowed: bool
    """True if the state has a value for each window of a key; of a TIMER: if it has timers of
    windows."""

    ttl_ms: int
    """Milliseconds from the last update of a value to its expiry; 0: values do not expire, or each
    has a TTL of its own."""

    ttl_per_value: bool
    """True if each value has the time of its expiry: state of Spark's own operators."""

    asks_all_partitions: bool
    """True if the state is not hash-partitioned: Spark does not place its keys by the hash of the
    whole key, so each look-up asks all partitions."""

    registration: registration_pb2.StateRegistration = field(repr=False, compare=False)
    """The complete registration."""

    @classmethod
    def from_proto(cls, state: registration_pb2.StateRegistration) -> Self:
        """Converts the wire message."""
        versions = sorted(state.value_types, key=lambda version: version.version)
        return cls(
            job_id=state.job_id.hex(),
            job_name=state.job_name,
            state_name=state.queryable_name,
            kind=_name(registration_pb2.StateKind, state.kind),
            key_type=TypeInfo.from_proto(state.key_type),
            value_type=TypeInfo.from_proto(versions[-1].type) if versions else None,
            map_key_type=(
                TypeInfo.from_proto(state.map_key_type) if state.HasField("map_key_type") else None
            ),
            is_windowed=is_windowed(state),
            ttl_ms=state.ttl.ttl_ms,
            ttl_per_value=state.ttl.per_value,
            asks_all_partitions=state.asks_all_partitions,
            registration=state,
        )


def _name(enum: object, number: int) -> str:
    # A newer server may send values that this client does not know.
    return enum.Name(number) if number in enum.values() else str(number)  # type: ignore[attr-defined]
