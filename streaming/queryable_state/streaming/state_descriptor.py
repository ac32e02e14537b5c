"""Base of the state descriptors: name, types and queries of one state of an operator."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, ClassVar, Self

from queryable_state.streaming.ttl.state_ttl_config import StateTtlConfig
from queryable_state.v1.registration_pb2 import (
    FieldRename,
    SchemaVersion,
    StateKind,
    StateRegistration,
)
from queryable_state.wire.errors import InvalidRequestError, JobError
from queryable_state.wire.schema.field_paths import child, rows
from queryable_state.wire.schema.types import TypeInfo
from queryable_state.wire.schema.types import type_info as type_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from queryable_state.wire.schema.types import TypeInfo


def checked_renames(
    where: str, types: Iterable[TypeInfo], renamed: Mapping[str, str]
) -> dict[str, str]:
    """The renames as old names by path. Raises InvalidRequestError if a path is not a field of the
    types, or the same row still has a field of the old name."""
    siblings: dict[str, set[str]] = {}
    for info in types:
        for path, row in rows(info):
            names = {field.name for field in row.fields}
            for name in names:
                siblings.setdefault(child(path, name), set()).update(names)
    for path, old in renamed.items():
        if path not in siblings:
            raise InvalidRequestError(
                f"{where}: renamed fields are given by their paths in the declared type, and "
                f"{path!r} is not one of {_listed(siblings)}"
            )
        if not old:
            raise InvalidRequestError(f"{where}: the old name of field {path!r} is empty")
        if old in siblings[path]:
            raise InvalidRequestError(
                f"{where}: field {path!r} cannot be renamed from {old!r}, which the same row still "
                "has; once a job has run with a rename, remove it from the program"
            )
    return dict(renamed)


def checked_drops(where: str, types: Iterable[TypeInfo], dropped: Iterable[str]) -> Sequence[str]:
    """The paths of dropped fields; raises InvalidRequestError if the types still have one."""
    paths = {child(path, f.name) for info in types for path, row in rows(info) for f in row.fields}
    if isinstance(dropped, str):
        raise InvalidRequestError(f"{where}: dropped fields are a list of paths, not {dropped!r}")
    wanted = tuple(dropped)
    for path in wanted:
        if path in paths:
            raise InvalidRequestError(
                f"{where}: field {path!r} is declared as dropped, but the declared type has it"
            )
    return wanted


def _listed(paths: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(paths))) or "no fields: the type contains no row"


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name != ""


def declared_type(name: str, argument: str, spec: object) -> TypeInfo:
    """The type that a descriptor's argument gives; the error for another value names both."""
    try:
        return type_of(spec)
    except InvalidRequestError as problem:
        raise InvalidRequestError(
            f"state {name!r}: {argument}: {problem}", reason=problem.reason
        ) from None


