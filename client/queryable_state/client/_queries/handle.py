"""A state under the name that a caller uses, and what the caller expects of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import (
    DescriptorMismatchError,
    InvalidRequestError,
    KeyTypeError,
)
from queryable_state.wire.schema.type_model import without_nullable
from queryable_state.wire.schema.types import TypeInfo, type_info
from queryable_state.wire.state_codecs import StateCodecs

if TYPE_CHECKING:
    from queryable_state.wire.located_state import LocatedState

_KINDS = registration_pb2.StateKind


class StateHandle:
    """A state under the job and name that the caller uses.

    `located` and `codecs` are None until the client has located the state.
    """

    def __init__(self, job: str, state_name: str, *, unpickle: bool) -> None:
        self.job = job
        self.state_name = state_name
        self.located: LocatedState | None = None
        self.codecs: StateCodecs | None = None
        self._unpickle = unpickle

    def place(self, located: LocatedState) -> None:
        """Stores a placement that is not older than the known one.

        The codecs stay the same object while the registration, and the subtasks of operator state,
        do not change.
        """
        before = self.located
        if (
            before is None
            or before.registration != located.registration
            or before.ranges != located.ranges
        ):
            self.codecs = StateCodecs(
                located.registration, unpickle=self._unpickle, ranges=located.ranges
            )
        self.located = located

    def describe(self) -> str:
        """Names the state for error texts."""
        if self.located is not None:
            return self.located.describe()
        return f"state {self.state_name!r}" + (f" of job {self.job!r}" if self.job else "")


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected key type and descriptor of a query; None: not checked."""

    key_type: TypeInfo | None = None
    kind: registration_pb2.StateKind.ValueType | None = None
    value_type: TypeInfo | None = None
    map_key_type: TypeInfo | None = None
    descriptor: str = ""
    """The descriptor for error texts."""

    @classmethod
    def of(cls, key_type: object, descriptor: Any) -> Expectation:
        """Creates an expectation from a type spec and a state descriptor.

        A descriptor is any object with `kind`, `value_type` and, for a map, `map_key_type`.
        """
        if descriptor is None:
            return cls(type_info(key_type))
        kind = getattr(descriptor, "kind", None)
        value_type = getattr(descriptor, "value_type", None)
        if kind is None and value_type is None:
            raise InvalidRequestError(
                f"descriptor {descriptor!r} has neither kind nor value_type: give the descriptor "
                "the job registered the state with, or none"
            )
        map_key_type = getattr(descriptor, "map_key_type", None)
        return cls(
            None if key_type is None else type_info(key_type),
            None if kind is None else _state_kind(kind),
            None if value_type is None else type_info(value_type),
            None if map_key_type is None else type_info(map_key_type),
            repr(descriptor),
        )

    def check(self, located: LocatedState) -> None:
        """Raises `KeyTypeError` or `DescriptorMismatchError` if the registration differs."""
        registration = located.registration
        registered = TypeInfo.from_proto(registration.key_type)
        if self.key_type is not None and self.key_type != without_nullable(registered):
            raise KeyTypeError(
                f"keys of {located.describe()} are of type {registered.simple_string()}, "
                f"not {self.key_type.simple_string()}: leave out key_type, or give that type"
            )
        if self.kind is not None and self.kind != registration.kind:
            raise DescriptorMismatchError(
                f"{located.describe()} is a {_KINDS.Name(registration.kind)} state, the descriptor "
                f"{self.descriptor} is of kind {_KINDS.Name(self.kind)}: leave out the descriptor, "
                "or give the one the job uses"
            )
        if self.value_type is not None and registration.value_types:
            newest = max(registration.value_types, key=lambda version: version.version)
            self._compare("values", TypeInfo.from_proto(newest.type), self.value_type, located)
        if self.map_key_type is not None and registration.HasField("map_key_type"):
            entry_key = TypeInfo.from_proto(registration.map_key_type)
            self._compare("map keys", without_nullable(entry_key), self.map_key_type, located)

    def _compare(
        self, what: str, registered: TypeInfo, given: TypeInfo, located: LocatedState
    ) -> None:
        if registered != given:
            raise DescriptorMismatchError(
                f"{what} of {located.describe()} are of type {registered.simple_string()}, the "
                f"descriptor {self.descriptor} says {given.simple_string()}: leave out the "
                "descriptor, or give the one the job uses"
            )


def _state_kind(kind: object) -> registration_pb2.StateKind.ValueType:
    try:
        if isinstance(kind, str):
            return _KINDS.Value(kind.upper())
        return _KINDS.Value(_KINDS.Name(kind))  # type: ignore[arg-type]
    except (ValueError, TypeError) as problem:
        raise InvalidRequestError(f"{kind!r} is no kind of state: {problem}") from problem
