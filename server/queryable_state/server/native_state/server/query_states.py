"""The queryable states of a Spark query, as its checkpoint describes them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xxhash import xxh3_64_intdigest

from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from queryable_state.server.native_state.operators.state_layout import (
        StateDefinition,
        StateLayout,
    )
    from queryable_state.server.native_state.store.partition_files import PartitionFiles
    from queryable_state.wire.errors import QueryableStateError


@dataclass(frozen=True)
class OperatorStates:
    """A stateful operator and its states."""

    operator_id: int
    """Spark's number of the operator."""

    uid: str
    """What we name it: its number behind Spark's name."""

    partitions: int
    """State partitions with state."""

    placed_by_hash: bool
    """True if the hash of a whole key is its partition."""

    sources: int
    """Stores of a partition."""

    registrations: Mapping[int, registration_pb2.StateRegistration]
    """Its states, by id."""

    layouts: Mapping[int, StateLayout]
    """Their layouts, by id."""

    files: Callable[[int], PartitionFiles]
    """The files of a partition."""


@dataclass(frozen=True)
class QueryStates:
    """The states of a query, from one change of them to the next."""

    operators: tuple[OperatorStates, ...]

    refusals: tuple[QueryableStateError, ...] = ()
    """Why the states of other operators are not served."""

    described_by: object = None
    """What the checkpoint says of the operators: another answer means other states."""

    left_out: Mapping[str, CorruptDataError] = field(default_factory=dict)
    """Why states are not served of which a file is damaged or lost, by queryable name."""

    def without(self, damages: Mapping[str, CorruptDataError]) -> QueryStates:
        """The states but those of operators, by uid, of which a file is damaged or lost."""
        served = replace(
            self, operators=tuple(each for each in self.operators if each.uid not in damages)
        )
        others = ", ".join(sorted(served.registrations))
        refusals: list[QueryableStateError] = []
        left_out: dict[str, CorruptDataError] = {}
        for operator in self.operators:
            problem = damages.get(operator.uid)
            if problem is None:
                continue
            names = sorted(each.queryable_name for each in operator.registrations.values())
            refusal = CorruptDataError(
                f"operator {operator.uid} is left out: {problem.message}. Until then "
                f"{', '.join(names) or 'it'} cannot be read; {others} can",
                reason=problem.reason,
            )
            refusals.append(refusal)
            left_out |= dict.fromkeys(names, refusal)
        return replace(served, refusals=(*self.refusals, *refusals), left_out=left_out)

    @property
    def registrations(self) -> dict[str, registration_pb2.StateRegistration]:
        """All states by queryable name."""
        return {
            each.queryable_name: each
            for operator in self.operators
            for each in operator.registrations.values()
        }


def registration_of(
    definition: StateDefinition, query_id: bytes, job_name: str, uid: str, *, placed_by_hash: bool
) -> registration_pb2.StateRegistration:
    """The registration of a native state, equal on every server that serves the query."""
    value_type = definition.value_type
    return registration_pb2.StateRegistration(
        state_id=state_id_of(query_id, definition.queryable_name, definition.partitions),
        job_id=query_id,
        job_name=job_name,
        operator_uid=uid,
        operator_name=definition.operator,
        state_name=definition.name or definition.queryable_name,
        queryable_name=definition.queryable_name,
        kind=definition.kind,
        key_type=definition.key_type.to_proto(),
        namespace_type=None
        if definition.namespace_type is None
        else definition.namespace_type.to_proto(),
        value_types=[]
        if value_type is None
        else [registration_pb2.SchemaVersion(version=1, type=value_type.to_proto())],
        map_key_type=None
        if definition.map_key_type is None
        else definition.map_key_type.to_proto(),
        max_parallelism=definition.partitions,
        incarnation=1,
        partitioner=registration_pb2.SPARK_HASH,
        asks_all_partitions=not placed_by_hash,
        ttl=registration_pb2.TimeToLive(per_value=True) if definition.has_ttl else None,
    )


def state_id_of(query_id: bytes, name: str, partitions: int) -> int:
    """The id of a state: servers that share a query derive the same one, also after a restart."""
    digest = xxh3_64_intdigest(f"{query_id.hex()}/{partitions}/{name}".encode())
    return digest % ((1 << 31) - 1) + 1


def check_distinct(registrations: list[registration_pb2.StateRegistration]) -> None:
    """Raises `InvalidRequestError` if two states have one id."""
    names: dict[int, str] = {}
    for each in registrations:
        other = names.setdefault(each.state_id, each.queryable_name)
        if other != each.queryable_name:
            raise InvalidRequestError(
                f"the states {other!r} and {each.queryable_name!r} have the same id by chance: "
                "give one of them another name in the query"
            )