class StateDescriptor:
    """Name and types of one state of an operator.

    Types are `Types.*`, Spark DDL strings or pyspark `DataType`s. Two descriptors are equal if they
    are of one class and equal in every property, and those of one operator with the same name must
    be. (In Flink, class and name suffice to be equal.)
    """

    kind: ClassVar[StateKind.ValueType]

    def __init__(self, name: str, value_type: TypeInfo | None) -> None:
        if not _is_name(name):
            raise InvalidRequestError(
                f"a state needs a name that is a non-empty string, not {name!r}"
            )
        self._name = name
        self._value_type = value_type
        self._default_value: bytes | None = None
        self._queryable_name: str | None = None
        self._ttl_config: StateTtlConfig | None = None
        self._renamed_fields: dict[str, str] = {}
        self._dropped_fields: Sequence[str] = ()
        self._namespace_type: TypeInfo | None = None

    @property
    def name(self) -> str:
        """Name of the state within its operator."""
        return self._name

    @property
    def state_name(self) -> str:
        """The same as `name`."""
        return self._name

    def get_name(self) -> str:
        """Name of the state within its operator."""
        return self._name

    @property
    def type_info(self) -> TypeInfo:
        """Type of the whole state: `Types.LIST` of the elements, `Types.MAP` of the entries, the
        value, or the accumulator."""
        assert self._value_type is not None
        return self._value_type

    @property
    def value_type(self) -> TypeInfo | None:
        """Type of the value, list element, map value or result; None for an aggregating state
        without a result type."""
        return self._value_type

    @property
    def map_key_type(self) -> TypeInfo | None:
        """Type of a map state's keys; None for other states."""
        return None

    @property
    def accumulator_type(self) -> TypeInfo | None:
        """Type of an aggregating state's accumulator; None for other states."""
        return None

    @property
    def function(self) -> object | None:
        """The reduce or aggregate function of the state; None for other states."""
        return None

    @property
    def namespace_type(self) -> TypeInfo | None:
        """Type of the windows that the state belongs to; None: it belongs to keys only."""
        return self._namespace_type

    def in_namespaces(self, namespace_type: TypeInfo | None) -> Self:
        """A copy for state that belongs to keys and windows; see `namespace_type`."""
        copied = copy.copy(self)
        copied._namespace_type = namespace_type
        return copied

    @property
    def queryable_name(self) -> str | None:
        """The name clients query the state by; None if it is not queryable."""
        return self._queryable_name

    def get_queryable_state_name(self) -> str | None:
        """The name clients query the state by; None if it is not queryable."""
        return self._queryable_name

    def is_queryable(self) -> bool:
        """True if clients can query the state."""
        return self._queryable_name is not None

    def set_queryable(self, name: str) -> None:
        """Makes the state queryable under a name that is unique within the job."""
        if not _is_name(name):
            raise InvalidRequestError(
                f"state {self._name!r}: a queryable name is a non-empty string, not {name!r}"
            )
        if name in (".", ".."):
            raise InvalidRequestError(
                f"state {self._name!r}: {name!r} is no queryable name, because browsers and HTTP "
                "clients take it out of the path of a request; give another name"
            )
        if self._queryable_name is not None:
            raise JobError(
                f"state {self._name!r} is queryable as {self._queryable_name!r} already and "
                f"cannot be made queryable as {name!r} too; call set_queryable once",
            )
        self._queryable_name = name

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """The time to live of the values; None if they do not expire."""
        return self._ttl_config

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Lets values expire. The state may be queryable, too.

        A config of another start of the job applies to stored values at once, by the time of
        their last update. Values that were written without a TTL do not expire before their next
        write or, if reads count as updates, their next read.
        """
        if not isinstance(ttl_config, StateTtlConfig):
            raise InvalidRequestError(
                f"state {self._name!r}: a time to live is a StateTtlConfig, not {ttl_config!r}: "
                "build one with StateTtlConfig.new_builder(Time.hours(1)).build()"
            )
        self._ttl_config = ttl_config if ttl_config.is_enabled() else None

    def set_renamed_fields(self, renamed: Mapping[str, str]) -> None:
        """Declares renamed fields of the value's rows, as new path to old name.

        A path joins field names by `.`, with `[]` for the elements of a list and the values of a
        map: `{"n": "cnt", "address.street": "str", "items[].price": "cost"}`. Tasks and clients
        read stored values under the new names. A rename that a former start applied has no
        effect.
        """
        where = f"state {self._name!r}"
        self._renamed_fields = checked_renames(where, self._types, renamed)

    def set_dropped_fields(self, dropped: Iterable[str]) -> None:
        """Declares dropped fields of the value's rows, by path.

        Required if the same start adds other fields: without the declaration the start is
        refused, because a dropped and an added field may be a rename.
        """
        self._dropped_fields = checked_drops(f"state {self._name!r}", self._types, dropped)

    @property
    def _types(self) -> list[TypeInfo]:
        return [info for info in (self.value_type, self.accumulator_type) if info is not None]

    def to_registration(
        self,
        *,
        job_id: bytes,
        operator_uid: str,
        key_type: TypeInfo,
        max_parallelism: int,
        job_name: str = "",
        operator_name: str = "",
        operator_depth: int = 0,
    ) -> StateRegistration:
        """The registration of the state; the coordinator adds the state id."""
        registration = StateRegistration(
            job_id=job_id,
            job_name=job_name,
            operator_uid=operator_uid,
            operator_name=operator_name,
            operator_depth=operator_depth,
            state_name=self._name,
            queryable_name=self._queryable_name or "",
            kind=self.kind,
            key_type=key_type.to_proto(),
            max_parallelism=max_parallelism,
            renamed_fields=[
                FieldRename(path=path, old_name=old) for path, old in self._renamed_fields.items()
            ],
            dropped_fields=self._dropped_fields,
            ttl=None if self._ttl_config is None else self._ttl_config.to_proto(),
        )
        if self._namespace_type is not None:
            registration.namespace_type.CopyFrom(self._namespace_type.to_proto())
        if self._value_type is not None:
            registration.value_types.append(
                SchemaVersion(version=1, type=self._value_type.to_proto())
            )
        if self.map_key_type is not None:
            registration.map_key_type.CopyFrom(self.map_key_type.to_proto())
        if self.accumulator_type is not None:
            registration.accumulator_types.append(
                SchemaVersion(version=1, type=self.accumulator_type.to_proto())
            )
        return registration

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateDescriptor):
            return NotImplemented
        return (
            type(self) is type(other)
            and self.name == other.name
            and self.value_type == other.value_type
            and self.map_key_type == other.map_key_type
            and self.accumulator_type == other.accumulator_type
            and self.function == other.function
            and self._default_value == other._default_value
            and self.queryable_name == other.queryable_name
            and self._renamed_fields == other._renamed_fields
            and self._dropped_fields == other._dropped_fields
            and self._ttl_config == other._ttl_config
            and self._namespace_type == other._namespace_type
        )

    def __hash__(self) -> int:
        return hash((type(self), self._name))

    def __repr__(self) -> str:
        queryable = f", queryable as {self._queryable_name!r}" if self._queryable_name else ""
        return f"{type(self).__name__}({self._name!r}, {self._shown_type()}{queryable})"

    def _shown_type(self) -> str:
        return self.type_info.simple_string()
